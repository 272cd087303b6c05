package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

const (
	// warmUp is the part of the samples that does not count: caches are filled then.
	warmUp = 0.2
	// A figure has grown that is larger at the end than at the beginning by this factor, and by this much besides.
	growthFactor = 1.25
	megabytes    = 16
	goroutines   = 50
)

// samples are what a replica takes, by what was measured, in the order of time.
type samples map[string][]float64

// sample measures what the first replica takes, whose host is never killed.
func (e *engine) sample() {
	e.t.Helper()
	r := e.fleet[0]
	routines, err := r.Metric(e.t.Context(), "go_goroutines")
	if err != nil {
		e.t.Fatal(err)
	}
	processes, err := r.Children()
	if err != nil {
		e.t.Fatal(err)
	}
	processes["host"] = []int{r.Pid()}
	e.memory["goroutines of the host"] = append(e.memory["goroutines of the host"], routines)
	for name, pids := range processes {
		resident := 0.0
		for _, pid := range pids {
			resident += residentMegabytes(pid)
		}
		e.memory["MiB of "+name] = append(e.memory["MiB of "+name], resident)
	}
}

// residentMegabytes is what a process has in memory; 0 if it has ended.
func residentMegabytes(pid int) float64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, _ := p.NewStatus()
	return float64(status.VmRSS) / (1 << 20)
}

// checkGrowth compares medians of the first and the last quarter of the samples after the warm-up. In a short time
// caches are still being filled.
func (e *engine) checkGrowth(long bool) {
	e.t.Helper()
	median := func(of []float64) float64 { return slices.Sorted(slices.Values(of))[len(of)/2] }
	for what, all := range e.memory {
		all = all[int(float64(len(all))*warmUp):]
		quarter := max(1, len(all)/4)
		start, end, allowed := median(all[:quarter]), median(all[len(all)-quarter:]), float64(megabytes)
		if !strings.HasPrefix(what, "MiB") {
			allowed = goroutines
		}
		text := fmt.Sprintf("%s: %.0f at the beginning, %.0f at the end", what, start, end)
		if e.t.Log(text); long && end > start*growthFactor && end > start+allowed {
			e.t.Error("grown: " + text)
		}
	}
}
