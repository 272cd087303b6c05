package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

type recordCase struct {
	reason string
	in     string
	want   []map[string]any
}

func info(message string) map[string]any { return map[string]any{"level": "INFO", "msg": message} }

func TestRecords(t *testing.T) {
	t.Parallel()
	runRecordCases(t, map[string]recordCase{
		"slog": {
			"level, message and attributes are kept", `{"time":"2026-01-02T12:00:00Z","level":"WARN","msg":"hello","a":"b"}` + "\n",
			[]map[string]any{{"level": "WARN", "msg": "hello", "a": "b"}},
		},
		"hclog": {
			"as are those of hclog",
			`{"@level":"error","@message":"hello","@module":"m","@timestamp":"2026-01-02T13:00:00.000000+01:00"}` + "\n",
			[]map[string]any{{"level": "ERROR", "msg": "hello", "@module": "m"}},
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
		"the same attribute again": {
			"each record has its own", strings.Repeat(`{"level":"INFO","msg":"m","a":"b"}`+"\n", 2),
			[]map[string]any{{"level": "INFO", "msg": "m", "a": "b"}, {"level": "INFO", "msg": "m", "a": "b"}},
		},
		"space after the record": {
			"there is nothing to lose", `{"level":"info","msg":"x"} ` + "\n", []map[string]any{info("x")},
		},
		"text":                   {"each line is a record", "one\ntwo\n", []map[string]any{info("one"), info("two")}},
		"empty lines":            {"they say nothing", "\n\r\none\n\n", []map[string]any{info("one")}},
		"invalid UTF-8":          {"a log is text", "a\xff\xfeb\n", []map[string]any{info("a\uFFFD\uFFFDb")}},
		"last line":              {"last words need no newline", "one\ntwo", []map[string]any{info("one"), info("two")}},
		"last record":            {"neither does a record", `{"level":"info","msg":"x"}`, []map[string]any{info("x")}},
		"no text but a rule":     {"it belongs to a race report", raceRule + "\n", nil},
		"rule of another length": {"somebody else's", raceRule + "=\n", []map[string]any{info(raceRule + "=")}},
		"CRLF": {
			"some end their lines like that", "one\r\n" + `{"level":"INFO","msg":"two"}` + "\r\n",
			[]map[string]any{info("one"), info("two")},
		},
	})
}

func TestNoRecords(t *testing.T) {
	t.Parallel()
	for line, reason := range map[string]string{
		`{"@level":"info","@message":123}`:                    "a message is text",
		`{"@message":123}`:                                    "a message is text",
		`{"@level":[],"@message":"m","@timestamp":{}}`:        "so is a level",
		`{"msg":"m"}`:                                         "a record has a level",
		`{"a":"b"}`:                                           "an object may be meant for somebody",
		`["level","msg"]`:                                     "an array is none",
		`{"level":"info","msg":"x"} tail`:                     "nothing may get lost",
		`{"level":"info","msg":"x"}{"level":"info","msg":""}`: "nor a second record",
		`{"level":"info","msg":"x"`:                           "half a record is none",
		`{"level":"info","msg":"x"]`:                          "no JSON",
		`{"level":"info","msg":"x",}`:                         "no JSON",
		`{`:                                                   "no JSON",
		`{"level":"info","msg":"m","d":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`: "the decoder refuses it",
	} {
		f := newFixture(t)
		write(t, f.Writer("stderr"), line+"\n", len(line)+1)
		if diff := cmp.Diff([]map[string]any{info(line)}, f.said()); diff != "" {
			t.Errorf("%s: records (-want +got):\n%.2000s", reason, diff)
		}
	}
}

// Whatever the plugin writes, the host's own attributes stay the host's.
func TestForgedAttributes(t *testing.T) {
	t.Parallel()
	runRecordCases(t, map[string]recordCase{
		"attributes of the record's own names": {
			"the first is the record's, the others are attributes",
			`{"time":"2026-01-02T12:00:00Z","level":"INFO","msg":"hello","level":"high","time":"noon","msg":2,"@message":"other"}` + "\n",
			[]map[string]any{{
				"level": "INFO", "msg": "hello", "plugin_level": "high", "plugin_time": "noon", "plugin_msg": json.Number("2"),
				"@message": "other",
			}},
		},
		"attributes of the host": {
			"another plugin's name or stream would mislead",
			`{"level":"INFO","msg":"m","plugin":"other","stream":"host","omittedAttributes":0}` + "\n",
			[]map[string]any{{
				"level": "INFO", "msg": "m", "plugin_plugin": "other", "plugin_stream": "host", "plugin_omittedAttributes": json.Number("0"),
			}},
		},
		"in another case": {
			"not all readers of a log tell them apart", `{"level":"INFO","msg":"m","Plugin":"other","LEVEL":1}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": "m", "plugin_Plugin": "other", "plugin_LEVEL": json.Number("1")}},
		},
		"twice": {
			"what an attribute says gets neither lost nor ambiguous", `{"level":"INFO","msg":"m","a":1,"plugin_a":2,"a":3}` + "\n",
			[]map[string]any{{
				"level": "INFO", "msg": "m", "a": json.Number("1"), "plugin_a": json.Number("2"), "plugin_plugin_a": json.Number("3"),
			}},
		},
		"nested": {
			"a group is no attribute of the record", `{"level":"INFO","msg":"m","g":{"plugin":"p","level":1}}` + "\n",
			[]map[string]any{{"level": "INFO", "msg": "m", "g": map[string]any{"plugin": "p", "level": json.Number("1")}}},
		},
		"newline in a message": {
			"it stays in its record", `{"level":"INFO","msg":"m\n{\"level\":\"ERROR\",\"msg\":\"forged\",\"plugin\":\"other\"}"}` + "\n",
			[]map[string]any{info("m\n" + `{"level":"ERROR","msg":"forged","plugin":"other"}`)},
		},
	})
}

func TestBoundedRecords(t *testing.T) {
	t.Parallel()
	manyAttributes := info("m")
	for i := range maxAttributes {
		manyAttributes[fmt.Sprint("a", i)] = json.Number("1")
	}
	manyAttributes["omittedAttributes"] = json.Number("3")
	attributes := &strings.Builder{}
	for i := range maxAttributes + 3 {
		fmt.Fprintf(attributes, `,"a%d":1`, i)
	}
	var arrays, objects any = `["too deep"]`, `{"too":"deep"}`
	for range maxDepth {
		arrays, objects = []any{arrays}, map[string]any{"o": objects}
	}
	recordAndMore := `{"level":"WARN","msg":"m"}` + strings.Repeat(" ", maxLine) + "more"
	cutRecord := `{"level":"WARN","msg":"` + strings.Repeat("x", maxLine) + `"}`
	runRecordCases(t, map[string]recordCase{
		"long line": {
			"the rest of the line is passed over, not the next one", strings.Repeat("x", 3*maxLine) + "\nnext\n",
			[]map[string]any{{"level": "INFO", "msg": strings.Repeat("x", maxLine), "truncated": true}, info("next")},
		},
		"long record": {
			"half a record is none", cutRecord + "\n", []map[string]any{{"level": "INFO", "msg": cutRecord[:maxLine], "truncated": true}},
		},
		"long line that begins with a record": {
			"what follows may not get lost unseen", recordAndMore + "\n",
			[]map[string]any{{"level": "INFO", "msg": recordAndMore[:maxLine], "truncated": true}},
		},
		"as long as may be": {
			"a bound is no mistake", strings.Repeat("x", maxLine) + "\n", []map[string]any{info(strings.Repeat("x", maxLine))},
		},
		"many attributes": {
			"those that are left out are counted", `{"level":"INFO","msg":"m"` + attributes.String() + "}\n", []map[string]any{manyAttributes},
		},
		"nested too deeply": {
			"the rest is text",
			`{"level":"INFO","msg":"m","a":` + strings.Repeat("[", maxDepth) + `["too deep"]` + strings.Repeat("]", maxDepth) + "}\n" +
				`{"level":"INFO","msg":"m","o":` + strings.Repeat(`{"o":`, maxDepth) + `{"too":"deep"}` + strings.Repeat("}", maxDepth) + "}\n",
			[]map[string]any{{"level": "INFO", "msg": "m", "a": arrays}, {"level": "INFO", "msg": "m", "o": objects}},
		},
	})
}

func runRecordCases(t *testing.T, cases map[string]recordCase) {
	t.Helper()
	for name, test := range cases {
		for how, size := range pieces {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				w := f.Writer("stderr")
				write(t, w, test.in, size)
				closeWriter(t, w)
				if diff := cmp.Diff(test.want, f.said()); diff != "" {
					t.Errorf("%s: records (-want +got):\n%.2000s", test.reason, diff)
				}
			})
		}
	}
}

func TestTimeOfARecord(t *testing.T) {
	t.Parallel()
	const now = "2026-01-02T12:00:00Z"
	for _, test := range []struct {
		reason    string
		in        string
		want      string
		attribute any
	}{
		{"slog's", `{"time":"2026-01-02T12:00:01.678901234Z","level":"INFO","msg":"m"}`, "2026-01-02T12:00:01.678901234Z", nil},
		{"hclog's", `{"@timestamp":"2026-01-02T12:59:59.678901+01:00","@level":"info","@message":"m"}`, "2026-01-02T12:59:59.678901+01:00", nil},
		{
			"the first counts", `{"time":"2026-01-02T12:00:01Z","time":"2026-01-02T12:00:02Z","level":"INFO","msg":"m"}`,
			"2026-01-02T12:00:01Z", "2026-01-02T12:00:02Z",
		},
		{"no time is that of the host", `{"level":"INFO","msg":"m"}`, now, nil},
		{"nor is one that nobody understands", `{"time":"tomorrow","level":"INFO","msg":"m"}`, now, "tomorrow"},
		{"the future cannot be", `{"time":"2026-01-02T12:01:01Z","level":"INFO","msg":"m"}`, now, "2026-01-02T12:01:01Z"},
		{"the past is suspicious", `{"time":"0001-01-01T00:00:00Z","level":"INFO","msg":"m"}`, now, "0001-01-01T00:00:00Z"},
		{"text has none", `text`, now, nil},
	} {
		f := newFixture(t)
		write(t, f.Writer("stderr"), test.in+"\n", len(test.in)+1)
		got := f.records()
		if len(got) != 1 || got[0]["time"] != test.want || got[0]["plugin_time"] != test.attribute {
			t.Errorf("%s: expected time %s and attribute %v, but found %v", test.reason, test.want, test.attribute, got)
		}
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"trace": "DEBUG-4", "TRACE": "DEBUG-4", "debug": "DEBUG", "DEBUG+1": "DEBUG+1", "Info": "INFO", "INFO+2": "INFO+2", "warn": "WARN",
		"WARNING": "WARN", "error": "ERROR", "CRITICAL": "ERROR", "fatal": "ERROR", "panic": "ERROR",
		"off": "INFO", "all": "INFO", "": "INFO", "loud": "INFO", "ERROR+": "INFO", "ERROR+99999999999999999999": "INFO",
	} {
		f := newFixture(t)
		write(t, f.Writer("stderr"), `{"level":"`+level+`","msg":"m"}`+"\n", 1<<10)
		if got := f.said(); len(got) != 1 || got[0]["level"] != want {
			t.Errorf("level %q: expected %s, but found %v", level, want, got)
		}
	}
}

// What the real loggers write comes out as it went in.
func TestRealLoggers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.Writer("stderr")
	hclog.New(&hclog.LoggerOptions{Name: "own", Level: hclog.Trace, Output: w, JSONFormat: true, TimeFn: f.clock.Now}).
		Trace("from hclog", "n", 1, "error", fmt.Errorf("oh\n\x1b[31m"))
	slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})).
		With("deployitem", "ns/name", "jobID", "7").WithGroup("g").Debug("from slog", "a", []string{"b"})
	want := []map[string]any{
		{"level": "DEBUG-4", "msg": "from hclog", "@module": "own", "n": json.Number("1"), "error": "oh\n\x1b[31m"},
		{"level": "DEBUG", "msg": "from slog", "deployitem": "ns/name", "jobID": "7", "g": map[string]any{"a": []any{"b"}}},
	}
	got := f.said()
	for _, r := range got {
		delete(r, "plugin_time") // slog's real time is not that of the test
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// Nothing that a plugin writes redraws an operator's terminal, in either format of the host's log.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	const nasty = "a\xff\xfeb\x00\x07\x1b[2J\x7f\u009b2J\u202e\u2028"
	escaped := `\u0000\u001b[2J\u007f\u009b2J\u202e`
	in := nasty + "\n" +
		`{"level":"INFO","msg":"` + escaped + `","` + escaped + `":"` + escaped + `","o":{"` + escaped + `":["` + escaped + `"]}}` + "\n" +
		"panic: " + nasty + "\n\t" + nasty + "\n"
	for format, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"json": func(out *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(out, nil) },
		"text": func(out *bytes.Buffer) slog.Handler { return slog.NewTextHandler(out, nil) },
	} {
		var out bytes.Buffer
		l := New(Options{Log: slog.New(handler(&out))})
		w := l.Writer("stderr")
		write(t, w, in, len(in))
		closeWriter(t, w)
		if lines := strings.Count(out.String(), "\n"); lines != 3 {
			t.Errorf("%s: expected 3 lines, but found %d: %q", format, lines, out.String())
		}
		bad := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if i := strings.IndexFunc(out.String(), bad); i >= 0 || !utf8.ValidString(out.String()) {
			t.Errorf("%s: found a bad character at %d of %q", format, i, out.String())
		}
	}
}

// What the host does not log costs it nothing but the parsing.
func TestLevelOfTheHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	write(t, f.Writer("stderr"), `{"level":"DEBUG-8","msg":"m"}`+"\n", 1<<10)
	if got := f.records(); len(got) > 0 {
		t.Errorf("expected nothing, but found %v", got)
	}
}
