package target

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const foreignType = v1alpha1.TargetType("acme.org/thing")

// outcome is what sanitize makes of content.
type outcome struct {
	content  string
	login    *login
	problems []string
}

func sanitized(targetType v1alpha1.TargetType, raw string) (outcome, Reason) {
	text, login, problems := sanitize(targetType, []byte(raw), "")
	got := outcome{content: text, login: login}
	for _, problem := range problems {
		got.problems = append(got.problems, problem.String())
	}
	if len(problems) == 0 {
		return got, ""
	}
	return got, reasonOf(problems)
}

// indent moves a text two columns to the right, as a block of YAML.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

func TestKubernetesContent(t *testing.T) {
	t.Parallel()
	passes := outcome{content: marshal(t, map[string]any{"kubeconfig": rebuilt})}
	fails := func(problems ...string) outcome { return outcome{problems: problems} }
	cases := map[string]struct {
		reason, raw string
		want        outcome
	}{
		"text":   {"The usual form.", marshal(t, map[string]any{"kubeconfig": sound}), passes},
		"object": {"Landscaper takes an object too.", "kubeconfig:\n" + indent(sound), passes},
		"bare":   {"Landscaper takes content without the field.", sound, passes},
		"field beside": {
			"Nothing but the kubeconfig is of use.", "region: eu\nexec: {}\nkubeconfig:\n" + indent(sound), passes,
		},
		"other case": {"Other parsers ignore case.", "KubeConfig:\n" + indent(sound), passes},
		"surrogate pairs": {
			"Not all JSON is YAML for the parser.", `{"x":"\ud83d\ude00","kubeconfig":` + rebuilt + `}`, passes,
		},
		"oidc beside": {
			"Landscaper prefers the kubeconfig.", "oidcConfig: {server: x}\nkubeconfig:\n" + indent(sound), passes,
		},
		"nothing": {
			"No form at all.", `{"kubeconfig":"","oidcConfig":null,"a":1}`,
			fails("content: holds no kubeconfig; put one into the field kubeconfig, or use oidcConfig or selfConfig"),
		},
		"empty": {"An empty secret.", "", fails("content: is empty")},
		"no object": {
			"The kind is named, not the value.", `"t0ps3cret"`, fails("content: expected an object, found a text"),
		},
		"list": {
			"The kind is named, not the value.", `{"kubeconfig":["t0ps3cret"]}`,
			fails("kubeconfig: expected an object, found a list"),
		},
		"syntax": {
			"A parser's error would quote the text.", "t0ps3cret: *t0ps3cret",
			fails("content: is neither valid JSON nor valid YAML"),
		},
		"documents": {
			"Parsers differ about which counts.", sound + "---\n" + sound,
			fails("content: holds 2 YAML documents; expected one"),
		},
		"aliases": {
			"Aliases blow up.", "a: &a [x]\nb: *a\n" + sound,
			fails("content.b: YAML aliases are not allowed; write the value out"),
		},
		"merge": {
			"Parsers differ about merge keys.", "<<: {a: b}\n" + sound,
			fails("content: expected texts as keys, found a merge key or an object"),
		},
		"duplicate keys": {
			"Parsers differ about which counts.", `{"kubeconfig":{"a b":[{"server":1,"server":2}]}}`,
			fails(`content.kubeconfig["a b"][0].server: the key appears twice (keys that differ only in case count as equal)`),
		},
		"keys of other case": {
			"The long s is an s for encoding/json.", "uſers: []\n" + sound,
			fails("content.users: the key appears twice (keys that differ only in case count as equal)"),
		},
		"deep": {
			"The paths of a small text would fill the memory.", strings.Repeat(`{"a":[`, 60) + strings.Repeat("]}", 60),
			fails("content" + strings.Repeat(".a[0]", 50) + ".a: is nested deeper than 100 levels"),
		},
		"too large": {
			"Larger than any kubeconfig.", sound + "#" + strings.Repeat("x", maxContentSize-len(sound)),
			fails("content: has 1048577 bytes; at most 1048576 are allowed"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, reason := sanitized(v1alpha1.KubernetesClusterTargetType, tc.raw)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome{}, login{})); diff != "" {
				t.Errorf("%s\nsanitize() (-want +got):\n%s", tc.reason, diff)
			}
			if len(tc.want.problems) > 0 && reason != ReasonContentInvalid {
				t.Errorf("%s\nsanitize(): want %s, got %s", tc.reason, ReasonContentInvalid, reason)
			}
		})
	}
}

func TestForeignContent(t *testing.T) {
	t.Parallel()
	const exec = `users["admin"].exec: running commands is not allowed; use a token or client-certificate-data`
	const elsewhere = "a kubeconfig is allowed only in the field kubeconfig, or as the content itself; move it"
	bad := kubeconfig("exec: {command: sh}")
	unchanged := func(raw string) outcome { return outcome{content: raw} }
	fails := func(problems ...string) outcome { return outcome{problems: problems} }
	cases := map[string]struct {
		reason, raw string
		want        outcome
		wantReason  Reason
	}{
		"JSON":        {"Not ours.", `{"url":"x","exec":{},"users":[]}`, unchanged(`{"url":"x","exec":{},"users":[]}`), ""},
		"YAML":        {"Not a byte changes.", "a: &a 1\nb: *a # x\n", unchanged("a: &a 1\nb: *a # x\n"), ""},
		"binary":      {"Need not be text.", "\x00\xff{", unchanged("\x00\xff{"), ""},
		"empty field": {"An empty field holds nothing.", `{"kubeconfig":null}`, unchanged(`{"kubeconfig":null}`), ""},
		"kubeconfig": {
			"Fields beside it are the plugin's.", "region: eu\nsize: 9007199254740993\nKubeconfig:\n" + indent(sound),
			unchanged(marshal(t, map[string]any{"kubeconfig": rebuilt, "region": "eu",
				"size": json.Number("9007199254740993")})), "",
		},
		"bare": {"Has one form for all plugins.", sound, unchanged(marshal(t, map[string]any{"kubeconfig": rebuilt})), ""},
		"field exec": {
			"The policy is for all types.", marshal(t, map[string]any{"kubeconfig": bad}), fails(exec), ReasonForbidden,
		},
		"other case": {
			"Other parsers ignore case.", strings.Replace(bad, "exec", "Exec", 1),
			fails(strings.Replace(exec, "exec", "Exec", 1)), ReasonForbidden,
		},
		"nested": {
			"At any depth.", "a:\n- b:\n" + indent(indent(bad)), fails("content.a[0].b: " + elsewhere), ReasonForbidden,
		},
		"nested text": {
			"Also as a text.", marshal(t, map[string]any{"admin.conf": bad}), fails(`content["admin.conf"]: ` + elsewhere),
			ReasonForbidden,
		},
		"text in text": {
			"Two levels deep.", marshal(t, map[string]any{"a": marshal(t, map[string]any{"b": bad})}),
			fails("content.a: " + elsewhere), ReasonForbidden,
		},
		"second": {
			"A kubeconfig does not hide another.",
			marshal(t, map[string]any{"kubeconfig": sound, "x": map[string]any{"kubeconfig": bad}}),
			fails("content.x.kubeconfig: " + elsewhere), ReasonForbidden,
		},
		"bare beside": {
			"A kubeconfig does not hide another.", "kubeconfig:\n" + indent(sound) + bad,
			fails("content: " + elsewhere), ReasonForbidden,
		},
		"second document": {
			"Some parsers read the second.", "a: 1\n---\n" + bad,
			fails("content: holds 2 YAML documents; expected one"), ReasonContentInvalid,
		},
		"duplicate keys": {
			"Some parsers read the first.", `{"\u006bubeconfig":"","kubeconfig":1}`,
			fails("content.kubeconfig: the key appears twice (keys that differ only in case count as equal)"),
			ReasonContentInvalid,
		},
		"escaped": {
			"A key may be spelt with escapes where nobody looks.",
			strings.Repeat(`{"a":[`, 60) + `{"\u006bubeconfig":"x"}` + strings.Repeat("]}", 60),
			fails("content" + strings.Repeat(".a[0]", 50) + ".a: is nested deeper than 100 levels"), ReasonContentInvalid,
		},
		"aliases": {
			"An alias may put a kubeconfig together.", "a: &a {users: []}\nb: {<<: *a, clusters: []}",
			fails("content.b: expected texts as keys, found a merge key or an object"), ReasonContentInvalid,
		},
		"broken": {
			"Another parser may read it.", "clusters: [\nusers: [", fails("content: is neither valid JSON nor valid YAML"),
			ReasonContentInvalid,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, reason := sanitized(foreignType, tc.raw)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome{}, login{})); diff != "" {
				t.Errorf("%s\nsanitize() (-want +got):\n%s", tc.reason, diff)
			}
			if reason != tc.wantReason {
				t.Errorf("%s\nsanitize(): want reason %q, got %q", tc.reason, tc.wantReason, reason)
			}
		})
	}
}

func TestWholeSecret(t *testing.T) {
	t.Parallel()
	raw := wholeSecret(map[string][]byte{
		"object": []byte("a: [1, true, null]"), "json": []byte(`{"b": 1.50}`), "text": []byte("plain"),
		"number": []byte("42"),
		"zeros":  []byte("007"), "date": []byte("2026-01-02"), "duplicate": []byte("a: 1\na: 2"), "broken": []byte("{"),
		"empty": nil,
	})
	const want = `{"broken":"{","date":"2026-01-02","duplicate":"a: 1\na: 2","empty":"","json":{"b":1.50},"number":42,` +
		`"object":{"a":[1,true,null]},"text":"plain","zeros":"007"}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("wholeSecret() (-want +got):\n%s", diff)
	}
}

// laughs is YAML that would be some gigabytes if its aliases were followed.
func laughs(rest string) string {
	text := &strings.Builder{}
	text.WriteString("l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n")
	for level := 1; level < 9; level++ {
		fmt.Fprintf(text, "l%d: &l%d [%s]\n", level, level,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", level-1), 10), ", "))
	}
	return text.String() + rest
}

// manyFields are fields of an object whose names are long.
func manyFields() string {
	text := &strings.Builder{}
	for i := range 4_000 {
		fmt.Fprintf(text, ", %s%d: 1", strings.Repeat("k", 200), i)
	}
	return text.String()
}

// TestBombs feeds small texts that are large once expanded, to parsers or to paths in errors.
func TestBombs(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 60)
	cases := map[string]struct{ reason, raw string }{
		"aliases": {
			"One long text a hundred thousand times.",
			"a: &a '" + strings.Repeat("x", maxContentSize/2) + "'\nkubeconfig: [" + strings.Repeat("*a,", 100_000) + "]",
		},
		"depth": {
			"Each level has a path, all paths together are large.",
			strings.Repeat(`{"`+key+`":`, 9_000) + `{"kubeconfig":[]}` + strings.Repeat("}", 9_000),
		},
		"laughs":      {"Each level is ten of the one before, in an oidcConfig.", laughs("oidcConfig: {audience: [*l8]}\n")},
		"many fields": {"Each unknown field is a problem.", "oidcConfig: {a: 1" + manyFields() + "}"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			defer func() {
				if took := time.Since(began); took > time.Minute {
					t.Errorf("%s\nit took %v", tc.reason, took)
				}
			}()
			if got, _ := sanitized(v1alpha1.KubernetesClusterTargetType, tc.raw); len(got.problems) == 0 {
				t.Errorf("%s\nwant a problem", tc.reason)
			}
			if got, _ := sanitized(foreignType, tc.raw); got.content != "" && got.content != tc.raw {
				t.Errorf("%s\nthe content was changed", tc.reason)
			}
		})
	}
}
