package worker

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// collectorShare of the memory is where the garbage collector begins to work hard, in hundredths.
	collectorShare = 90
	// collectorPercent is how much garbage there may be, in hundredths of what is in use: with the default of 100 the
	// collector takes a fifth of a request's time. Where the memory gets scarce the limit counts instead.
	collectorPercent = 400
	// watchInterval is the time between two looks at the memory. A look takes some microseconds.
	watchInterval = 5 * time.Millisecond
	// keptShare is the share of the memory that a worker may have after a request, to be used again.
	keptShare = 4
)

// limitMemory bounds what this process uses until stop is closed. What is over it ends the process.
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

// usedMemory is how many bytes this process has from the system.
func usedMemory() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()) // #nosec G115 -- far less than the maximum
}
