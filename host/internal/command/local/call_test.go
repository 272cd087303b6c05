package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	named       = commandtest.ItemHead + "metadata: {name: a}\n"
	anyItem     = named + "spec: {type: t}\n"
	contextHead = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {name: mine}\n"
	secretHead  = "{apiVersion: v1, kind: Secret"
	configMap   = "apiVersion: v1\nkind: ConfigMap\ndata: {.ocmconfig: a}\n"
)

// file writes a file for a flag.
func file(t *testing.T, text string) string {
	t.Helper()
	return commandtest.WriteFile(t, "file.yaml", text)
}

// kubeconfig writes a kubeconfig with such a user, and the files that it names.
func kubeconfig(t *testing.T, user string) string {
	t.Helper()
	path := file(t, `{apiVersion: v1, kind: Config, current-context: c,
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

func TestItem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]any{ // namespace, UID and generation
		anyItem:                                  {"default", defaultUID, int64(1)},
		"# a comment\n---\n" + anyItem + "---\n": {"default", defaultUID, int64(1)},
		commandtest.ItemHead + "metadata: {name: a, namespace: b, uid: c, generation: 4}\nspec: {type: t}\n": {
			"b", types.UID("c"), int64(4),
		},
	} {
		call, err := (&CallFlags{}).Read(t.Context(), file(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]any{call.DeployItem.Namespace, call.DeployItem.UID, call.DeployItem.Generation}; got != want {
			t.Errorf("%q: expected %v, but found %v", text, want, got)
		}
		if call.Target != nil || call.Context.Name != v1alpha1.DefaultContextName || call.Context.Namespace != want[0] {
			t.Errorf("%q: expected no Target and an empty Context, but found %+v", text, call)
		}
	}
	if item, err := ReadItem("-", strings.NewReader(anyItem)); err != nil || item.Name != "a" {
		t.Errorf("expected the item of standard input, but found %v (%v)", item, err)
	}
	_, err := ReadItem("-", strings.NewReader("{"))
	if err == nil || !strings.Contains(err.Error(), "read standard input") {
		t.Errorf("expected an error of standard input, but found: %v", err)
	}
}

// TestErrorsNameTheFile: and nothing of a Secret.
func TestErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	const hidden = "t0ps3cret"
	path, pull := kubeconfig(t, "token: "+hidden), file(t, secretHead+", metadata: {name: pull}}")
	target := func(path string) CallFlags { return CallFlags{target: path} }
	others := func(others ...string) CallFlags { return CallFlags{otherTargets: others} }
	secret := func(text string) CallFlags { return CallFlags{secrets: []string{pull, file(t, text)}} }
	const command = "exec: {apiVersion: client.authentication.k8s.io/v1, command: rm, interactiveMode: Never}"
	const runs, wanted = "from a command or provider", "file.yaml: expected a Secret of v1, as"
	for reason, tc := range map[string]struct {
		item  string
		flags CallFlags
		want  string
	}{
		"no item": {"", CallFlags{}, "file.yaml: expected a DeployItem"},
		"another kind of item": {"kind: List\napiVersion: v1\n", CallFlags{}, `file.yaml: expected a DeployItem of ` +
			`landscaper.gardener.cloud/v1alpha1, but found a "List" of "v1"`},
		"an item without name": {
			commandtest.ItemHead + "spec: {type: t}\n", CallFlags{}, "file.yaml: metadata.name is missing",
		},
		"an item without type": {named, CallFlags{}, "file.yaml: spec.type is missing"},
		"an unknown field":     {named + "x: y\n", CallFlags{}, `unknown field "x"`},
		"no YAML":              {"{", CallFlags{}, "file.yaml: "},
		"several items":        {anyItem + "---\n" + anyItem, CallFlags{}, "expected one object, but found several"},

		"the item has a target":  {named + "spec: {type: t, target: {name: cluster}}\n", CallFlags{}, `"cluster"; give`},
		"a plugin runs nothing":  {anyItem, target(kubeconfig(t, command)), runs},
		"nor such a provider":    {anyItem, target(kubeconfig(t, "auth-provider: {name: oidc}")), runs},
		"a file of a kubeconfig": {anyItem, target(kubeconfig(t, "tokenFile: nowhere")), "no such file"},
		"no kubeconfig":          {anyItem, target("/no/where"), "/no/where"},
		"a broken kubeconfig":    {anyItem, target(file(t, "{")), "--target"},
		"an empty kubeconfig":    {anyItem, target(file(t, "{}")), "--target"},

		"another target without file": {anyItem, others("a"), `--other-target: expected NAME=FILE, but found "a"`},
		"with an empty file":          {anyItem, others("a="), `expected NAME=FILE, but found "a="`},
		"without a name":              {anyItem, others("=file"), `expected NAME=FILE, but found "=file"`},
		"twice":                       {anyItem, others("a="+path, "a="+path), `the Target "a" is there twice`},
		"another target of no file":   {anyItem, others("b=/no/where"), "--other-target b: open /no/where"},

		"a docker config": {anyItem, secret(`{"auths":{"a":{"auth":"` + hidden + `"}}}`), wanted},
		"no base64": {
			anyItem, secret(secretHead + ", metadata: {name: a}, data: {a: '" + hidden + "!'}}"), wanted,
		},
		"a field of no Secret":  {anyItem, secret(secretHead + ", metadata: {name: a}, " + hidden + ": a}"), wanted},
		"a ConfigMap":           {anyItem, secret(configMap), wanted},
		"a Secret without name": {anyItem, secret(secretHead + "}"), "file.yaml: metadata.name is missing"},
		"several Secrets":       {anyItem, secret(secretHead + "}\n---\n" + secretHead + "}\n"), "found several"},
		"the same Secret again": {anyItem, CallFlags{secrets: []string{pull, pull}}, `the Secret "pull" is there twice`},

		"no ConfigMap": {anyItem, CallFlags{configMap: file(t, contextHead)}, "--config-map: read "},
	} {
		call, err := tc.flags.Read(t.Context(), file(t, tc.item))
		if call != nil || err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: expected an error with %q and nothing of a Secret, but found: %v", reason, tc.want, err)
		}
	}
}

// TestTarget: the current context of a kubeconfig, without files.
func TestTarget(t *testing.T) {
	t.Parallel()
	item := file(t, named+"spec: {type: t, target: {name: own}}\n")
	flags := CallFlags{
		target:       kubeconfig(t, "tokenFile: token"),
		otherTargets: []string{"a=" + kubeconfig(t, "token: of-a"), "b=" + kubeconfig(t, "token: of-b")},
	}
	call, err := flags.Read(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"own": "secret", "a": "of-a", "b": "of-b"} {
		target, err := call.ResolveTarget(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if found := target.Target; found.Name != name || found.Namespace != "default" ||
			found.Spec.Type != v1alpha1.KubernetesClusterTargetType || (target == call.Target) != (name == "own") {
			t.Errorf("%s: found %+v", name, found)
		}
		var content map[string]string
		if err := json.Unmarshal([]byte(target.Content), &content); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content["kubeconfig"]))
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://one" || config.BearerToken != token || string(config.CAData) != "authority" ||
			config.CAFile != "" || config.BearerTokenFile != "" || strings.Contains(target.Content, "other-secret") {
			t.Errorf("%s: expected all of the current context and no other, but found %s", name, content["kubeconfig"])
		}
	}
	_, err = call.ResolveTarget(t.Context(), "gone")
	var problem plugin.Error
	if !errors.As(err, &problem) || problem.Reason != "NoTargetFound" || len(problem.Codes) != 1 ||
		!strings.Contains(problem.Message, "--other-target gone=FILE") {
		t.Errorf("expected the flag for it, but found: %v", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	const pullConfig = `{"auths":{"r.example.org":{"auth":"bWU6c2VjcmV0"}}}`
	data := file(t, secretHead+`, metadata: {name: data}, type: kubernetes.io/dockerconfigjson,
		data: {.dockerconfigjson: eyJhdXRocyI6eyJyLmV4YW1wbGUub3JnIjp7ImF1dGgiOiJiV1U2YzJWamNtVjAifX19}}`)
	text := file(t, "---\n"+secretHead+
		", metadata: {name: text, namespace: any}, stringData: {.dockerconfigjson: '"+pullConfig+"'}}\n---\n")
	ofContext := file(t, contextHead+"registryPullSecrets: [{name: text}, {name: gone}, {name: data}]\n")
	call, err := (&CallFlags{context: ofContext, secrets: []string{data, text}}).Read(t.Context(), file(t, anyItem))
	if err != nil {
		t.Fatal(err)
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
		t.Errorf("expected the credentials of all files by their names, but found %v (%v)", all, err)
	}
	gone, err := call.ResolveRegistryCredentials(t.Context(), types.NamespacedName{Namespace: "default", Name: "gone"})
	if err != nil || !strings.Contains(gone.Problem, `there is no Secret "default/gone"`) {
		t.Errorf("expected a problem, but found %v, %v", gone, err)
	}
}

func TestConfigMap(t *testing.T) {
	t.Parallel()
	named := func(name string) string { return file(t, configMap+"metadata: {name: "+name+"}\n") }
	naming := file(t, contextHead+"ocmConfig: {name: places}\n")
	found, none := &sdk.OCMConfig{Content: []byte("a")}, &sdk.OCMConfig{Problem: "there is no"}
	for reason, tc := range map[string]struct {
		flags CallFlags
		want  *sdk.OCMConfig
	}{
		"the Context names none": {CallFlags{configMap: named("places")}, nil},
		"it is this one":         {CallFlags{context: naming, configMap: named("places")}, found},
		"it is another one":      {CallFlags{context: naming, configMap: named("other")}, none},
		"there is no file":       {CallFlags{context: naming}, none},
	} {
		call, err := tc.flags.Read(t.Context(), file(t, anyItem))
		if err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		got := call.OCMConfig
		if (got == nil) != (tc.want == nil) || got != nil && (got.ConfigMap != "places" ||
			string(got.Content) != string(tc.want.Content) || !strings.Contains(got.Problem, tc.want.Problem)) {
			t.Errorf("%s: expected %v, but found %v", reason, tc.want, got)
		}
	}
}
