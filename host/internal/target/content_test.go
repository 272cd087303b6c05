package target

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const foreignType = v1alpha1.TargetType("acme.org/thing")

// outcome is what sanitize makes of content.
type outcome struct {
	content  string
	login    *login
	problems []string
	reason   Reason
}

// fails is the outcome for content that is malformed, refused that for content that is not allowed.
func fails(problems ...string) outcome {
	return outcome{problems: problems, reason: ReasonContentInvalid}
}
func refused(problems ...string) outcome { return outcome{problems: problems, reason: ReasonForbidden} }

func sanitized(targetType v1alpha1.TargetType, raw string) outcome {
	text, login, problems := sanitize(targetType, []byte(raw), "")
	if len(problems) == 0 {
		return outcome{content: text, login: login}
	}
	got := outcome{content: text, reason: newError("", types.NamespacedName{}, nil, problems...).Reason}
	for _, one := range problems {
		got.problems = append(got.problems, one.String())
	}
	return got
}

// contentCase is some content and what becomes of it.
type contentCase struct {
	reason, raw string
	want        outcome
}

func checkContent(t *testing.T, targetType v1alpha1.TargetType, cases map[string]contentCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sanitized(targetType, tc.raw)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome{}, login{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\nsanitize() (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// indent moves a text two columns to the right, as a block of YAML.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

func TestKubernetesContent(t *testing.T) {
	t.Parallel()
	passes := outcome{content: marshal(t, map[string]any{"kubeconfig": rebuilt})}
	checkContent(t, v1alpha1.KubernetesClusterTargetType, map[string]contentCase{
		"text":   {"The usual form.", marshal(t, map[string]any{"kubeconfig": sound}), passes},
		"object": {"Landscaper takes an object too.", "kubeconfig:\n" + indent(sound), passes},
		"bare":   {"Landscaper takes content without the field.", sound, passes},
		"field beside": {"Nothing but the kubeconfig is of use.",
			"region: eu\nexec: {}\nkubeconfig:\n" + indent(sound), passes},
		"other case": {"Other parsers ignore case.", "KubeConfig:\n" + indent(sound), passes},
		"surrogate pairs": {"Not all JSON is YAML for the parser.",
			`{"x":"\ud83d\ude00","kubeconfig":` + rebuilt + `}`, passes},
		"oidc beside": {"Landscaper prefers the kubeconfig.",
			"oidcConfig: {server: x}\nkubeconfig:\n" + indent(sound), passes},
		"nothing": {"No form at all.", `{"kubeconfig":"","oidcConfig":null,"a":1}`,
			fails("content: holds no kubeconfig; put one into the field kubeconfig, or use oidcConfig or selfConfig")},
		"empty": {"An empty secret.", "", fails("content: is empty")},
		"no object": {"The kind is named, not the value.",
			`"t0ps3cret"`, fails("content: expected an object, but found a text")},
		"list": {"The kind is named, not the value.",
			`{"kubeconfig":["t0ps3cret"]}`, fails("kubeconfig: expected an object, but found a list")},
		"syntax": {"A parser's error would quote the text.",
			"t0ps3cret: *t0ps3cret", fails("content: is neither valid JSON nor valid YAML")},
		"documents": {"Parsers differ about which counts.",
			sound + "---\n" + sound, fails("content: holds 2 YAML documents; expected one")},
		"aliases": {"Aliases blow up.",
			"a: &a [x]\nb: *a\n" + sound, fails("content.b: YAML aliases are not allowed; write the value out")},
		"merge": {"Parsers differ about merge keys.",
			"<<: {a: b}\n" + sound, fails("content: expected texts as keys, found a merge key or an object")},
		"duplicate keys": {"Parsers differ about which counts.", `{"kubeconfig":{"a b":[{"server":1,"server":2}]}}`,
			fails(`content.kubeconfig["a b"][0].server: the key appears twice (keys that differ only in case count as equal)`)},
		"keys of other case": {"The long s is an s for encoding/json.",
			"uſers: []\n" + sound, fails("content.users: the key appears twice (keys that differ only in case count as equal)")},
		"deep": {"The paths of a small text would fill the memory.", strings.Repeat(`{"a":[`, 60) + strings.Repeat("]}", 60),
			fails("content" + strings.Repeat(".a[0]", 50) + ".a: is nested deeper than 100 levels")},
		"too large": {"Larger than any kubeconfig.", sound + "#" + strings.Repeat("x", maxContentSize-len(sound)),
			fails("content: has 1048577 bytes; at most 1048576 are allowed")},
	})
}

func TestForeignContent(t *testing.T) {
	t.Parallel()
	const exec = `users["admin"].exec: running commands is not allowed; use a token or client-certificate-data`
	const elsewhere = "a kubeconfig is allowed only in the field kubeconfig, or as the content itself; move it"
	bad, oidc := kubeconfig("exec: {command: sh}"), oidcContent()
	unchanged := func(raw string) outcome { return outcome{content: raw} }
	checkContent(t, foreignType, map[string]contentCase{
		"JSON":        {"Not ours.", `{"url":"x","exec":{},"users":[]}`, unchanged(`{"url":"x","exec":{},"users":[]}`)},
		"YAML":        {"Not a byte changes.", "a: &a 1\nb: *a # x\n", unchanged("a: &a 1\nb: *a # x\n")},
		"binary":      {"Need not be text.", "\x00\xff{", unchanged("\x00\xff{")},
		"oidc":        {"Means nothing here.", oidc, unchanged(oidc)},
		"empty field": {"An empty field holds nothing.", `{"kubeconfig":null}`, unchanged(`{"kubeconfig":null}`)},
		"kubeconfig": {
			"Fields beside it are the plugin's.", "region: eu\nsize: 9007199254740993\nKubeconfig:\n" + indent(sound),
			unchanged(marshal(t, map[string]any{"kubeconfig": rebuilt, "region": "eu",
				"size": json.Number("9007199254740993")})),
		},
		"bare":       {"Has one form for all plugins.", sound, unchanged(marshal(t, map[string]any{"kubeconfig": rebuilt}))},
		"field exec": {"The policy is for all types.", marshal(t, map[string]any{"kubeconfig": bad}), refused(exec)},
		"other case": {"Other parsers ignore case.",
			strings.Replace(bad, "exec", "Exec", 1), refused(strings.Replace(exec, "exec", "Exec", 1))},
		// Rule (SECURITY.md#authors-of-items): A kubeconfig in a Target of another type is found at any depth.
		"nested": {"At any depth.", "a:\n- b:\n" + indent(indent(bad)), refused("content.a[0].b: " + elsewhere)},
		"nested text": {"Also as a text.",
			marshal(t, map[string]any{"admin.conf": bad}), refused(`content["admin.conf"]: ` + elsewhere)},
		"text in text": {"Two levels deep.",
			marshal(t, map[string]any{"a": marshal(t, map[string]any{"b": bad})}), refused("content.a: " + elsewhere)},
		"second": {"A kubeconfig does not hide another.",
			marshal(t, map[string]any{"kubeconfig": sound, "x": map[string]any{"kubeconfig": bad}}),
			refused("content.x.kubeconfig: " + elsewhere)},
		"bare beside": {"A kubeconfig does not hide another.",
			"kubeconfig:\n" + indent(sound) + bad, refused("content: " + elsewhere)},
		"second document": {"Some parsers read the second.",
			"a: 1\n---\n" + bad, fails("content: holds 2 YAML documents; expected one")},
		"duplicate keys": {"Some parsers read the first.", `{"\u006bubeconfig":"","kubeconfig":1}`,
			fails("content.kubeconfig: the key appears twice (keys that differ only in case count as equal)")},
		"escaped": {"A key may be spelt with escapes where nobody looks.",
			strings.Repeat(`{"a":[`, 60) + `{"\u006bubeconfig":"x"}` + strings.Repeat("]}", 60),
			fails("content" + strings.Repeat(".a[0]", 50) + ".a: is nested deeper than 100 levels")},
		"aliases": {"An alias may put a kubeconfig together.", "a: &a {users: []}\nb: {<<: *a, clusters: []}",
			fails("content.b: expected texts as keys, found a merge key or an object")},
		"broken": {"Another parser may read it.",
			"clusters: [\nusers: [", fails("content: is neither valid JSON nor valid YAML")},
	})
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

// TestBombs feeds small texts that are large once expanded, to parsers or to paths in errors. A mistake here takes the
// memory or the time of the whole test.
func TestBombs(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 60)
	for name, tc := range map[string]struct{ reason, raw string }{
		"aliases": {"One long text a hundred thousand times.",
			"a: &a '" + strings.Repeat("x", maxContentSize/2) + "'\nkubeconfig: [" + strings.Repeat("*a,", 100_000) + "]"},
		"depth": {"Each level has a path, all paths together are large.",
			strings.Repeat(`{"`+key+`":`, 9_000) + `{"kubeconfig":[]}` + strings.Repeat("}", 9_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sanitized(v1alpha1.KubernetesClusterTargetType, tc.raw); len(got.problems) == 0 ||
				len(got.problems) > 2*maxProblems {
				t.Errorf("%s\n%d problems", tc.reason, len(got.problems))
			}
			if got := sanitized(foreignType, tc.raw); got.content != "" && got.content != tc.raw {
				t.Errorf("%s\nthe content was changed", tc.reason)
			}
		})
	}
}
