package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	const (
		file        = "reading files is not allowed; use "
		impersonate = "impersonation is not allowed; use that user's own credentials"
	)
	replaced := func(from, to string) string { return strings.Replace(sound, from, to, 1) }
	passes := outcome{content: marshal(t, map[string]any{"kubeconfig": rebuilt})}
	checkContent(t, v1alpha1.KubernetesClusterTargetType, map[string]contentCase{
		// Rule (SECURITY.md#authors-of-items): A kubeconfig with commands, files or impersonation is refused.
		"everything": {
			reason: "All that is forbidden is reported at once.",
			raw: strings.Replace(kubeconfig("exec: {command: t0ps3cret}", "auth-provider: {name: oidc}", "as: t0ps3cret",
				"as-uid: '1'", "as-groups: [system:masters]", "as-user-extra: {a: [b]}",
				"client-certificate: /t0ps3cret", "client-key: /t0ps3cret", "tokenFile: /t0ps3cret"),
				"server:", "certificate-authority: /t0ps3cret\n    server:", 1),
			want: refused(
				`clusters["c"].certificate-authority: `+file+"certificate-authority-data",
				`users["admin"].as: `+impersonate,
				`users["admin"].as-groups: `+impersonate,
				`users["admin"].as-uid: `+impersonate,
				`users["admin"].as-user-extra: `+impersonate,
				`users["admin"].auth-provider: authentication plugins are not allowed; use a token or client-certificate-data`,
				`users["admin"].client-certificate: `+file+"client-certificate-data",
				`users["admin"].client-key: `+file+"client-key-data",
				`users["admin"].exec: running commands is not allowed; use a token or client-certificate-data`,
				`users["admin"].tokenFile: `+file+"token",
			),
		},
		"internal version": {
			reason: "Client-go reads what it has in memory, too, where a context may be nil and users are no list.",
			raw: `{"apiVersion": "__internal", "kind": "Config", "current-context": "x", "contexts": {"x": null}, ` +
				`"users": {"u": {"exec": {"command": "sh"}}}}`,
			want: fails("apiVersion: is not v1"),
		},
		"unused user": {reason: "Another user may be the current one tomorrow.",
			raw:  sound + "- name: other\n  user: {exec: {command: sh}}\n",
			want: refused(`users["other"].exec: running commands is not allowed; use a token or client-certificate-data`)},
		"forbidden and malformed": {
			reason: "One report for both; the worse one counts.",
			raw:    "kind: Config\nusers: [{user: {exec: {command: sh}}}]",
			want: refused(
				"users[0].name: is missing",
				`users["0"].exec: running commands is not allowed; use a token or client-certificate-data`,
			),
		},
		"empty values": {reason: "Generated files spell out what is not there.",
			raw: kubeconfig("token: t0ps3cret", "exec: null", "as: ''", "as-groups: []"), want: passes},
		"unknown": {reason: "Unknown fields are dropped.",
			raw:  kubeconfig("token: t0ps3cret", "command: sh", "extensions: [{name: x}]") + "preferences: {exec: x}\n",
			want: passes},
		"no current context": {reason: "Nobody guesses.",
			raw: replaced("current-context: prod", "current-context: ''"), want: fails("current-context: is missing")},
		"unknown context": {reason: "The name is told.", raw: replaced("current-context: prod", "current-context: other"),
			want: fails("kubeconfig: cannot locate context other")},
		"unknown cluster": {reason: "The name is told.",
			raw: replaced("{cluster: c,", "{cluster: d,"), want: fails("kubeconfig: cannot locate cluster d")},
		"no cluster and user": {reason: "Both are told.", raw: replaced("{cluster: c, user: admin, namespace: apps}", "{}"),
			want: fails(`contexts["prod"].cluster: is missing`, `contexts["prod"].user: is missing`)},
		"no server": {reason: "client-go would go to localhost.",
			raw: replaced("server: https://example.org", "server: ''"), want: fails(`clusters["c"].server: is missing`)},
		"server without a scheme": {reason: "client-go would use HTTP, also beside certificates.",
			raw:  replaced("server: https://example.org", "server: example.org:6443"),
			want: fails(`clusters["c"].server: is no address with https://; put that before it`)},
		"insecure with certificates": {reason: "client-go refuses that, and names no field.",
			raw: replaced("server:", "insecure-skip-tls-verify: true\n    server:"), want: fails(
				`clusters["c"].insecure-skip-tls-verify: is set beside certificate-authority-data; remove one of them`)},
		"wrong types": {reason: "Values are not quoted.", raw: kubeconfig("token: 12345"),
			want: fails("users.user.token: expected a text, but found a number; quotes make it a text")},
		"no base64": {reason: "Values are not quoted.",
			raw: kubeconfig("client-key-data: t0ps3cret!"), want: fails(`users["admin"].client-key-data: is not valid base64`)},
		"other kind": {reason: "kubectl does not read it either.", raw: replaced("kind: Config", "kind: Secret"),
			want: fails("kubeconfig: is not one of version v1 that kubectl can read")},
		"wrong flag": {reason: "Only true is true.",
			raw:  replaced("server:", "insecure-skip-tls-verify: 'true'\n    server:"),
			want: fails(`clusters.cluster.insecure-skip-tls-verify: expected true or false, but found a text`)},
		"names twice": {reason: "Parsers differ about which counts.",
			raw: sound + "- name: admin\n  user: {token: other}\n", want: fails(`users["admin"]: the name appears twice`)},
	})
}

func TestAllowedFieldsSurvive(t *testing.T) {
	t.Parallel()
	insecure := strings.Replace(kubeconfig("client-certificate-data: Y2VydA==", "client-key-data: a2V5", "token: t",
		"username: u", "password: p"),
		"certificate-authority-data: Y2E=", "tls-server-name: name\n"+
			"    insecure-skip-tls-verify: true\n    proxy-url: http://proxy\n    disable-compression: true", 1)
	for _, text := range []string{insecure, sound} {
		want, err := clientcmd.Load([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, _, problems := sanitize(v1alpha1.KubernetesClusterTargetType, []byte(text), "")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if diff := cmp.Diff(want, load(t, got)); diff != "" {
			t.Errorf("kubeconfig as client-go reads it (-want +got):\n%s", diff)
		}
	}
}

// failer is what a test, a property and a fuzz target have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// load returns the kubeconfig in sanitized content as client-go reads it.
func load(t failer, content string) *clientcmdapi.Config {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal([]byte(content), &document); err != nil {
		t.Fatalf("content is not JSON: %v", err)
	}
	text, ok := document["kubeconfig"].(string)
	if !ok {
		t.Fatalf("content has no text in the field kubeconfig")
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		t.Fatalf("client-go cannot read the kubeconfig %s: %v", text, err)
	}
	return config
}

// allowed are the keys that a rebuilt kubeconfig may have, as a naive reader meets them.
var allowed = strings.Fields("kind apiVersion clusters users contexts current-context name cluster user context " +
	"namespace server tls-server-name certificate-authority-data insecure-skip-tls-verify proxy-url disable-compression " +
	"client-certificate-data client-key-data token username password")

// checkHarmless fails unless sanitized content is a kubeconfig with one context, one cluster, one user and nothing
// forbidden.
func checkHarmless(t failer, content string) {
	t.Helper()
	config := load(t, content)
	current := config.Contexts[config.CurrentContext]
	if len(config.Contexts) != 1 || len(config.Clusters) != 1 || len(config.AuthInfos) != 1 || current == nil ||
		config.Clusters[current.Cluster].Server == "" {
		t.Fatalf("not exactly one context, cluster with a server and user: %s", content)
	}
	var document map[string]string
	if err := json.Unmarshal([]byte(content), &document); err != nil || len(document) != 1 {
		t.Fatalf("content has more than a kubeconfig: %s", content)
	}
	var kubeconfig any
	if err := json.Unmarshal([]byte(document["kubeconfig"]), &kubeconfig); err != nil {
		t.Fatalf("kubeconfig is not JSON: %v", err)
	}
	walk(kubeconfig, func(key string) {
		if !slices.Contains(allowed, key) {
			t.Fatalf("the kubeconfig has a field %q: %s", key, content)
		}
	})
}

// walk visits all keys in a document.
func walk(value any, visit func(key string)) {
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			visit(key)
			walk(inner, visit)
		}
	case []any:
		for _, inner := range typed {
			walk(inner, visit)
		}
	}
}

// Generators for kubeconfigs that are sometimes sound and mostly not. Every value that is a secret contains
// "t0ps3cret".
var (
	fieldNames = slices.Concat(allowed, slices.Sorted(maps.Keys(forbiddenInUser)),
		slices.Sorted(maps.Keys(forbiddenInCluster)),
		[]string{"tokenFile", "kubeconfig", "Exec", "EXEC", "uſer", "toKenFile", "extensions", "command", "<<"})
	scalars = rapid.SampledFrom([]string{`"t0ps3cret"`, `"dDBwczNjcmV0"`, `"a"`, `""`, `null`, `true`, `12`, `[]`, `{}`,
		`["t0ps3cret"]`, `{"command":"t0ps3cret"}`})
)

// genObject writes an object in JSON: the fields that are given, and some others, so many at most.
func genObject(t *rapid.T, others int, fields ...string) string {
	for range rapid.IntRange(0, others).Draw(t, "others") {
		field := fmt.Sprintf("%q:%s", rapid.SampledFrom(fieldNames).Draw(t, "key"), scalars.Draw(t, "value"))
		fields = slices.Insert(fields, rapid.IntRange(0, len(fields)).Draw(t, "position"), field)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// genEntries writes a list of named entries whose first is named "a".
func genEntries(t *rapid.T, others int, inner string, fields ...string) string {
	entries := []string{genObject(t, others, `"name":"a"`, fmt.Sprintf("%q:%s", inner, genObject(t, others, fields...)))}
	for range rapid.IntRange(0, min(others, 1)).Draw(t, "entries") {
		name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
		entries = append(entries, fmt.Sprintf(`{"name":%q,%q:%s}`, name, inner, genObject(t, others)))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

func genContent(t *rapid.T) string {
	others := rapid.IntRange(0, 2).Draw(t, "most others") // without any it is sound
	kubeconfig := genObject(t, others, `"kind":"Config"`, `"current-context":"a"`,
		`"clusters":`+genEntries(t, others, "cluster", `"server":"https://a"`),
		`"users":`+genEntries(t, others, "user", `"token":"t0ps3cret"`),
		`"contexts":`+genEntries(t, others, "context", `"cluster":"a"`, `"user":"a"`))
	switch rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		return kubeconfig
	case 1:
		return genObject(t, others, `"kubeconfig":`+kubeconfig)
	default:
		quoted, err := json.Marshal(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		return genObject(t, others, `"kubeconfig":`+string(quoted))
	}
}

// TestNothingForbiddenGetsThrough: whatever goes in, what comes out is harmless, and what is reported holds no secret.
// Rule (architecture.md#what-always-holds): 8. A plugin never receives a kubeconfig that runs commands or reads files.
func TestNothingForbiddenGetsThrough(t *testing.T) {
	t.Parallel()
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		raw := genContent(t)
		content, _, problems := sanitize(v1alpha1.KubernetesClusterTargetType, []byte(raw), "")
		for _, problem := range problems {
			if text := problem.String(); strings.Contains(text, "t0ps3cret") || strings.Contains(text, "dDBwczNjcmV0") {
				t.Fatalf("the problem holds a secret: %s", text)
			}
		}
		if len(problems) == 0 {
			passed++
			checkHarmless(t, content)
		}
	})
	if passed == 0 {
		t.Error("no generated kubeconfig passed, so that nothing was tested")
	}
}

func FuzzContent(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "null", sound, rebuilt, sound + "---\n" + sound, kubeconfig("Exec: {command: sh}", "toKenFile: /x"),
		kubeconfig(`"\u0065xec": {command: sh}`), "a: &a {users: []}\nb: {<<: *a, clusters: []}",
		`{"x":"\ud83d\ude00","kubeconfig":` + rebuilt + `}`, "? [a]\n: b", "- &a [*a]", "!!binary a2luZA==: !x y",
		"{\"a\": \"{\\\"kubeconfig\\\": 1}\"}", "\xff\xfea\x00", oidcContent("audience: [a]", "extra: 1"),
		oidcContent() + "\n" + sound, `{"SelfConfig":{"serviceAccount":{"name":"x"},"expirationSeconds":600}}`,
		strings.Replace(sound, "server: https", "server: &s https", 1) + "preferences: *s\n", strings.Repeat("[", 5000),
		"%YAML 1.2\n---\n" + sound, strings.ReplaceAll(sound, "\n", "\r\n"), "\ufeff" + sound,
		`{"kind":"Config","users":[{"name":"\ud83d"}]}`,
	} {
		f.Add([]byte(seed))
		f.Add([]byte("kubeconfig:\n" + indent(seed)))
		f.Add([]byte(encode(map[string]any{"kubeconfig": seed})))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if content, login, problems := sanitize(v1alpha1.KubernetesClusterTargetType, raw, ""); len(problems) == 0 {
			checkHarmless(t, loggedIn(t, content, login))
		}
		if whole := wholeSecret(map[string][]byte{"a": raw}); !json.Valid(whole) {
			t.Fatalf("as a whole secret: %s", whole)
		}
		content, _, problems := sanitize(foreignType, raw, "")
		if len(problems) > 0 || content == string(raw) && !holdsKubeconfig(raw) {
			return
		}
		// What is beside the kubeconfig is the plugin's own; nothing in it is a kubeconfig.
		if config := load(t, content); config.Contexts[config.CurrentContext] == nil {
			t.Fatalf("content of another type has no current context: %s", content)
		}
		if again, _, problems := sanitize(foreignType, []byte(content), ""); again != content {
			t.Fatalf("sanitizing twice: %v\nonce:  %s\ntwice: %s", problems, content, again)
		}
	})
}
