package output

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const goroutines = `goroutine 1 [running]:
main.main()
	/src/main.go:4 +0x27

goroutine 7 gp=0xc000 m=nil [select]:
main.work(0x1)
	/src/main.go:9 +0x27
created by main.main in goroutine 1
	/src/main.go:3 +0x1b
`

const traceback = `Traceback (most recent call last):
  File "/src/plugin.py", line 3, in <module>
    work()
    ~~~~^^
  File "/src/plugin.py", line 2, in work
    raise ValueError("oh")
`

const race = `WARNING: DATA RACE
Write at 0x00c000014108 by goroutine 7:
  main.main.func1()
      /src/main.go:8 +0x2e

Previous read at 0x00c000014108 by main goroutine:
  main.main()
      /src/main.go:10 +0xaa
`

func crash(message, stack string) map[string]any {
	r := map[string]any{"level": "ERROR", "msg": message}
	if stack != "" {
		r["stack"] = strings.Trim(stack, "\n")
	}
	return r
}

func TestReports(t *testing.T) {
	t.Parallel()
	const record = `{"level":"WARN","msg":"m"}` + "\n"
	recorded := map[string]any{"level": "WARN", "msg": "m"}
	runRecordCases(t, map[string]recordCase{
		"panic": {
			"the goroutines belong to it", "before\npanic: oh\n\n" + goroutines,
			[]map[string]any{info("before"), crash("panic: oh", goroutines)},
		},
		"panic after a panic": {
			"as does what was recovered before", "panic: oh [recovered]\n\tpanic: oh 2\n\n" + goroutines,
			[]map[string]any{crash("panic: oh [recovered]", "\tpanic: oh 2\n\n"+goroutines)},
		},
		"panic of a signal": {
			"it is one crash", "panic: nil\n[signal SIGSEGV: code=0x1]\n\n" + goroutines,
			[]map[string]any{crash("panic: nil", "[signal SIGSEGV: code=0x1]\n\n"+goroutines)},
		},
		"panic alone": {"a report may have no stack", "panic: oh", []map[string]any{crash("panic: oh", "")}},
		"panic with CRLF": {
			"line ends are no part of it", "panic: oh\r\n\r\ngoroutine 1 [running]:\r\n",
			[]map[string]any{crash("panic: oh", "goroutine 1 [running]:")},
		},
		"fatal error": {
			"the runtime's own", "fatal error: all goroutines are asleep - deadlock!\n\n" + goroutines,
			[]map[string]any{crash("fatal error: all goroutines are asleep - deadlock!", goroutines)},
		},
		"signal": {
			"one that the runtime does not survive", "SIGSEGV: segmentation violation\nPC=0x0 m=0\n\n" + goroutines,
			[]map[string]any{crash("SIGSEGV: segmentation violation", "PC=0x0 m=0\n\n"+goroutines)},
		},
		"no crash": {
			"somebody may log like that", "SIGHUP: read the configuration\nsome panic: oh\ngoroutine 7 has ended\n",
			[]map[string]any{info("SIGHUP: read the configuration"), info("some panic: oh"), info("goroutine 7 has ended")},
		},
		"Python's own fatal error": {
			"it is no exception", "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"x.py\"\n",
			[]map[string]any{crash("Fatal Python error: Segmentation fault", "Current thread 0x1 (most recent call first):\n  File \"x.py\"")},
		},
		"stack without a panic": {
			"debug.PrintStack prints one", goroutines,
			[]map[string]any{crash("goroutine 1 [running]:", strings.TrimPrefix(goroutines, "goroutine 1 [running]:\n"))},
		},
		"records in between": {
			"other threads go on while one dies", "panic: oh\n" + record + "\n" + goroutines + record,
			[]map[string]any{recorded, recorded, crash("panic: oh", goroutines)},
		},
		"race": {
			"it has an end", "before\n" + raceRule + "\n" + race + raceRule + "\nafter\n",
			[]map[string]any{info("before"), crash("WARNING: DATA RACE", strings.TrimPrefix(race, "WARNING: DATA RACE\n")), info("after")},
		},
		"two races": {
			"each is one", strings.Repeat(raceRule+"\n"+race+raceRule+"\n", 2),
			[]map[string]any{
				crash("WARNING: DATA RACE", strings.TrimPrefix(race, "WARNING: DATA RACE\n")),
				crash("WARNING: DATA RACE", strings.TrimPrefix(race, "WARNING: DATA RACE\n")),
			},
		},
		"traceback": {
			"the exception, which comes last, says what happened", "before\n" + traceback + "ValueError: oh\nafter\n",
			[]map[string]any{info("before"), crash("ValueError: oh", traceback), info("after")},
		},
		"traceback that breaks off": {
			"what there is of it is kept", traceback,
			[]map[string]any{crash("Traceback (most recent call last):", strings.SplitN(traceback, "\n", 2)[1])},
		},
		"exception of an exception": {
			"Python prints one after the other",
			traceback + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" +
				traceback + "ValueError: oh\n",
			[]map[string]any{
				crash("KeyError: 1", traceback), info("During handling of the above exception, another exception occurred:"),
				crash("ValueError: oh", traceback),
			},
		},
	})
}

func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"go": "panic: oh", "python": "Traceback (most recent call last):"} {
		f := newFixture(t)
		w := f.Writer("stderr")
		write(t, w, first+"\n", 1<<10)
		frame := "\t" + strings.Repeat("f", 99) + "\n"
		write(t, w, strings.Repeat(frame, 100_000), 32<<10)
		write(t, w, "\tshort\nValueError: oh\n", 1<<10)
		closeWriter(t, w)
		got := f.said()
		if len(got) != 1 {
			t.Fatalf("%s: expected a record, but found %.2000v", name, got)
		}
		stack, ok := got[0]["stack"].(string)
		if !ok || len(stack) < maxStack*9/10 || len(stack) > maxStack*11/10 || !strings.HasSuffix(stack, " more bytes were left out") || strings.Contains(stack, "short") {
			t.Errorf("%s: expected about %d bytes of stack and a note, but found %d: ...%.100s", name, maxStack, len(stack), stack[max(len(stack)-100, 0):])
		}
		if want := map[string]string{"go": first, "python": "ValueError: oh"}[name]; got[0]["msg"] != want {
			t.Errorf("%s: expected message %q, but found %q", name, want, got[0]["msg"])
		}
	}
}

// What only looks like the end of a program must not swallow what the program says later.
func TestReportOfAProgramThatLivesOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		next string
		want map[string]any
	}{
		"text":   {"later\n", info("later")},
		"record": {`{"level":"INFO","msg":"later"}` + "\n", info("later")},
		"crash":  {"panic: later\n", nil}, // it is held back in its turn
	} {
		f := newFixture(t, limited(1, 1<<20))
		w := f.Writer("stderr")
		tracebacks := strings.Repeat("Traceback (most recent call last):\nKeyError\n", 1000)
		write(t, w, tracebacks, 32<<10)
		f.out.Reset()
		write(t, w, "panic: not really\n", 1<<10)
		f.pass(reportTime - 1)
		write(t, w, "the rest\n", 1<<10)
		if got := f.said(); got != nil {
			t.Errorf("%s: expected the report to be held back, but found %v", name, got)
		}
		f.pass(1)
		write(t, w, test.next, 1<<10)
		want := []map[string]any{crash("panic: not really", "the rest")}
		if test.want != nil {
			want = append(want, test.want)
		}
		if diff := cmp.Diff(want, f.said()); diff != "" {
			t.Errorf("%s: records (-want +got):\n%s", name, diff)
		}
		for _, r := range f.records() {
			if r["msg"] == "panic: not really" && r["time"] != noon.Format(time.RFC3339) {
				t.Errorf("%s: expected the report to be of the time of its first line, but found %s", name, r["time"])
			}
		}
	}
}
