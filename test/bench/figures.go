package main

import (
	"fmt"
	"maps"
	"slices"
)

// The columns of the tables. What the API server and etcd use counts with the host.
const hostColumn, pluginColumn = "host", "plugin"

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
	const format = "%-32s %22s %22s"
	say(format, "", hostColumn, pluginColumn)
	for _, row := range slices.Concat(first, rows) {
		if f[row] == nil {
			continue
		}
		texts := map[string]string{}
		for column, all := range f[row] {
			all = append(all, make([]float64, rounds-len(all))...)
			slices.Sort(all)
			texts[column] = fmt.Sprintf("%.2f (%.2f-%.2f)", all[len(all)/2], all[0], all[len(all)-1])
		}
		say(format, row, texts[hostColumn], texts[pluginColumn])
	}
	say("")
}
