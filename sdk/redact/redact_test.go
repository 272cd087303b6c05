package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func redactorOf(t testing.TB, values any) *Redactor {
	t.Helper()
	content, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	s := New(content)
	s.Publish("shop", "market")
	return s
}

func TestHide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		values any
		text   string
		want   string
	}{
		"value": {
			"the purpose", "hunter22", `spec.type: Invalid value: "hunter22"`, `spec.type: Invalid value: "***"`,
		},
		"nested": {"values are anywhere", []any{map[string]any{"b": "pass"}}, "is pass, no", "is ***, no"},
		// Rule (helm.md#security): Strings of up to three characters are not hidden.
		"short":          {"it would be found everywhere", "abc", "abc", "abc"},
		"within a word":  {"a short one is part of many words", "port", "spec.ports: port", "spec.ports: ***"},
		"long in a word": {"no other word has it", "hunter22", "xhunter22x", "x***x"},
		"longest first": {
			"nothing of a value is left", []any{"hunter22", "hunter22-and-more"}, "hunter22-and-more", "***",
		},
		"release": {"names are public", []any{"shop", "market"}, "release shop of market", "release shop of market"},
		"field":   {"names of fields are public", map[string]any{"replicas": "replicas"}, "spec.replicas", "spec.replicas"},
		"word":    {"messages are made of it", "required", "a value is required", "a value is required"},
		"value that begins with a word": {
			"the longer one counts", []any{"required", "required-secret"}, "is required-secret", "is ***",
		},
		"quoted":   {"Go quotes it", `say "so"`, fmt.Sprintf("got %q", `say "so"`), `got "***"`},
		"base64":   {"Secrets have it so", "hunter", base64.StdEncoding.EncodeToString([]byte("hunter")), "***"},
		"lines":    {"YAML is quoted line by line", "first line\nsecond line", "at second line: x", "at ***: x"},
		"one line": {"messages have one line", "x y\nz u", "at x y z u", "at ***"},
		"number":   {"a password without quotes", 12345678, "12345678", "***"},
		"port":     {"a number that is of use", 65535, "65535", "65535"},
		"YAML": {
			"the library shortens it", "hunter22hunter22", "cannot unmarshal !!str `hunter2...` into map",
			"cannot unmarshal !!str " + hidden + " into map",
		},
		"strconv": {
			"it may be a part of a value", nil, `strconv.Atoi: parsing "hunt\"er": invalid syntax`,
			`strconv.Atoi: parsing ***: invalid syntax`,
		},
		"decoder": {
			"it quotes all of an object", nil, `Object 'Kind' is missing in '{"a":"it's"}'`,
			`Object 'Kind' is missing in ***`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := redactorOf(t, c.values).Hide(c.text); got != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
		})
	}
}

// TestSpellings: a value is found however a program has to write it.
func TestSpellings(t *testing.T) {
	t.Parallel()
	const special = "p@ss&w<rd>/hunter22"
	for name, c := range map[string]struct{ reason, value, spelled string }{
		"JSON for HTML":          {"Go writes it so", special, `p@ss\u0026w\u003crd\u003e/hunter22`},
		"JSON":                   {"others write fewer escapes", "hunter\x01\u2028&\"22", `hunter\u0001\u2028&\"22`},
		"query":                  {"it is a parameter of a URL", special, "p%40ss%26w%3Crd%3E%2Fhunter22"},
		"query with spaces":      {"they are written so", "hunter 2+2", "hunter+2%2B2"},
		"component":              {"or so", "hunter 2+2", "hunter%202%2B2"},
		"path":                   {"it is in the path of a URL", special, "p@ss&w%3Crd%3E%2Fhunter22"},
		"user":                   {"it is the password in a URL", special, "p%40ss&w%3Crd%3E%2Fhunter22"},
		"base64 without padding": {"tokens are written so", "hunter22", "aHVudGVyMjI"},
		"base64 for URLs":        {"with other characters", "hunter22>>>???", "aHVudGVyMjI-Pj4_Pz8="},
		"both":                   {"without padding, too", "hunter22>>>???", "aHVudGVyMjI-Pj4_Pz8"},
	} {
		if got := redactorOf(t, []string{c.value}).Hide("is " + c.spelled + "!"); got != "is ***!" {
			t.Errorf("%s: %s: expected nothing of %q, but found %q", name, c.reason, c.spelled, got)
		}
	}
	for reason, text := range map[string]string{
		"a short value has no spelling that is hidden": `<\u003c`, "nor one in a URL": "%3C%2F", "nor in base64": "YWJj",
	} {
		if got := redactorOf(t, []string{"<", "</", "abc"}).Hide(text); got != text {
			t.Errorf("%s: expected %q, but found %q", reason, text, got)
		}
	}
}

// TestSpellingsAreBounded: what has no special characters is spelled in few ways, and what is long in the usual ones.
func TestSpellingsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, value string
		most          int
	}{
		"plain": {"it is the same in JSON and in URLs", "hunter", 2},
		"all":   {"each spelling is one text", "p@ss &w<rd>/>>>???hunter22", 12},
		"long":  {"no message has it", strings.Repeat("<p@ss>", 3000), 2},
	} {
		if s := redactorOf(t, []string{c.value}); len(s.values.known) > c.most {
			t.Errorf("%s: %s: expected at most %d texts, but found %d", name, c.reason, c.most, len(s.values.known))
		}
	}
}

func TestHideWhatSecretsHold(t *testing.T) {
	t.Parallel()
	s := redactorOf(t, nil)
	s.LearnObject([]byte(
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"creds-of-shop"},"data":{"a":"aHVudGVyMjI="},` +
			`"stringData":{"b":"plain-text"}}`))
	s.LearnObject([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"nothing-secret"}}`))
	got := s.Hide(`Secret "creds-of-shop": aHVudGVyMjI= hunter22 plain-text nothing-secret`)
	if want := `Secret "creds-of-shop": *** *** *** nothing-secret`; got != want {
		t.Errorf("expected %q, but found %q", want, got)
	}
}

// TestHideCut: a text may begin in the middle of a value.
func TestHideCut(t *testing.T) {
	t.Parallel()
	s := redactorOf(t, map[string]any{"a": "correct-horse-battery", "b": "staple"})
	for text, want := range map[string]string{
		"horse-battery is wrong":  "*** is wrong",
		"battery":                 "battery", // too short to tell
		"correct-horse-battery":   "***",
		"-battery, said staple":   "***, said ***",
		"nothing of horse-batter": "nothing of horse-batter",
	} {
		if got := s.HideCut(text); got != want {
			t.Errorf("%q: expected %q, but found %q", text, want, got)
		}
	}
}

// TestNothingIsLeft looks for values in any text around them.
// Rule (SECURITY.md#secrets): Hiding leaves nothing of a value in any text.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Z0-9!%&/=?+]{8,30}`).Draw(t, "secret")
		before := rapid.StringMatching(`[a-z "':.,]{0,20}`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z "':.,]{0,20}`).Draw(t, "after")
		s := New([]byte(`{"x":` + string(mustMarshal(t, secret)) + `}`))
		for _, form := range []string{"%s", "%q", "'%s'"} {
			if got := s.Hide(before + fmt.Sprintf(form, secret) + after); strings.Contains(got, secret) {
				t.Fatalf("found %q in %q", secret, got)
			}
		}
	})
}

func mustMarshal(t *rapid.T, v any) []byte {
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func FuzzHide(f *testing.F) {
	f.Add(`{"a":"hunter22"}`, "is hunter22")
	f.Add(`["\ud83d\ude00\ud83d\ude00"]`, "\xf0\x9f\x98")
	f.Fuzz(func(t *testing.T, values, text string) {
		s := New([]byte(values))
		s.Hide(text)
	})
}

// TestHideError: what the error is stays, what it says does not.
func TestHideError(t *testing.T) {
	t.Parallel()
	s := redactorOf(t, map[string]any{"a": "hunter22"})
	refused := errors.New(`spec.type: Unsupported value: "hunter22"`)
	err := s.HideError(fmt.Errorf("apply: %w", refused))
	if want := `apply: spec.type: Unsupported value: "***"`; err.Error() != want || !errors.Is(err, refused) {
		t.Errorf("expected %q, but found %q", want, err)
	}
	if err := s.HideError(refused); !errors.Is(err, refused) || s.HideError(nil) != nil {
		t.Errorf("expected the error, and none of none, but found %v", err)
	}
	harmless := errors.New("nothing")
	if err := s.HideError(harmless); err != harmless { //nolint:errorlint // it is to be the same
		t.Errorf("expected the error itself, but found %v", err)
	}
}
