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
)

// testPlugins are the programs of the test binary, by its file name.
func testPlugins() map[string]func() {
	return map[string]func(){
		"differ": func() { sdk.Serve(differ{}, sdk.Name("differ"), sdk.Types(differType), sdk.ContextCredentials()) },
		"plain":  func() { sdk.Serve(plain{}, sdk.Name("plain"), sdk.Version("v2"), sdk.Types(plainType)) },
		"broken": func() { os.Exit(3) },
	}
}

// plain is a deployer without the capability diff.
type plain struct{}

func (plain) Reconcile(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }
func (plain) Delete(context.Context, *sdk.Request) (*sdk.Response, error)    { return nil, nil }

// differ compares the provider status with the configuration. The note has the rest of the request.
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
	if req.Target != nil && strings.Contains(string(req.Target.Content), "kubeconfig") {
		target = req.Target.Name
	}
	for _, credentials := range req.Credentials.Registries {
		if credentials.Problem != "" {
			return nil, sdk.ConfigurationError("Unauthorized", "%s", credentials.Problem)
		}
		target += fmt.Sprintf(" and %d bytes", len(credentials.DockerConfig))
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

const document = `{"apiVersion":"test.pergola.dev/v1","kind":"Document","colour":"green"}`

// pluginDir is a directory with the test binary under the names of all its plugins.
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
	powerless := s.allow("powerless", "get", deployItems, "targets."+v1alpha1.GroupName, "contexts."+v1alpha1.GroupName)

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
	item("puller", func(i *v1alpha1.DeployItem) { i.Spec.Context, i.Spec.Target = "private", nil })
	item("wrong", func(i *v1alpha1.DeployItem) {
		i.Spec.Config.Raw = []byte(`{"apiVersion":"test.pergola.dev/v1","kind":"Document","wrong":"it is\u001b[31m"}`)
	})
	item("lost", on("nowhere"), func(i *v1alpha1.DeployItem) { i.Spec.Context = "none" })
	item("going", func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} })
	s.remove("going")
	const head = commandtest.ItemHead
	blue := strings.Replace(document, "green", "blue", 1)
	spec := "spec: {type: test.pergola.dev/differ, target: {name: here}, config: " + blue + "}\n"
	file := commandtest.WriteFile(t, "item.yaml", head+"metadata: {name: changed, labels: {b: two}}\n"+spec)
	unborn := commandtest.WriteFile(t, "unborn.yaml", head+"metadata: {name: unborn, namespace: "+s.namespace+"}\n"+spec+
		"status: {observedGeneration: 1, providerStatus: "+document+"}\n")
	const created, updated = "1 to create, 0 to update, 0 to delete.\n", "0 to create, 1 to update, 0 to delete.\n"
	plugins := " --plugin-dir " + pluginDir(t)
	powerless = " --kubeconfig " + powerless
	cases := []itemsCase{
		{"not deployed yet", "new", 1, []string{
			"+ create Document NS/new: on here, with Context default, label one\n", "+colour: green\n", created,
		}},
		{"changed since", "changed", 1, []string{
			"~ update Document NS/changed: on here, with Context default, label one\n",
			"-colour: red\n", "+colour: green\n", updated,
		}},
		{"nothing to do", "same", 0, []string{"Nothing to change.\n"}},
		{"a file, as if it were applied to the item", "-f " + file, 1, []string{
			"~ update Document NS/changed: on here, with Context default, label onetwo\n",
			"-colour: red\n", "+colour: blue\n", updated,
		}},
		{"a file of a missing item, without its status", "-f " + unborn, 1, []string{
			"+ create Document NS/unborn: on here, with Context default, label\n", "+colour: blue\n", created,
		}},
		{"another namespace than that of the file", "-n default -f " + unborn, 2, []string{`"NS"`, `-n says "default"`}},
		{"no such item", "nobody", 2, []string{`there is no DeployItem "nobody" in the namespace "NS"`}},
		{"an empty name would be a list", "", 2, []string{"is empty"}},
		{"an item and a file", "new -f " + file, 2, []string{`"new"`, "-f"}},
		{"two items", "new same", 2, []string{"2 arguments"}},
		{"no such file", "-f /no/where", 2, []string{"/no/where"}},
		{"a deletion", "going", 2, []string{`"NS/going"`, "is being deleted"}},
		{"no Target and no Context", "lost", 2, []string{`Target "NS/nowhere"`, `Context "NS/none"`}},
		{"credentials of the Context", "puller", 1, []string{
			"+ create Document NS/puller: on nowhere and 36 bytes, with Context private, label one\n",
		}},
		{"unreadable credentials are the plugin's affair", "puller" + powerless, 2, []string{
			`plugin "differ": [ERR_CONFIGURATION_PROBLEM]`, `registryPullSecrets[0].name: the Secret "NS/pull" may not be read`,
		}},
		{"a plugin without the capability", "plain", 2, []string{`the plugin "plain" v2`, "lacks the capability diff"}},
		{"no plugin, and the broken ones", "unserved", 2, []string{
			`no plugin serves the type "test.pergola.dev/none"`, "--plugin-dir", "plugin broken: ",
		}},
		{"an error of the plugin", "wrong", 2, []string{
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
}
