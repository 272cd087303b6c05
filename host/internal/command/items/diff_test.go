package items

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	differType v1alpha1.DeployItemType = "test.pergola.dev/differ"
	plainType  v1alpha1.DeployItemType = "test.pergola.dev/plain"
	pullerType v1alpha1.DeployItemType = "test.pergola.dev/puller"
)

// testPlugins are the programs that the test binary is by other names.
func testPlugins() map[string]func() {
	return map[string]func(){
		"differ": func() { sdk.Serve(differ{}, sdk.Name("differ"), sdk.Version("v1"), sdk.Types(differType)) },
		"plain":  func() { sdk.Serve(plain{}, sdk.Name("plain"), sdk.Version("v2"), sdk.Types(plainType)) },
		"puller": func() { sdk.Serve(puller{}, sdk.Name("puller"), sdk.Types(pullerType), sdk.ContextCredentials()) },
		"broken": func() { os.Exit(3) },
	}
}

// plain is a deployer that cannot tell what it would do.
type plain struct{}

func (plain) Reconcile(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }
func (plain) Delete(context.Context, *sdk.Request) (*sdk.Response, error)    { return nil, nil }

// differ would make its provider status what its configuration is. It says where.
type differ struct{ plain }

func (differ) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	item := req.DeployItem
	var config map[string]any
	if err := json.Unmarshal(item.Spec.Config.Raw, &config); err != nil {
		return nil, err
	}
	if reason, ok := config["wrong"].(string); ok {
		return nil, sdk.ConfigurationError("Wrong", "spec.config.wrong: %s", reason)
	}
	target := "nowhere"
	if req.Target != nil {
		target = req.Target.Name
		if !strings.Contains(string(req.Target.Content), "kubeconfig") {
			target += " without credentials"
		}
	}
	change := sdk.Change{
		Object: "Document " + item.Namespace + "/" + item.Name, Action: sdk.ActionCreate, After: item.Spec.Config.Raw,
		Note: "on " + target + ", with Context " + req.Context.Name + ", label " + item.Labels["a"] + item.Labels["b"],
	}
	if status := item.Status.ProviderStatus; status != nil {
		change.Action, change.Before = sdk.ActionUpdate, status.Raw
	}
	if cmp.Equal(string(change.Before), string(change.After)) {
		return &sdk.DiffResponse{}, nil
	}
	return &sdk.DiffResponse{Changes: []sdk.Change{change}}, nil
}

// puller is a deployer that needs credentials.
type puller struct{ plain }

func (puller) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	credentials := req.Credentials.Registries[0]
	if credentials.Problem != "" {
		return nil, sdk.ConfigurationError("Unauthorized", "%s", credentials.Problem)
	}
	return &sdk.DiffResponse{Changes: []sdk.Change{{
		Object: "Image", Action: sdk.ActionCreate, Note: fmt.Sprintf("pulled with %d bytes", len(credentials.DockerConfig)),
	}}}, nil
}

const document = `{"apiVersion":"test.pergola.dev/v1","kind":"Document","colour":"green"}`

// pluginDir is a directory with the test binary by all the names by which it is a plugin.
func pluginDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range testPlugins() {
		if err := testenv.AddPlugin(self, dir, name); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestItemsDiff(t *testing.T) {
	s := newShop(t)
	s.target("here")
	s.create(&corev1.Secret{
		ObjectMeta: s.named("pull"), Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"a":{"auth":"t0ps3cret"}}}`},
	})
	s.create(&v1alpha1.Context{ObjectMeta: s.named("private"), ContextConfiguration: v1alpha1.ContextConfiguration{
		RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: "pull"}},
	}})
	s.allow("powerless", deployItems, "targets."+v1alpha1.GroupName, "contexts."+v1alpha1.GroupName)

	item := func(name string, steps ...itemStep) {
		s.item(name, append([]itemStep{on("here"), func(i *v1alpha1.DeployItem) {
			i.Spec.Type, i.Spec.Config.Raw, i.Labels = differType, []byte(document), map[string]string{"a": "one"}
		}}, steps...)...)
	}
	ofType := func(name v1alpha1.DeployItemType) itemStep {
		return func(i *v1alpha1.DeployItem) { i.Spec.Type = name }
	}
	red := strings.Replace(document, "green", "red", 1)
	item("new")
	item("changed", keeps(red))
	item("same", keeps(document))
	item("plain", ofType(plainType))
	item("unserved", ofType("test.pergola.dev/none"))
	item("puller", ofType(pullerType), func(i *v1alpha1.DeployItem) { i.Spec.Context, i.Spec.Target = "private", nil })
	item("wrong", func(i *v1alpha1.DeployItem) {
		i.Spec.Config.Raw = []byte(`{"apiVersion":"test.pergola.dev/v1","kind":"Document","wrong":"it is\u001b[31m"}`)
	})
	item("lost", on("nowhere"), func(i *v1alpha1.DeployItem) { i.Spec.Context = "none" })
	item("going", func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} })
	s.remove("going")
	const head = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\n"
	blue := strings.Replace(document, "green", "blue", 1)
	spec := "spec: {type: test.pergola.dev/differ, target: {name: here}, config: " + blue + "}\n"
	file := commandtest.WriteFile(t, "item.yaml", head+"metadata: {name: changed, labels: {b: two}}\n"+spec)
	unborn := commandtest.WriteFile(t, "unborn.yaml", head+"metadata: {name: unborn, namespace: "+s.namespace+"}\n"+spec+
		"status: {observedGeneration: 1, providerStatus: "+document+"}\n")
	const created, updated = "1 to create, 0 to update, 0 to delete.\n", "0 to create, 1 to update, 0 to delete.\n"
	colours := func(before, after string) string {
		return "\n    @@ -1,3 +1,3 @@\n     apiVersion: test.pergola.dev/v1\n    -colour: " + before +
			"\n    +colour: " + after + "\n     kind: Document\n"
	}
	colour := func(name string) string {
		return "\n    @@ -0,0 +1,3 @@\n    +apiVersion: test.pergola.dev/v1\n    +colour: " + name + "\n    +kind: Document\n"
	}
	plugins := " --plugin-dir " + pluginDir(t)
	powerless := " --kubeconfig " + s.as("powerless")
	cases := []itemsCase{
		{"what was never deployed is new", "new", 1, []string{
			"+ create Document NS/new: on here, with Context default, label one" + colour("green") + created,
		}},
		{"what has changed since", "changed", 1, []string{
			"~ update Document NS/changed: on here, with Context default, label one" + colours("red", "green") + updated,
		}},
		{"nothing to do", "same", 0, []string{"Nothing to change.\n"}},
		{"a file, as if it were applied to the item", "-f " + file, 1, []string{
			"~ update Document NS/changed: on here, with Context default, label onetwo" + colours("red", "blue") + updated,
		}},
		{"a file of an item that is not there, whose status is not its own to tell", "-f " + unborn, 1, []string{
			"+ create Document NS/unborn: on here, with Context default, label" + colour("blue") + created,
		}},
		{"another namespace than that of the file", "-n default -f " + unborn, 2, []string{`"NS"`, `-n says "default"`}},
		{"another context of the kubeconfig", "new --context other", 2, []string{
			`there is no DeployItem "new" in the namespace "elsewhere"`,
		}},
		{"no such item", "nobody", 2, []string{`there is no DeployItem "nobody" in the namespace "NS"`, "-n"}},
		{"an empty name would be a list", "", 2, []string{"is empty"}},
		{"two things to compare", "new -f " + file, 2, []string{`"new"`, "-f"}},
		{"two items", "new same", 2, []string{"2 arguments"}},
		{"no such flag", "new --colour", 2, []string{"--colour"}},
		{"no such file", "-f /no/where", 2, []string{"/no/where"}},
		{"no such context", "new --context nowhere", 2, []string{"nowhere"}},
		{"an item that goes", "going", 2, []string{`"NS/going"`, "is being deleted"}},
		{"all that is missing", "lost", 2, []string{`Target "NS/nowhere"`, `Context "NS/none"`}},
		{"credentials of the Context", "puller", 1, []string{"+ create Image: pulled with 36 bytes\n" + created}},
		{"what may not be read is for the plugin to judge", "puller" + powerless, 2, []string{
			`plugin "puller": [ERR_CONFIGURATION_PROBLEM]`, `registryPullSecrets[0].name: the Secret "NS/pull" may not be read`,
		}},
		{"a plugin that cannot", "plain", 2, []string{`the plugin "plain" v2`, "lacks the capability diff"}},
		{"no plugin, and what may be why", "unserved", 2, []string{
			`no plugin serves the type "test.pergola.dev/none"`, "--plugin-dir", "plugin broken: ",
		}},
		{"what the plugin does not like", "wrong", 2, []string{
			`plugin "differ": [ERR_CONFIGURATION_PROBLEM]`, `spec.config.wrong: it is\x1b[31m`,
		}},
		{"the rights are the user's", "new" + powerless, 2, []string{
			`secrets "here" is forbidden`, `"powerless"`, "your own rights",
		}},
	}
	for _, tc := range cases {
		tc.command = "diff " + tc.command + plugins
		s.expect(tc)
	}

	out, code, err := s.run(strings.Split("diff changed -o json"+plugins, " ")...)
	name := s.namespace + "/changed"
	want := `{"deployItem":"` + name + `","changes":[{"object":"Document ` + name + `","action":"update","before":` + red +
		`,"after":` + document + `,"note":"on here, with Context default, label one"}]}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, out)); diff != "" || code != 1 {
		t.Errorf("as JSON, with code %d: (-want +got):\n%s%v", code, diff, err)
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return value
}
