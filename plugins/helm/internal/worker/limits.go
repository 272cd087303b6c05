package worker

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// collectorShare is the memory, in hundredths of the limit, from which on the garbage collector works hard.
	collectorShare = 90
	// collectorPercent bounds the garbage, in hundredths of the memory in use: with the default of 100 the collector
	// takes a fifth of a request's time, and with 400 each process 6 MiB more. When memory gets scarce the limit counts
	// instead.
	collectorPercent = 200
	// watchInterval is the time between two looks at the memory. A look takes some microseconds.
	watchInterval = 5 * time.Millisecond
	// keptShare is the divisor of the memory: a worker with less than this share after a request is used again.
	keptShare = 4
)

// limitMemory bounds the memory of this process until stop is closed. Above the limit the process ends.
func limitMemory(limit int64, stop <-chan struct{}) error {
	debug.SetGCPercent(collectorPercent)
	debug.SetMemoryLimit(limit / 100 * collectorShare)
	go watchMemory(limit, stop)
	return limitMapped(limit)
}

func watchMemory(limit int64, stop <-chan struct{}) {
	for usedMemory() <= limit {
		select {
		case <-time.After(watchInterval):
		case <-stop:
			return
		}
	}
	os.Exit(exitMemory)
}

// usedMemory returns the bytes this process has from the system.
func usedMemory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()) // #nosec G115 -- far less than the maximum
}
