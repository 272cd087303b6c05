package main

import (
	"fmt"
	"maps"
	"slices"
)

// The columns of the tables. What the API server and etcd use counts with the host or the loop that they work for.
const hostColumn, pluginColumn, loopColumn = "host", "plugin", "bare loop"

// The rows of the tables, per job, but for those of requests of a kind.
const (
	rateRow   = "jobs/s"
	cpuRow    = "CPU, ms"
	serverRow = "CPU of API server and etcd, ms"
	allRow    = "requests in all"
)

type cell struct{ row, column string }

// figures are the figures of each round by row and column.
type figures map[string]map[string][]float64

func (f figures) add(row, column string, figure float64) {
	if f[row] == nil {
		f[row] = map[string][]float64{}
	}
	f[row][column] = append(f[row][column], figure)
}

// say prints the table: medians of all rounds, with the least and the most. Where there is nothing in a round there was
// nothing to count.
func (f figures) say() {
	rounds := 0
	for _, row := range f {
		for _, all := range row {
			rounds = max(rounds, len(all))
		}
	}
	first := []string{rateRow, cpuRow, serverRow, allRow}
	rows := slices.DeleteFunc(slices.Sorted(maps.Keys(f)), func(row string) bool { return slices.Contains(first, row) })
	const format = "%-32s %22s %22s %22s %8s"
	say(format, "", hostColumn, pluginColumn, loopColumn, "ratio")
	for _, row := range slices.Concat(first, rows) {
		if f[row] == nil {
			continue
		}
		medians, texts := map[string]float64{}, map[string]string{}
		for column, all := range f[row] {
			all = append(all, make([]float64, rounds-len(all))...)
			slices.Sort(all)
			medians[column] = all[len(all)/2]
			texts[column] = fmt.Sprintf("%.2f (%.2f-%.2f)", medians[column], all[0], all[len(all)-1])
		}
		ratio := ""
		if ours, floor := medians[hostColumn]+medians[pluginColumn], medians[loopColumn]; ours > 0 && floor > 0 {
			ratio = fmt.Sprintf("%.2f", ours/floor)
		}
		say(format, row, texts[hostColumn], texts[pluginColumn], texts[loopColumn], ratio)
	}
	say("")
}
