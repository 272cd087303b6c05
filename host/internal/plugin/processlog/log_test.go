package processlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/test/logged"
)

func newLog(log *slog.Logger) *Log { return New(log, clocktesting.NewFakeClock(time.Now())) }

// ends has a process write its last words to standard error.
func ends(l *Log, text string) {
	w := l.Writer("stderr")
	_, _ = w.Write([]byte(text))
	_ = w.Close()
}

// said has a process write something, in pieces of a size, and returns its records without plugin, stream and time.
func said(t *testing.T, text string, size int) []map[string]any {
	t.Helper()
	out := &logged.Records{}
	w := newLog(out.Logger().With("plugin", "mine")).Writer("stderr")
	for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
		if _, err := w.Write(rest[:min(size, len(rest))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	for _, r := range out.All() {
		if r["plugin"] != "mine" {
			t.Fatalf("record %v is of another plugin", r)
		}
		if r["stream"] == "stderr" {
			delete(r, "plugin")
			delete(r, "stream")
			delete(r, "time")
			list = append(list, r)
		}
	}
	return list
}

type logCase struct {
	reason, in string
	want       []map[string]any
}

func runLogCases(t *testing.T, cases map[string]logCase) {
	t.Helper()
	for name, test := range cases {
		for _, size := range []int{1, 7, 1 << 30} {
			t.Run(fmt.Sprintf("%s/%d bytes at once", name, size), func(t *testing.T) {
				t.Parallel()
				if diff := cmp.Diff(test.want, said(t, test.in, size)); diff != "" {
					t.Errorf("%s: records (-want +got):\n%.2000s", test.reason, diff)
				}
			})
		}
	}
}

func info(message string) map[string]any { return map[string]any{"level": "INFO", "msg": message} }

func crashed(message, stack string) map[string]any {
	r := map[string]any{"level": "ERROR", "msg": message}
	if stack != "" {
		r["stack"] = strings.Trim(stack, "\n")
	}
	return r
}

const (
	goroutines = "goroutine 1 [running]:\nmain.main()\n\t/src/main.go:4 +0x27\n\n" +
		"goroutine 7 [select]:\nmain.work(0x1)\n\t/src/main.go:9\n"
	exception = "Traceback (most recent call last):\n  File \"/src/plugin.py\", line 3, in <module>\n    work()\n"
)

func TestLogRecords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	runLogCases(t, map[string]logCase{
		"slog": {
			"level, message and attributes are kept",
			`{"time":"2026-01-02T12:00:00Z","level":"WARN","msg":"hello","a":"b"}` + "\n",
			[]map[string]any{{"level": "WARN", "msg": "hello", "a": "b"}},
		},
		"hclog": {
			"as are those of hclog",
			`{"@level":"error","@message":"hello","@module":"m","@timestamp":"2026-01-02T13:00:00+01:00"}` + "\n",
			[]map[string]any{{"level": "ERROR", "msg": "hello", "@module": "m"}},
		},
		"values": {
			"a float would lose digits, and objects stay what they are",
			`{"level":"INFO","msg":"m","n":9007199254740993,"o":{"a":[1,{"b":null}]}}`,
			[]map[string]any{{"level": "INFO", "msg": "m", "n": json.Number("9007199254740993"), "o": map[string]any{
				"a": []any{json.Number("1"), map[string]any{"b": nil}},
			}}},
		},
		"text": {"each line is a record, and an empty one says nothing", "one\r\n\n\r\ntwo",
			[]map[string]any{info("one"), info("two")}},
		"not UTF-8": {"a log is text", "a\xff\xfeb\n", []map[string]any{info("a\uFFFD\uFFFDb")}},
		"long line": {
			"the rest of the line is passed over, not the next one", long + long + "\nnext\n",
			[]map[string]any{{"level": "INFO", "msg": long, "truncated": true}, info("next")},
		},
		"panic": {
			"the goroutines belong to it", "before\npanic: oh\n\n" + goroutines,
			[]map[string]any{info("before"), crashed("panic: oh", goroutines)},
		},
		"signal": {
			"the runtime does not survive it", "SIGSEGV: segmentation violation\nPC=0x0\n" + goroutines,
			[]map[string]any{crashed("SIGSEGV: segmentation violation", "PC=0x0\n"+goroutines)},
		},
		"panic alone": {"a report may have no stack", "panic: oh", []map[string]any{crashed("panic: oh", "")}},
		"records in a panic": {
			"other threads go on while one dies", "panic: oh\n" + `{"level":"WARN","msg":"m"}` + "\n" + goroutines,
			[]map[string]any{{"level": "WARN", "msg": "m"}, crashed("panic: oh", goroutines)},
		},
		"no crash": {
			"somebody may log like that", "SIGHUP: read the configuration\nsome panic: oh\ngoroutine 7 has ended\n",
			[]map[string]any{info("SIGHUP: read the configuration"), info("some panic: oh"), info("goroutine 7 has ended")},
		},
		"exception": {
			"a program may survive it", exception + "ValueError: oh\n",
			[]map[string]any{info("Traceback (most recent call last):"), info(`  File "/src/plugin.py", line 3, in <module>`),
				info("    work()"), info("ValueError: oh")},
		},
	})
}

// A line that is no record is text, whatever it looks like. The first ones end a host that lets go-plugin read them.
func TestLogOfNoRecords(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"@level":"info","@message":123}`, `{"@message":123}`, `{"@level":[],"@message":"m","@timestamp":{}}`, `{"msg":"m"}`,
		`["level","msg"]`,
		`{"level":"info","msg":"x"} tail`, `{"level":"info","msg":"x"}{"level":"info","msg":""}`, `{"level":"info","msg":"x"`,
		`{`,
		`{"level":"info","msg":"m","d":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	} {
		if diff := cmp.Diff([]map[string]any{info(line)}, said(t, line+"\n", 1<<20)); diff != "" {
			t.Errorf("records (-want +got):\n%.2000s", diff)
		}
	}
}

// Whatever the plugin writes, the host's own attributes stay the host's.
// Rule (SECURITY.md#plugins): A plugin cannot forge the host's keys in the log.
func TestLogKeysAreNotForged(t *testing.T) {
	t.Parallel()
	runLogCases(t, map[string]logCase{
		"keys of the record": {
			"the first is the record's, the others are attributes",
			`{"level":"INFO","msg":"hello","level":"high","time":2,"msg":2}`,
			[]map[string]any{{"level": "INFO", "msg": "hello", "plugin_level": "high", "plugin_msg": json.Number("2")}},
		},
		"a key twice": {
			"such as of the sdk and of the deployer; there is no third one",
			`{"level":"INFO","msg":"m","jobID":"1","jobID":"2","jobID":"3","operation":null}`,
			[]map[string]any{{"level": "INFO", "msg": "m", "jobID": "1", "plugin_jobID": "2", "operation": nil}},
		},
		"keys of the host": {
			"another plugin's name or stream would mislead, in whatever case",
			`{"level":"INFO","msg":"m","Plugin":"other","stream":"host"}`,
			[]map[string]any{{"level": "INFO", "msg": "m", "plugin_Plugin": "other", "plugin_stream": "host"}},
		},
		"newline in a message": {
			"it stays in its record", `{"level":"INFO","msg":"m\n{\"level\":\"ERROR\",\"msg\":\"forged\"}"}`,
			[]map[string]any{info("m\n" + `{"level":"ERROR","msg":"forged"}`)},
		},
	})
}

// Nothing that a plugin writes redraws an operator's terminal, in either format of the host's log.
// Rule (SECURITY.md#plugins): The log shows texts of plugins as plain text.
func TestLogIsPlainText(t *testing.T) {
	t.Parallel()
	const nasty = "a\xff\xfeb\x00\x07\x1b[2J\x7f\u009b2J\u202e\u2028"
	escaped := `\u0000\u001b[2J\u007f\u009b2J\u202e`
	in := nasty + "\n" +
		`{"level":"INFO","msg":"` + escaped + `","` + escaped + `":"` + escaped + `",` +
		`"o":{"` + escaped + `":["` + escaped + `"]}}` + "\n" +
		"panic: " + nasty + "\n\t" + nasty + "\n"
	for format, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"json": func(out *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(out, nil) },
		"text": func(out *bytes.Buffer) slog.Handler { return slog.NewTextHandler(out, nil) },
	} {
		var out bytes.Buffer
		l := newLog(slog.New(handler(&out)))
		ends(l, in)
		if lines := strings.Count(out.String(), "\n"); lines != 3 {
			t.Errorf("%s: expected 3 lines, but found %d: %q", format, lines, out.String())
		}
		bad := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		words := strings.ReplaceAll(strings.Join(l.LastWords(time.Minute), "\n"), "\u2028", "") // which the log escapes
		for _, text := range []string{words, out.String()} {
			if i := strings.IndexFunc(text, bad); i >= 0 || !utf8.ValidString(text) {
				t.Errorf("%s: found a bad character at %d of %q", format, i, text)
			}
		}
	}
}

// Numbers and booleans of a plugin's record are such in either format.
func TestLogValues(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ends(newLog(slog.New(slog.NewTextHandler(&out, nil))), `{"level":"INFO","msg":"m","attempt":3,"ok":true,"text":"3"}`)
	if !strings.Contains(out.String(), "attempt=3 ok=true text=3") {
		t.Errorf("found %s", out.String())
	}
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]slog.Level{
		"trace": slog.LevelDebug - 4, "DEBUG+1": slog.LevelDebug + 1, "Info": slog.LevelInfo, "warn": slog.LevelWarn,
		"WARNING": slog.LevelWarn,
		"error":   slog.LevelError, "CRITICAL": slog.LevelError, "fatal": slog.LevelError, "": slog.LevelInfo,
		"loud": slog.LevelInfo,
	} {
		if got := parseLevel(text); got != want {
			t.Errorf("level %q: expected %s, but found %s", text, want, got)
		}
	}
}

// A flood is dropped, counted and told of, and hides neither the crash that follows nor the last words.
func TestLogFlood(t *testing.T) {
	t.Parallel()
	out, clock := &logged.Records{}, clocktesting.NewFakeClock(time.Now())
	l := New(out.Logger(), clock)
	w := l.Writer("stderr")
	const most = logBurst * linesPerSecond
	_, _ = w.Write([]byte(strings.Repeat("flood\n", most+100)))
	if got := len(out.With("flood")); got != most || l.Dropped() != 100 {
		t.Errorf("expected %d lines and 100 dropped, but found %d and %d", most, got, l.Dropped())
	}
	clock.Step(droppedEvery)
	_, _ = w.Write([]byte("later\n"))
	if got := out.With("plugin logs too much"); len(got) != 2 || got[0]["lines"] != json.Number("1") ||
		got[1]["lines"] != json.Number("99") {
		t.Errorf("expected to be told at once, and of the others later, but found %v", got)
	}
	_, _ = w.Write([]byte(strings.Repeat("flood\n", most) + "panic: oh\n" + goroutines + strings.Repeat("\tframe\n", 100)))
	_ = w.Close()
	if got := out.With("panic: oh"); len(got) != 1 {
		t.Errorf("expected the crash to be logged, but found %v", got)
	}
	words := strings.Join(l.LastWords(time.Minute), "\n")
	if !strings.HasPrefix(words, "flood\n") || !strings.Contains(words,
		"panic: oh\ngoroutine 1 [running]:\nmain.main()\n    /src/main.go:4") {
		t.Errorf("expected the beginning of the crash in the last words, but found %q", words)
	}
}

// Bytes count as well as lines.
func TestLogFloodOfBytes(t *testing.T) {
	t.Parallel()
	got := said(t, strings.Repeat(strings.Repeat("x", 32<<10)+"\n", 1000), 1<<20)
	if want := logBurst * linesPerSecond / (1 + 32<<10/lineBytes); len(got) != want {
		t.Errorf("expected %d lines, but found %d", want, len(got))
	}
}

// What only looks like the end of a program must not swallow what it says later.
func TestCrashReportEndsAfterAWhile(t *testing.T) {
	t.Parallel()
	out, clock := &logged.Records{}, clocktesting.NewFakeClock(time.Now())
	w := New(out.Logger(), clock).Writer("stderr")
	_, _ = w.Write([]byte("panic: not really\n"))
	clock.Step(crashTime)
	_, _ = w.Write([]byte("later\n"))
	if len(out.With("panic: not really")) != 1 || len(out.With("later")) != 1 {
		t.Errorf("expected both, but found %v", out.All())
	}
}

func TestCrashReportIsBounded(t *testing.T) {
	t.Parallel()
	got := said(t, "panic: oh\n"+strings.Repeat("\t"+strings.Repeat("f", 99)+"\n", 100_000), 32<<10)
	if len(got) != 1 {
		t.Fatalf("expected a record, but found %d", len(got))
	}
	if stack, _ := got[0]["stack"].(string); len(stack) > maxStack+100 || !strings.HasSuffix(stack, "(cut)") {
		t.Errorf("expected %d bytes of stack and a note, but found %d", maxStack, len(stack))
	}
}

// Of a crash the first line names the cause, and else the last.
func TestLastWords(t *testing.T) {
	t.Parallel()
	lines := append(strings.Split(strings.TrimSpace(exception), "\n"), "ValueError: oh")
	long := strings.Repeat("x", maxLastBytes-len("…")) + "…"
	for name, test := range map[string]struct {
		reason, in string
		want       []string
		cause      string
	}{
		"records": {"they are read by people", `{"level":"INFO","msg":"no room","disk":"/tmp","free":0}` + "\n" +
			`{"@level":"error","@message":"no \u001b[31mdisk\u001b[0m"}` + "\n",
			[]string{"no room disk=/tmp free=0", "no disk"}, "no disk"},
		"colours": {
			"they are nothing to read", "\x1b[1;31mred\x1b[0m\x1b[2K alert\a\n", []string{"red alert"}, "red alert",
		},
		"exception":  {"its last lines say more", exception + "ValueError: oh", lines, "ValueError: oh"},
		"long lines": {"all of them must find room in a record", strings.Repeat("x", maxLine), []string{long}, long},
		"nothing":    {"there are none", "", nil, ""},
		"crash": {"the stack says less", "one\npanic: oh\ngoroutine 1 [running]:\n",
			[]string{"one", "panic: oh", "goroutine 1 [running]:"}, "panic: oh"},
	} {
		clock := clocktesting.NewFakeClock(time.Now())
		l := New(slog.New(slog.DiscardHandler), clock)
		ends(l, "long ago\n")
		clock.Step(time.Minute)
		ends(l, test.in)
		words := l.LastWords(time.Second)
		if diff := cmp.Diff(test.want, words); diff != "" {
			t.Errorf("%s: %s: last words (-want +got):\n%.2000s", name, test.reason, diff)
		}
		if got := Cause(words); got != test.cause {
			t.Errorf("%s: expected the cause %q, but found %q", name, test.cause, got)
		}
	}
}

// Half a line of one stream does not spoil a line of another.
func TestLogStreamsDoNotMix(t *testing.T) {
	t.Parallel()
	out := &logged.Records{}
	l := newLog(out.Logger())
	stdout, stderr := l.Writer("stdout"), l.Writer("stderr")
	_, _ = stdout.Write([]byte("half"))
	_, _ = stderr.Write([]byte("whole\n"))
	_, _ = stdout.Write([]byte(" and half\n"))
	if all := out.All(); len(all) != 2 || all[0]["msg"] != "whole" || all[1]["msg"] != "half and half" ||
		all[1]["stream"] != "stdout" {
		t.Errorf("found %v", all)
	}
}
