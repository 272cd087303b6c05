package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// receiveAll returns the events of what a worker sends.
func receiveAll(from io.Reader, req *helm.Request) ([]event, error) {
	r := newReceiver(from, req)
	var all []event
	for {
		e, err := r.next()
		if err != nil {
			return all, err
		}
		all = append(all, e)
		if _, done := e.(doneEvent); done {
			return all, nil
		}
	}
}

// FuzzReceive: whatever a worker sends, what the parent makes of it is small and right.
func FuzzReceive(f *testing.F) {
	for _, say := range []func(to *bytes.Buffer) error{
		func(to *bytes.Buffer) error { return appendMessage(to, kindCancelled, nil) },
		func(to *bytes.Buffer) error {
			return appendMessage(to, kindError, helm.Error{Kind: helm.Rejected, Message: "m", Log: []string{"l"}})
		},
		func(to *bytes.Buffer) error {
			return errors.Join(appendMessage(to, kindProgress, progress{"Load", "m"}), appendMessage(to, kindLog, "l"),
				appendObjects(to, kindObject, objects(2, "x")), appendMessage(to, kindRendered, nil), appendObjects(to, kindDefinition, objects(1, "d")),
				sayAll(&worker{to: to}, kindHook, []helm.Hook{{Object: objects(1, "h")[0], Events: []string{"pre-install"}}}), appendMessage(to, kindResult, helm.Result{Chart: chart}))
		},
	} {
		var message bytes.Buffer
		hello(&message)
		if err := say(&message); err != nil {
			f.Fatal(err)
		}
		f.Add(message.Bytes(), false)
		f.Add(message.Bytes(), true)
	}
	f.Add([]byte{byte(kindHello), 0, 0, 0, 0, byte(kindObject), 0, 0x10, 0, 0, '{'}, false)
	f.Fuzz(func(t *testing.T, sent []byte, values bool) {
		req := request("x", func(r *helm.Request) { r.Limits.RenderedBytes, r.Limits.UnpackedBytes = 1<<10, 1<<10 })
		if values {
			req.Action = helm.Values
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, err := receiveAll(bytes.NewReader(sent), req)
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20+100*uint64(len(sent)) {
			t.Errorf("%d bytes took %d of memory", len(sent), taken)
		}
		for i, e := range all {
			if _, isHello := e.(helloEvent); isHello != (i == 0) {
				t.Errorf("event %d is %#v", i, e)
			}
			checkEvent(t, e)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, errNonsense) && !errors.Is(err, errTooMuch) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("an error of another kind: %v", err)
		}
	})
}

// checkEvent checks what everybody relies on.
func checkEvent(t *testing.T, e event) {
	t.Helper()
	text := func(text string, most int) {
		if len(text) > most || !utf8.ValidString(text) {
			t.Errorf("a text of %d bytes (%d), valid: %t", len(text), most, utf8.ValidString(text))
		}
	}
	list := func(list []helm.Object) {
		for _, o := range list {
			text(o.Source, maxTemplate)
			if !json.Valid(o.JSON) || !isObject(o.JSON) {
				t.Errorf("no object: %s", o.JSON)
			}
		}
	}
	switch e := e.(type) {
	case progressEvent:
		text(e.Message, maxMessage)
		if !stepName.MatchString(e.Step) {
			t.Errorf("no step: %q", e.Step)
		}
	case logEvent:
		text(e.line, maxLogLine)
	case renderedEvent:
		list(e.objects)
	case doneEvent:
		if e.err != nil {
			text(e.err.Message, maxMessage)
			text(e.err.Template, maxTemplate)
			if !knownKind(e.err.Kind) || len(e.err.Log) > maxLogLines {
				t.Errorf("found %+v", e.err)
			}
		}
		if e.result != nil {
			list(e.result.Definitions)
			list(e.result.Objects)
			for _, h := range e.result.Hooks {
				list([]helm.Object{h.Object})
			}
		}
	}
}

// What a worker says arrives as it was, in whatever pieces.
func TestWhatIsSaidArrives(t *testing.T) {
	t.Parallel()
	object := rapid.Custom(func(t *rapid.T) helm.Object {
		text, err := json.Marshal(map[string]any{
			"kind": rapid.String().Draw(t, "kind"), "n": rapid.Int64().Draw(t, "n"), "m": rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "m"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return helm.Object{Source: rapid.StringN(0, 20, 80).Draw(t, "source"), JSON: text}
	})
	list := func(t *rapid.T, label string) []helm.Object { return rapid.SliceOfN(object, 0, 5).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		before := list(t, "before")
		want := &helm.Result{
			Revision: rapid.IntRange(0, 1<<30).Draw(t, "revision"), Chart: chart, Definitions: list(t, "definitions"), Objects: list(t, "objects"),
		}
		for _, o := range list(t, "hooks") {
			want.Hooks = append(want.Hooks, helm.Hook{Object: o, Events: []string{"test"}})
		}
		var sent bytes.Buffer
		w := &worker{to: &sent}
		err := errors.Join(w.say(kindHello, nil), appendObjects(&sent, kindObject, before), w.say(kindRendered, nil), w.finish(t.Context(), request("x"), want, nil))
		if err != nil {
			t.Fatal(err)
		}
		got, err := receiveAll(iotestReader{&sent}, request("x"))
		if err != nil {
			t.Fatal(err)
		}
		all := []event{helloEvent{}, renderedEvent{before}, doneEvent{result: want}}
		if diff := cmp.Diff(all, got, cmp.AllowUnexported(renderedEvent{}, doneEvent{}), cmp.Transformer("text", func(r json.RawMessage) any {
			var v any
			_ = json.Unmarshal(r, &v)
			return v
		}), cmp.FilterValues(func(a, b []helm.Object) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

// iotestReader reads a byte at a time.
type iotestReader struct{ from io.Reader }

func (r iotestReader) Read(p []byte) (int, error) { return r.from.Read(p[:min(len(p), 1)]) }

// A length that was announced takes no memory before something of that length has come.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) { //nolint:paralleltest // it counts what the whole process allocates
	sent := binary.BigEndian.AppendUint32([]byte{byte(kindObject)}, 200<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := readMessage(bytes.NewReader(sent), func(kind) (int64, error) { return 1 << 30, nil })
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("found %v, and %d bytes taken", err, after.TotalAlloc-before.TotalAlloc)
	}
}

func TestMessageThatIsTooLong(t *testing.T) {
	t.Parallel()
	var to bytes.Buffer
	if err := appendMessage(&to, kindLog, func() {}); err == nil || to.Len() != 0 {
		t.Errorf("expected an error and nothing sent, but found %v and %d bytes", err, to.Len())
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc…"},
		{"aüüüüü", 6, "aü…"},
		{"üüüüüü", 6, "ü…"},
	} {
		if got := shorten(test.text, test.most); got != test.want {
			t.Errorf("%q to %d: expected %q, but found %q", test.text, test.most, test.want, got)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int64]string{1 << 30: "1 GiB", 512 << 20: "512 MiB", 3 << 10: "3 KiB", 1500: "1500 bytes", 1<<30 + 1<<20: "1025 MiB"} {
		if got := size(bytes); got != want {
			t.Errorf("expected %q, but found %q", want, got)
		}
	}
}
