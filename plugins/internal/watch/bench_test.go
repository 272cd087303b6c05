package watch

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkWakeUp tells how long it takes from a change, which is part of it, to the wake-up.
func BenchmarkWakeUp(b *testing.B) {
	w := newWorld(b)
	w.create(configMaps, "o", labels)
	w.run()
	var waited time.Duration
	for b.Loop() {
		b.StopTimer()
		w.follow("item", w.seen(configMaps, "o"))
		w.waitForSync(1)
		time.Sleep(DefaultPause) // what is woken again sooner has to wait
		b.StartTimer()
		began := time.Now()
		w.touch(configMaps, "o")
		w.mustWake("item")
		waited += time.Since(began)
	}
	b.ReportMetric(float64(waited.Milliseconds())/float64(b.N), "ms/wake-up")
}

// BenchmarkFollow follows 500 objects again and again, as each call of a deploy item does.
func BenchmarkFollow(b *testing.B) {
	w := newWorld(b)
	w.run()
	const objects = 500
	var seen []Seen
	for i := range objects {
		name := fmt.Sprintf("o%d", i)
		w.create(configMaps, name, labels)
		seen = append(seen, w.seen(configMaps, name))
	}
	w.follow("item", seen...)
	w.waitForSync(1)
	b.ReportAllocs()
	for b.Loop() {
		w.follow("item", seen...)
	}
	if watches, _ := w.counts(); watches > 1 {
		b.Errorf("expected one watch, but found %d", watches)
	}
}
