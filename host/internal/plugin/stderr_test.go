package plugin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLogWriter(t *testing.T) {
	t.Parallel()
	const at = "2026-01-02T03:04:05.678901234Z"
	tooDeep := `{"level":"INFO","msg":"m","deep":` + strings.Repeat("[", 20_000) + "1" + strings.Repeat("]", 20_000) + "}"
	for name, test := range map[string]struct {
		reason string
		in     string
		want   []map[string]any // time is left out unless the case is about it
	}{
		"slog": {
			"level, message and fields are kept", `{"time":"` + at + `","level":"WARN","msg":"hello","a":"b"}` + "\n",
			[]map[string]any{{"level": "WARN", "msg": "hello", "a": "b"}},
		},
		"hclog": {
			"as are those of go-plugin's own logger",
			`{"@level":"error","@message":"hello","@module":"m","@timestamp":"2026-01-02T03:04:05.678901+01:00"}` + "\n",
			[]map[string]any{{"level": "ERROR", "msg": "hello", "@module": "m"}},
		},
		"trace": {
			"slog has no name for it", `{"@level":"trace","@message":"hello"}` + "\n",
			[]map[string]any{{"level": "DEBUG-4", "msg": "hello"}},
		},
		"level in between": {
			"slog has levels between the names", `{"level":"INFO+2","msg":"hello"}` + "\n",
			[]map[string]any{{"level": "INFO+2", "msg": "hello"}},
		},
		"unknown level": {
			"a level that nobody knows is information", `{"level":"loud","msg":"hello"}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": "hello"}},
		},
		"attributes of the same names": {
			"the first counts, the others are attributes",
			`{"time":"` + at + `","level":"INFO","msg":"hello","level":"high","time":"noon","@message":"other"}` + "\n",
			[]map[string]any{{"level": "high", "msg": "hello", "time": "noon", "@message": "other"}},
		},
		"large numbers": {
			"a float would lose digits", `{"level":"INFO","msg":"m","n":9007199254740993,"f":1e400}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": "m", "n": json.Number("9007199254740993"), "f": json.Number("1e400")}},
		},
		"nested": {
			"objects and arrays stay what they are", `{"level":"INFO","msg":"m","o":{"a":[1,{"b":null}],"t":true}}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": "m", "o": map[string]any{
				"a": []any{json.Number("1"), map[string]any{"b": nil}}, "t": true,
			}}},
		},
		"too deeply nested": {
			"what the decoder refuses is text", tooDeep + "\n", []map[string]any{{"level": "INFO", "msg": tooDeep}},
		},
		"message that is no text": {
			"go-plugin panics on it", `{"@level":"info","@message":123}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": `{"@level":"info","@message":123}`}},
		},
		"level and time that are no texts": {
			"go-plugin panics on them", `{"@level":[],"@message":"m","@timestamp":{}}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": `{"@level":[],"@message":"m","@timestamp":{}}`}},
		},
		"object that is no record": {
			"it may be meant for somebody", `{"a":"b"}` + "\n", []map[string]any{{"level": "INFO", "msg": `{"a":"b"}`}},
		},
		"array": {
			"no record", `["level","msg"]` + "\n", []map[string]any{{"level": "INFO", "msg": `["level","msg"]`}},
		},
		"something after the record": {
			"nothing may get lost", `{"level":"info","msg":"x"} tail` + "\n",
			[]map[string]any{{"level": "INFO", "msg": `{"level":"info","msg":"x"} tail`}},
		},
		"two records in a line": {
			"nothing may get lost", `{"level":"info","msg":"x"}{"level":"info","msg":"y"}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": `{"level":"info","msg":"x"}{"level":"info","msg":"y"}`}},
		},
		"space after the record": {
			"there is nothing to lose", `{"level":"info","msg":"x"} ` + "\n", []map[string]any{{"level": "INFO", "msg": "x"}},
		},
		"record that breaks off": {
			"half a record is none", `{"level":"info","msg":"x"` + "\n",
			[]map[string]any{{"level": "INFO", "msg": `{"level":"info","msg":"x"`}},
		},
		"record with a wrong brace": {
			"no JSON", `{"level":"info","msg":"x"]` + "\n", []map[string]any{{"level": "INFO", "msg": `{"level":"info","msg":"x"]`}},
		},
		"text": {
			"each line is a record", "one\ntwo\n", []map[string]any{{"level": "INFO", "msg": "one"}, {"level": "INFO", "msg": "two"}},
		},
		"empty lines": {
			"they say nothing", "\n\r\none\n\n", []map[string]any{{"level": "INFO", "msg": "one"}},
		},
		"CRLF": {
			"some end their lines like that", "one\r\n" + `{"level":"INFO","msg":"two"}` + "\r\n",
			[]map[string]any{{"level": "INFO", "msg": "one"}, {"level": "INFO", "msg": "two"}},
		},
		"invalid UTF-8": {
			"a log is text", "a\xff\xfeb\n", []map[string]any{{"level": "INFO", "msg": "a\uFFFDb"}},
		},
		"last line": {
			"last words need no newline", "one\ntwo", []map[string]any{{"level": "INFO", "msg": "one"}, {"level": "INFO", "msg": "two"}},
		},
		"too long": {
			"the rest of the line is passed over, not the next one", strings.Repeat("x", 3*maxLine) + "\nnext\n",
			[]map[string]any{{"level": "INFO", "msg": strings.Repeat("x", maxLine), "truncated": true}, {"level": "INFO", "msg": "next"}},
		},
		"too long to be a record": {
			"half a record is none", `{"level":"WARN","msg":"` + strings.Repeat("x", maxLine) + `"}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": `{"level":"WARN","msg":"` + strings.Repeat("x", maxLine-len(`{"level":"WARN","msg":"`)), "truncated": true}},
		},
		"as long as may be": {
			"a bound is no mistake", strings.Repeat("x", maxLine) + "\n", []map[string]any{{"level": "INFO", "msg": strings.Repeat("x", maxLine)}},
		},
		"panic": {
			"the stack belongs to it, records keep their level",
			"before\npanic: oh\n\ngoroutine 1 [running]:\n" + `{"level":"INFO","msg":"m"}` + "\nmain.main()\n",
			[]map[string]any{
				{"level": "INFO", "msg": "before"},
				{"level": "ERROR", "msg": "panic: oh"},
				{"level": "ERROR", "msg": "goroutine 1 [running]:"},
				{"level": "INFO", "msg": "m"},
				{"level": "ERROR", "msg": "main.main()"},
			},
		},
		"fatal error": {
			"the runtime's own", "fatal error: all goroutines are asleep\nmore\n",
			[]map[string]any{{"level": "ERROR", "msg": "fatal error: all goroutines are asleep"}, {"level": "ERROR", "msg": "more"}},
		},
	} {
		for size, how := range map[int]string{1: "byte by byte", 7: "in pieces", 1 << 20: "at once"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				log := &records{}
				writeInPieces(t, log, test.in, size)
				got := log.all()
				for i, r := range got {
					if i >= len(test.want) || test.want[i]["time"] == nil {
						delete(r, "time")
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s: records (-want +got):\n%.2000s", test.reason, diff)
				}
			})
		}
	}
}

func writeInPieces(t *testing.T, log *records, in string, size int) {
	t.Helper()
	w := &logWriter{log: log.logger()}
	for len(in) > 0 {
		n, err := w.Write([]byte(in[:min(size, len(in))]))
		if n != min(size, len(in)) || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
		in = in[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTimeOfARecord(t *testing.T) {
	t.Parallel()
	before := time.Now()
	for in, want := range map[string]string{
		`{"time":"2026-01-02T03:04:05.678901234Z","level":"INFO","msg":"m"}`:               "2026-01-02T03:04:05.678901234Z",
		`{"@timestamp":"2026-01-02T03:04:05.678901+01:00","@level":"info","@message":"m"}`: "2026-01-02T03:04:05.678901+01:00",
		`{"time":"tomorrow","level":"INFO","msg":"m"}`:                                     "",
		`{"level":"INFO","msg":"m"}`:                                                       "",
	} {
		r, err := parseRecord([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && r.Time.Before(before) {
			t.Errorf("%s: expected the time at which it was read, but found %s", in, r.Time)
		}
		if got := r.Time.Format(time.RFC3339Nano); want != "" && got != want {
			t.Errorf("%s: expected %s, but found %s", in, want, got)
		}
	}
}

// What the host does not log costs it nothing but the parsing.
func TestLevelOfTheHost(t *testing.T) {
	t.Parallel()
	log := &records{}
	w := &logWriter{log: log.logger()}
	if _, err := w.Write([]byte(`{"level":"DEBUG-8","msg":"m"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if got := log.all(); len(got) > 0 {
		t.Errorf("expected nothing, but found %v", got)
	}
}

func FuzzLogWriter(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "text\n", "a\r\nb", "panic: oh\nstack\n", "\xff\xfe\n",
		`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"m","n":9007199254740993}` + "\n",
		`{"@level":"trace","@message":"m","@timestamp":"2026-01-02T03:04:05.000000Z"}` + "\n",
		`{"@message":123}` + "\n", `{"level":"info","msg":"x"} tail` + "\n", `{"level":"info","msg":"x"]` + "\n",
		`{"level":"INFO","msg":"m","":{"":[]}}` + "\n", "{\n", "{}\n", `{"a"` + "\n",
	} {
		f.Add([]byte(seed), 3)
		f.Add([]byte(seed), 1<<10)
	}
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		log := &records{}
		logger := log.logger()
		w := &logWriter{log: logger}
		for rest := in; len(rest) > 0; {
			piece := rest[:min(max(size, 1), len(rest))]
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
			rest = rest[len(piece):]
			if cap(w.line) > 2*maxLine {
				t.Fatalf("%d bytes are kept", cap(w.line))
			}
		}
		want := 0
		lines := strings.Split(string(in), "\n")
		for _, line := range lines[:len(lines)-1] { // the last is no complete line
			if !silent(line) {
				want++
			}
		}
		got := log.all()
		if len(got) != want {
			t.Fatalf("%d lines became %d records: %q", want, len(got), got)
		}
		for _, r := range got {
			if message, ok := r["msg"].(string); r["broken"] != nil || ok && !utf8.ValidString(message) {
				t.Fatalf("%q is no record", r)
			}
		}
	})
}

// silent tells whether a line becomes no record: because it says nothing, or because its level is too low for the log.
func silent(line string) bool {
	line = strings.TrimRight(line[:min(len(line), maxLine)], "\r")
	if line == "" {
		return true
	}
	if line[0] != '{' {
		return false
	}
	r, err := parseRecord([]byte(line))
	return err == nil && r.Level < -8
}
