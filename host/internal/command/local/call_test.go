package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadItem(t *testing.T) {
	t.Parallel()
	const head = commandtest.ItemHead
	const named, spec = head + "metadata: {name: a}\n", "spec: {type: t}\n"
	for text, want := range map[string][3]any{ // namespace, UID and generation
		named + spec: {"default", defaultUID, int64(1)},
		"# a comment\n---\n" + named + spec + "---\n":                              {"default", defaultUID, int64(1)},
		head + "metadata: {name: a, namespace: b, uid: c, generation: 4}\n" + spec: {"b", types.UID("c"), int64(4)},
	} {
		call, err := (&CallFlags{}).Read(t.Context(), commandtest.WriteFile(t, "item.yaml", text))
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]any{call.DeployItem.Namespace, call.DeployItem.UID, call.DeployItem.Generation}; got != want {
			t.Errorf("%q: expected %v, but found %v", text, want, got)
		}
	}
	for text, want := range map[string]string{
		"":                                    `expected a DeployItem`,
		"kind: List\napiVersion: v1\n":        `found a "List" of "v1"`,
		head + spec:                           "metadata.name is missing",
		named:                                 "spec.type is missing",
		named + "x: y\n":                      `unknown field "x"`,
		"{":                                   "read ",
		named + spec + "---\n" + named + spec: "expected one object, but found several",
	} {
		path := commandtest.WriteFile(t, "item.yaml", text)
		_, err := ReadItem(path, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: expected an error with %q and the file, but found: %v", text, want, err)
		}
	}
	if item, err := ReadItem("-", strings.NewReader(named+spec)); err != nil || item.Name != "a" {
		t.Errorf("expected the item of standard input, but found %v (%v)", item, err)
	}
	_, err := ReadItem("-", strings.NewReader("{"))
	if err == nil || !strings.Contains(err.Error(), "read standard input") {
		t.Errorf("expected to hear where it comes from, but found: %v", err)
	}
}

// kubeconfig writes a kubeconfig with such a user, and the files that it names.
func kubeconfig(t *testing.T, user string) string {
	t.Helper()
	path := commandtest.WriteFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c, user: u}}, {name: other, context: {cluster: other, user: other}}],
		clusters: [{name: c, cluster: {server: "https://one", certificate-authority: ca}},
			{name: other, cluster: {server: "https://other"}}],
		users: [{name: u, user: {`+user+`}}, {name: other, user: {token: other-secret}}]}`)
	for name, content := range map[string]string{"ca": "authority", "token": "secret"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestTarget(t *testing.T) {
	t.Parallel()
	item := &v1alpha1.DeployItem{}
	if target, err := (&CallFlags{}).targetOf(item); target != nil || err != nil {
		t.Errorf("an item without a target: %v, %v", target, err)
	}
	item.Spec.Target = &v1alpha1.ObjectReference{Name: "my-cluster"}
	target, err := (&CallFlags{target: kubeconfig(t, "tokenFile: token")}).targetOf(item)
	if err != nil {
		t.Fatal(err)
	}
	if target.Target.Name != "my-cluster" || target.Target.Spec.Type != v1alpha1.KubernetesClusterTargetType {
		t.Errorf("the Target is another one: %+v", target.Target)
	}
	var content map[string]string
	if err := json.Unmarshal([]byte(target.Content), &content); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content["kubeconfig"]))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://one" || config.BearerToken != "secret" || string(config.CAData) != "authority" ||
		config.CAFile != "" || config.BearerTokenFile != "" {
		t.Errorf("expected everything of the current context inside, but found %s", content["kubeconfig"])
	}
	if strings.Contains(content["kubeconfig"], "other-secret") {
		t.Error("the plugin gets the credentials of another context")
	}
}

func TestOtherTargets(t *testing.T) {
	t.Parallel()
	path := kubeconfig(t, "token: secret")
	targets, err := (&CallFlags{otherTargets: []string{"a=" + path, "b=" + path}}).readOtherTargets("ns")
	if err != nil || len(targets) != 2 {
		t.Fatalf("expected two Targets, but found %v (%v)", targets, err)
	}
	for name, target := range targets {
		if target.Target.Name != name || target.Target.Namespace != "ns" || !strings.Contains(target.Content, "secret") {
			t.Errorf("%s: found %+v", name, target)
		}
	}
	for want, others := range map[string][]string{
		`expected NAME=FILE, but found "a"`:     {"a"},
		`expected NAME=FILE, but found "=file"`: {"=file"},
		`expected NAME=FILE, but found "a="`:    {"a="},
		`the Target "a" is there twice`:         {"a=" + path, "a=" + path},
		"--other-target b: open /no/where":      {"b=/no/where"},
	} {
		got, err := (&CallFlags{otherTargets: others}).readOtherTargets("ns")
		if got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, but found %v: %v", want, got, err)
		}
	}
}

func TestBadKubeconfig(t *testing.T) {
	t.Parallel()
	const command = "exec: {apiVersion: client.authentication.k8s.io/v1, command: rm, interactiveMode: Never}"
	for _, tc := range []struct{ reason, path, want string }{
		{"a plugin runs no commands of others", kubeconfig(t, command), "from a command or provider"},
		{"nor these", kubeconfig(t, "auth-provider: {name: oidc}"), "from a command or provider"},
		{"a file that is missing", kubeconfig(t, "tokenFile: nowhere"), "no such file"},
		{"no file", "/no/where", "/no/where"},
		{"no kubeconfig", commandtest.WriteFile(t, "kubeconfig", "{"), "--target"},
		{"nothing in it", commandtest.WriteFile(t, "kubeconfig", "{}"), "--target"},
	} {
		target, err := (&CallFlags{target: tc.path}).targetOf(&v1alpha1.DeployItem{})
		if target != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected an error with %q, but found: %v", tc.reason, tc.want, err)
		}
	}
}

const pullConfig = `{"auths":{"r.example.org":{"auth":"bWU6c2VjcmV0"}}}`

func TestCredentialsOfFiles(t *testing.T) {
	t.Parallel()
	const head = "{apiVersion: v1, kind: Secret, "
	data := commandtest.WriteFile(t, "secret.yaml", head+`metadata: {name: data}, type: kubernetes.io/dockerconfigjson,
		data: {.dockerconfigjson: eyJhdXRocyI6eyJyLmV4YW1wbGUub3JnIjp7ImF1dGgiOiJiV1U2YzJWamNtVjAifX19}}`)
	text := commandtest.WriteFile(t, "secret.yaml",
		"---\n"+head+"metadata: {name: text, namespace: any}, stringData: {.dockerconfigjson: '"+pullConfig+"'}}\n---\n")
	item := commandtest.WriteFile(t, "item.yaml", commandtest.ItemHead+"metadata: {name: a}\nspec: {type: t}\n")
	call, err := (&CallFlags{}).Read(t.Context(), item)
	if err != nil || call.Context.Name != v1alpha1.DefaultContextName || call.Context.Namespace != "default" {
		t.Errorf("expected an empty Context without a file, but found %+v (%v)", call, err)
	}
	file := commandtest.WriteFile(t, "context.yaml", "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\n"+
		"metadata: {name: mine}\nregistryPullSecrets: [{name: text}, {name: gone}, {name: data}]\n")
	call, err = (&CallFlags{context: file, secrets: []string{data, text}}).Read(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if call.Context.Name != "mine" {
		t.Errorf("expected the Context of the file, but found %q", call.Context.Name)
	}
	want := &sdk.Credentials{Registries: []sdk.RegistryCredentials{
		{Secret: "text", DockerConfig: []byte(pullConfig)},
		{Secret: "gone", Problem: call.Credentials.Registries[1].Problem},
		{Secret: "data", DockerConfig: []byte(pullConfig)},
	}}
	if diff := cmp.Diff(want, call.Credentials); diff != "" || want.Registries[1].Problem == "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	all, err := call.Registries(t.Context())
	if err != nil || len(all) != 2 || string(all["text"].DockerConfig) != pullConfig {
		t.Errorf("expected those of all files by their names, but found %v (%v)", all, err)
	}
}

func TestConfigMapOfFile(t *testing.T) {
	t.Parallel()
	item := commandtest.WriteFile(t, "item.yaml", commandtest.ItemHead+"metadata: {name: a}\nspec: {type: t}\n")
	lsContext := commandtest.WriteFile(t, "context.yaml",
		"apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\n"+
			"metadata: {name: mine}\nocmConfig: {name: places}\n")
	named := func(name string) string {
		return commandtest.WriteFile(t, "map.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\ndata: {.ocmconfig: a}\n")
	}
	found, none := &sdk.OCMConfig{Content: []byte("a")}, &sdk.OCMConfig{Problem: "there is no"}
	for reason, tc := range map[string]struct {
		flags CallFlags
		want  *sdk.OCMConfig
	}{
		"the Context names none": {CallFlags{configMap: named("places")}, nil},
		"it is this one":         {CallFlags{context: lsContext, configMap: named("places")}, found},
		"it is another one":      {CallFlags{context: lsContext, configMap: named("other")}, none},
		"there is no file":       {CallFlags{context: lsContext}, none},
	} {
		call, err := tc.flags.Read(t.Context(), item)
		if err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		got := call.OCMConfig
		if (got == nil) != (tc.want == nil) || got != nil && (got.ConfigMap != "places" ||
			string(got.Content) != string(tc.want.Content) || !strings.Contains(got.Problem, tc.want.Problem)) {
			t.Errorf("%s: expected %v, but found %v", reason, tc.want, got)
		}
	}
	bad := CallFlags{configMap: lsContext}
	if call, err := bad.Read(t.Context(), item); call != nil || err == nil ||
		!strings.Contains(err.Error(), "--config-map: read ") {
		t.Errorf("expected the error of a Context that is no ConfigMap, but found %v", err)
	}
}

func TestBadSecretFiles(t *testing.T) {
	t.Parallel()
	const secret, wanted = "t0ps3cret", "expected a Secret of v1, as"
	const head = "{apiVersion: v1, kind: Secret"
	good := commandtest.WriteFile(t, "good.yaml", head+", metadata: {name: pull}}")
	for reason, tc := range map[string]struct{ text, want string }{
		"a docker config":       {`{"auths":{"a":{"auth":"` + secret + `"}}}`, wanted},
		"what is no base64":     {head + ", metadata: {name: a}, data: {a: '" + secret + "!'}}", wanted},
		"an unknown field":      {head + ", metadata: {name: a}, " + secret + ": a}", wanted},
		"another kind":          {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", wanted},
		"a Secret without name": {head + "}", "metadata.name is missing"},
		"several in a file":     {head + "}\n---\n" + head + "}\n", "expected one object, but found several"},
		"the same name twice":   {head + ", metadata: {name: pull}}", `the Secret "pull" is there twice`},
	} {
		got, err := (&CallFlags{secrets: []string{good, commandtest.WriteFile(t, "s.yaml", tc.text)}}).readSecrets()
		if got != nil || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: expected an error with %q and nothing of the Secret, but found: %v", reason, tc.want, err)
		}
	}
}

// A plugin gets what --other-target and --secret name, and the item's own Target by its name, too.
func TestResolve(t *testing.T) {
	t.Parallel()
	call := &Call{Call: plugin.Call{DeployItem: &v1alpha1.DeployItem{}}}
	target := func(name string) *v1alpha1.ResolvedTarget {
		return &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	other, own := target("other"), target("own")
	call.otherTargets, call.Target = map[string]*v1alpha1.ResolvedTarget{"other": other}, own
	for name, want := range map[string]*v1alpha1.ResolvedTarget{"other": other, "own": own} {
		if got, err := call.ResolveTarget(t.Context(), name); got != want || err != nil {
			t.Errorf("%s: found %v (%v)", name, got, err)
		}
	}
	call.Target = nil
	_, err := call.ResolveTarget(t.Context(), "own")
	var problem plugin.Error
	if !errors.As(err, &problem) || problem.Reason != "NoTargetFound" || len(problem.Codes) != 1 ||
		!strings.Contains(problem.Message, "--other-target own=FILE") {
		t.Errorf("expected to hear what to do, but found: %v", err)
	}

	secret := &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(pullConfig)}}
	call.secrets, call.DeployItem.Namespace = secretFiles{"pull": secret}, "shop"
	got, err := call.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Namespace: "shop", Name: "pull"})
	if err != nil || string(got.DockerConfig) != pullConfig {
		t.Errorf("expected the credentials of the file, but found %v, %v", got, err)
	}
	gone, err := call.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Name: "gone"})
	if err != nil || !strings.Contains(gone.Problem, `there is no Secret "shop/gone"`) {
		t.Errorf("expected to hear what is missing, but found %v, %v", gone, err)
	}
}
