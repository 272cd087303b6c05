package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHideSecrets(t *testing.T) {
	t.Parallel()
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":9007199254740993,"text":"<a&b>"}}`
	for name, tc := range map[string]struct{ before, after, wantBefore, wantAfter string }{
		"no Secret: all digits and signs stay": {deployment, deployment, deployment, deployment},
		"what happens to each value can be told, and nothing else": {
			`{"apiVersion":"v1","kind":"Secret","data":{"changed":"YQ==","gone":"YQ==","same":"YQ=="}}`,
			`{"apiVersion":"v1","kind":"Secret","data":{"changed":"Yg==","new":"YQ==","same":"YQ=="}}`,
			`{"apiVersion":"v1","data":{"changed":"*** (before)","gone":"***","same":"***"},"kind":"Secret"}`,
			`{"apiVersion":"v1","data":{"changed":"*** (after)","new":"***","same":"***"},"kind":"Secret"}`,
		},
		"what is no map of texts may still be a secret": {
			`{"kind":"Secret","data":"s","stringData":{"a":{"b":"s"},"c":1}}`,
			`{"kind":"Secret","data":{"a":"s"},"stringData":null}`,
			`{"data":"***","kind":"Secret","stringData":{"a":"***","c":"***"}}`,
			`{"data":{"a":"***"},"kind":"Secret","stringData":"***"}`,
		},
		"a List holds objects of any kind": {
			`{"kind":"List","items":[{"kind":"ConfigMap","data":{"a":"b"}},{"kind":"Secret","data":{"a":"s"}}]}`, "",
			`{"items":[{"data":{"a":"b"},"kind":"ConfigMap"},{"data":{"a":"***"},"kind":"Secret"}],"kind":"List"}`, "",
		},
		"the items of a SecretList need not name their kind": {
			`{"kind":"SecretList","items":[{"data":{"a":"s"}}],"other":[{"data":{"a":"b"}}]}`, "",
			`{"items":[{"data":{"a":"***"}}],"kind":"SecretList","other":[{"data":{"a":"b"}}]}`, "",
		},
		"the values are the same, whatever becomes of the kind": {
			`{"kind":"Secret","data":{"a":"s"}}`, `{"kind":"ConfigMap","data":{"a":"s"}}`,
			`{"data":{"a":"***"},"kind":"Secret"}`, `{"data":{"a":"***"},"kind":"ConfigMap"}`,
		},
		"a tool keeps a copy of the whole object": {
			`{"kind":"Rose","metadata":{"annotations":{"kapp.k14s.io/original":"{s}","other":"a"}}}`,
			`{"kind":"Rose","metadata":{"annotations":{"kapp.k14s.io/original":"{t}","other":"a"}}}`,
			`{"kind":"Rose","metadata":{"annotations":{"kapp.k14s.io/original":"*** (before)","other":"a"}}}`,
			`{"kind":"Rose","metadata":{"annotations":{"kapp.k14s.io/original":"*** (after)","other":"a"}}}`,
		},
		"also within another object": {
			"", `{"spec":{"template":{"metadata":{"annotations":{"kapp.k14s.io/original":"{s}"}}}}}`,
			"", `{"spec":{"template":{"metadata":{"annotations":{"kapp.k14s.io/original":"***"}}}}}`,
		},
		"an object that cannot be told has no states": {},
	} {
		before, after, err := HideSecrets(json.RawMessage(tc.before), json.RawMessage(tc.after))
		got := []string{string(before), string(after)}
		if diff := cmp.Diff([]string{tc.wantBefore, tc.wantAfter}, got); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestWhatIsNoObjectIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "0123456789"
	for name, document := range map[string]string{
		"cut off":     `{"kind":"Secret","data":{"a":"` + secret,
		"two objects": `{} {"kind":"Secret","data":{"a":"` + secret + `"}}`,
		"a list":      `["` + secret + `"]`,
		"a text":      `"` + secret + `"`,
		"a number":    secret,
		"null":        `null`,
		"no JSON":     secret + "!",
		"blanks":      "  ",
	} {
		for side, states := range map[string][2]string{"before": {document, ""}, "after": {"", document}} {
			before, after, err := HideSecrets(json.RawMessage(states[0]), json.RawMessage(states[1]))
			if before != nil || after != nil || err == nil || !strings.Contains(err.Error(), side) ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("%s: expected nothing but an error that names the state %s and holds nothing of it, "+
					"but found %s, %s, %v", name, side, before, after, err)
			}
		}
	}
}

// aSecret is part of each value of the Secrets that are drawn, and of nothing else.
const aSecret = "s3cret"

// drawState draws an object with Secrets here and there. Keys and values are few, so that two states have much in
// common.
func drawState(t *rapid.T, depth int) map[string]any {
	values := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.Custom(drawSecret), 0, 3).Draw(t, "values")
	copied := rapid.SampledFrom(copies()).Draw(t, "copy")
	object := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{copied: drawSecret(t), "public": "public"}},
		"kind":     rapid.SampledFrom([]string{"Secret", "SecretList", "Rose"}).Draw(t, "kind"),
	}
	switch {
	case object["kind"] == "Secret":
		object["data"], object["stringData"] = values, drawSecret(t)
	case object["kind"] == "SecretList":
		object["items"] = []any{map[string]any{"data": values}}
	case depth > 0:
		object["spec"], object["items"] = drawState(t, depth-1), []any{drawState(t, depth-1), "public"}
	}
	return object
}

func drawSecret(t *rapid.T) any {
	return fmt.Sprintf("%s-%d", aSecret, rapid.IntRange(0, 2).Draw(t, "secret"))
}

func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		before, after := drawState(rt, 2), drawState(rt, 2)
		if rapid.Bool().Draw(rt, "unchanged") {
			after = before
		}
		b, a := marshalled(rt, before), marshalled(rt, after)
		shownBefore, shownAfter, err := HideSecrets(b, a)
		if err != nil {
			rt.Fatal(err)
		}
		for _, shown := range [][]byte{shownBefore, shownAfter} {
			if bytes.Contains(shown, []byte(aSecret)) {
				rt.Errorf("a value survived in %s", shown)
			}
		}
		if got, want := bytes.Equal(shownBefore, shownAfter), bytes.Equal(b, a); got != want {
			rt.Errorf("the same before and after: %t, but shown so: %t\n%s\n%s", want, got, shownBefore, shownAfter)
		}
	})
}

func marshalled(t *rapid.T, value any) []byte {
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return document
}
