package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	ofOwn       = named + "spec: {type: t, target: {name: own}}\n"
	contextHead = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {name: mine}\n"
	secretHead  = "{apiVersion: v1, kind: Secret"
	targetHead  = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Target\n"
	account     = targetHead + "metadata: {name: account, namespace: any}\n" +
		"spec: {type: example.org/account, secretRef: {name: creds}}"
	creds  = secretHead + ", metadata: {name: creds}, stringData: {token: t0ps3cret}}"
	region = targetHead + "metadata: {name: region, labels: {tier: test}}\n" +
		"spec: {type: example.org/region, config: {region: eu}}"
	configMap = "apiVersion: v1\nkind: ConfigMap\ndata: {.ocmconfig: a}\n"
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

// errorCase is an item with flags that are wrong, and the end of the error.
type errorCase struct {
	item  string
	flags CallFlags
	want  string
}

// hidden is a value of Secrets and Targets.
const hidden = "t0ps3cret"

// expectErrors expects errors about the file, and nothing of a Secret.
func expectErrors(t *testing.T, cases map[string]errorCase) {
	t.Helper()
	dirs := regexp.MustCompile(`/\S*/file\.yaml`)
	for reason, tc := range cases {
		call, err := tc.flags.Read(t.Context(), file(t, tc.item))
		found := dirs.ReplaceAllString(fmt.Sprint(err), "file.yaml")
		if call != nil || !strings.Contains(found, tc.want) || strings.Contains(found, hidden) {
			t.Errorf("%s: expected an error with %q and nothing of a Secret, but found: %s", reason, tc.want, found)
		}
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	pull := file(t, secretHead+", metadata: {name: pull}}")
	secret := func(text string) CallFlags { return CallFlags{secrets: []string{pull, file(t, text)}} }
	const wanted = "file.yaml: expected a Secret of v1, as"
	expectErrors(t, map[string]errorCase{
		"no item": {"", CallFlags{}, "file.yaml: expected a DeployItem"},
		"another kind of item": {"kind: List\napiVersion: v1\n", CallFlags{}, `file.yaml: expected a DeployItem of ` +
			`landscaper.gardener.cloud/v1alpha1, but found a "List" of "v1"`},
		"an item without name": {
			commandtest.ItemHead + "spec: {type: t}\n", CallFlags{}, "file.yaml: metadata.name is missing",
		},
		"an item without type": {named, CallFlags{}, "file.yaml: spec.type is missing"},
		"an unknown field":     {named + "x: y\n", CallFlags{}, `x: unknown field`},
		"no YAML":              {"{", CallFlags{}, "file.yaml: "},
		"several items":        {anyItem + "---\n" + anyItem, CallFlags{}, "expected one object, but found several"},

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
	})
}

// TestTargetErrors: file, object, field and what to do, and nothing of a Secret.
func TestTargetErrors(t *testing.T) {
	t.Parallel()
	target := func(path string) CallFlags { return CallFlags{target: path} }
	targets := func(documents ...string) CallFlags { return target(file(t, strings.Join(documents, "\n---\n"))) }
	of := func(spec string) CallFlags { return targets(targetHead+"metadata: {name: b}\nspec: {"+spec+"}", creds) }
	const exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: rm, interactiveMode: Never}"
	const read, notThis = "--target: read file.yaml: ", "expected a Target of landscaper.gardener.cloud/v1alpha1"
	expectErrors(t, map[string]errorCase{
		"the item has a Target":  {ofOwn, CallFlags{}, `item a: spec.target.name is "own"; give a file with this Target, or`},
		"no kubeconfig":          {anyItem, target("/no/where"), "--target: open /no/where: no such file"},
		"a broken kubeconfig":    {anyItem, target(file(t, "{")), read},
		"an empty kubeconfig":    {anyItem, target(file(t, "{}")), read + "expected a kubeconfig with a current"},
		"an empty file":          {anyItem, target(file(t, "# none")), read + "expected a kubeconfig with a current"},
		"a file of a kubeconfig": {anyItem, target(kubeconfig(t, "tokenFile: nowhere")), "no such file"},
		"a command": {
			anyItem, target(kubeconfig(t, exec)),
			read + `Target "default/target": users["u"].exec: running commands is not allowed; use a token`,
		},
		"a provider": {
			ofOwn, target(kubeconfig(t, "auth-provider: {name: oidc}")),
			read + `Target "default/own": users["u"].auth-provider: authentication plugins are not allowed; use a token`,
		},
		"impersonation": {anyItem, target(kubeconfig(t, "as: root")), `users["u"].as: impersonation is not allowed; use`},
		"a kubeconfig in an own type": {
			anyItem, of("type: t/u, config: {kubeconfig: {kind: Config, users: [{name: u, user: {" + exec + "}}]}}"),
			read + `Target "default/b": users["u"].exec: running commands is not allowed`,
		},
		"a cluster without content": {
			anyItem, of("type: landscaper.gardener.cloud/kubernetes-cluster"),
			read + `Target "default/b": spec: neither config nor secretRef is set`,
		},

		"another name": {
			ofOwn, targets(account, creds), `item a: spec.target.name is "own", but file.yaml has only ["account"]; correct`,
		},
		"several Targets": {
			anyItem, targets(account, creds, region),
			`item a: spec.target is missing, but file.yaml has several Targets; name one of ["account" "region"] in spec.t`,
		},
		"a missing Secret": {
			anyItem, targets(account), read + `Target "default/account": spec.secretRef.name: ` +
				`there is no Secret "default/creds"; create it, as a further YAML document of this file`,
		},
		"a missing key": {
			anyItem, of("type: t/u, secretRef: {name: creds, key: url}"),
			read + `Target "default/b": spec.secretRef.key: Secret "default/creds" has no key "url"; add it, or`,
		},
		"no type": {
			anyItem, of("config: {token: " + hidden + "}"), read + `the Target "b": spec.type is missing; it names the form of`,
		},
		"an unknown field": {
			anyItem, of("tipe: t/u, token: " + hidden),
			read + `the Target "b": spec.tipe: unknown field; did you mean type?; spec.token: unknown field`,
		},
		"no name":            {anyItem, targets(targetHead + "spec: {type: t/u}"), read + "metadata.name is missing in a T"},
		"the same again":     {anyItem, targets(account, creds, account), `the Target "account" is there twice; remove`},
		"two Secrets":        {anyItem, targets(account, creds, creds), `the Secret "creds" is there twice; remove one`},
		"Secrets alone":      {anyItem, targets(creds), read + notThis + ", but found"},
		"a malformed Secret": {anyItem, targets(account, secretHead+", "+hidden+": a}"), read + "document 2: expected"},
		"no YAML":            {anyItem, targets(account, "*"+hidden), read + "document 2 is no valid YAML; correct"},
		"another kind": {
			anyItem, targets(account, anyItem), read + "document 2: " + notThis +
				` or a Secret of v1, but found a "DeployItem" of "landscaper.gardener.cloud/v1alpha1"; remove it`,
		},
	})
}

// TestCluster: the current context of a kubeconfig, without files.
func TestCluster(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"own": ofOwn, "target": anyItem} {
		call, err := (&CallFlags{target: kubeconfig(t, "tokenFile: token")}).Read(t.Context(), file(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if found := call.Target.Target; found.Name != name || found.Namespace != "default" ||
			found.Spec.Type != v1alpha1.KubernetesClusterTargetType || found.Kind != "Target" {
			t.Errorf("%s: found %+v", name, found)
		}
		var content map[string]string
		if err := json.Unmarshal([]byte(call.Target.Content), &content); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content["kubeconfig"]))
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://one" || config.BearerToken != "secret" || string(config.CAData) != "authority" ||
			config.CAFile != "" || config.BearerTokenFile != "" || strings.Contains(call.Target.Content, "other-secret") {
			t.Errorf("%s: expected all of the current context and no other, but found %s", name, content["kubeconfig"])
		}
	}
}

// Rule (plugin-authors.md#4-test-it): `--target` names a kubeconfig, or Targets of any type with their Secrets.
func TestTargets(t *testing.T) {
	t.Parallel()
	all := CallFlags{target: file(t, account+"\n---\n"+creds+"\n---\n"+region)}
	ofRegion := file(t, named+"spec: {type: t, target: {name: region}}\n")
	call, err := all.Read(t.Context(), ofRegion)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"account": `{"token":"t0ps3cret"}`, "region": `{"region":"eu"}`} {
		found, err := call.ResolveTarget(t.Context(), name)
		if err != nil || found.Content != want || found.Target.Namespace != "default" ||
			found.Target.Spec.Type != v1alpha1.TargetType("example.org/"+name) || (found == call.Target) != (name == "region") {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
	}
	_, err = call.ResolveTarget(t.Context(), "gone")
	var problem plugin.Error
	if !errors.As(err, &problem) || problem.Reason != "NoTargetFound" || len(problem.Codes) != 1 ||
		!strings.Contains(problem.Message, "add it to the file of --target") {
		t.Errorf("expected what to do about it, but found: %v", err)
	}
	// The only Target is that of an item without a reference.
	call, err = (&CallFlags{target: file(t, region)}).Read(t.Context(), file(t, anyItem))
	if err != nil || call.Target == nil || call.Target.Target.Labels["tier"] != "test" {
		t.Errorf("expected the only Target, but found %+v, %v", call, err)
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
