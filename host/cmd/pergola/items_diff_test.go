package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		"reader": func() { sdk.Serve(reader{}, sdk.Name("reader"), sdk.Types(readerType)) },
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
		if !strings.Contains(string(req.Target.Content), "t0ps3cret") {
			target += " without credentials"
		}
	}
	change := sdk.Change{Object: "Document " + item.Namespace + "/" + item.Name, Action: sdk.ActionCreate, After: item.Spec.Config.Raw}
	change.Note = "on " + target + ", with Context " + req.Context.Name + ", label " + item.Labels["a"] + item.Labels["b"]
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

// workshop is a cluster with DeployItems and a directory with plugins, as the user of the command has them.
type workshop struct {
	t          *testing.T
	admin      client.Client
	plugins    string
	kubeconfig string
	powerless  string // kubeconfig of one who may read DeployItems and nothing else
}

const document = `{"apiVersion":"test.pergola.dev/v1","kind":"Document","colour":"green"}`

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	controlPlane, admin := testenv.ForTest(t)
	w := &workshop{t: t, admin: admin, plugins: t.TempDir(), kubeconfig: controlPlane.Kubeconfig}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name := range testPlugins() {
		if err := os.WriteFile(filepath.Join(w.plugins, name), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "workshop"}})
	w.create(&corev1.Secret{ObjectMeta: w.named("credentials"), StringData: map[string]string{"token": "t0ps3cret"}})
	w.create(&corev1.Secret{
		ObjectMeta: w.named("pull"), Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: `{"auths":{"a":{"auth":"t0ps3cret"}}}`},
	})
	w.create(&v1alpha1.Context{ObjectMeta: w.named("private"), ContextConfiguration: v1alpha1.ContextConfiguration{
		RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: "pull"}},
	}})
	w.create(&v1alpha1.Target{ObjectMeta: w.named("here"), Spec: v1alpha1.TargetSpec{Type: "test.pergola.dev/any", SecretRef: &v1alpha1.LocalSecretReference{Name: "credentials"}}})
	w.powerless = w.impersonating("powerless")
	w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"deployitems", "targets", "contexts"}},
	}})
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "powerless"}},
	})
	return w
}

func (w *workshop) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "workshop"}
}

func (w *workshop) create(object client.Object) {
	w.t.Helper()
	if err := w.admin.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T: %v", object, err)
	}
}

// impersonating returns a kubeconfig of another user.
func (w *workshop) impersonating(user string) string {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, info := range config.AuthInfos {
		info.Impersonate = user
	}
	config.Contexts["shopping"] = &clientcmdapi.Context{Namespace: "workshop"}
	for _, c := range config.Contexts {
		if c.Cluster != "" {
			config.Contexts["shopping"].Cluster, config.Contexts["shopping"].AuthInfo = c.Cluster, c.AuthInfo
		}
	}
	path := filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// item creates a DeployItem that has deployed something already, unless that is empty.
func (w *workshop) item(name string, deployed string, modify ...func(*v1alpha1.DeployItem)) {
	w.t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: w.named(name), Spec: v1alpha1.DeployItemSpec{
		Type: differType, Target: &v1alpha1.ObjectReference{Name: "here"}, Config: &runtime.RawExtension{Raw: []byte(document)},
	}}
	item.Labels = map[string]string{"a": "one"}
	for _, m := range modify {
		m(item)
	}
	w.create(item)
	if deployed == "" {
		return
	}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(deployed)}
	if err := w.admin.Status().Update(w.t.Context(), item); err != nil {
		w.t.Fatal(err)
	}
}

// diff runs the command and returns what it prints, and its exit code with its error.
func (w *workshop) diff(args ...string) (out string, code int, err error) {
	w.t.Helper()
	args = append([]string{"items", "diff", "--kubeconfig", w.kubeconfig, "--plugin-dir", w.plugins}, args...)
	out, err = pergola(w.t, args...)
	return out, codeOf(err), err
}

func TestItemsDiff(t *testing.T) {
	w := newWorkshop(t)
	red := strings.Replace(document, "green", "red", 1)
	w.item("new", "")
	w.item("changed", red)
	w.item("same", document)
	w.item("plain", "", func(i *v1alpha1.DeployItem) { i.Spec.Type = plainType })
	w.item("unserved", "", func(i *v1alpha1.DeployItem) { i.Spec.Type = "test.pergola.dev/none" })
	w.item("puller", "", func(i *v1alpha1.DeployItem) {
		i.Spec.Type, i.Spec.Context, i.Spec.Target = pullerType, "private", nil
	})
	w.item("wrong", "", func(i *v1alpha1.DeployItem) {
		i.Spec.Config.Raw = []byte(`{"apiVersion":"test.pergola.dev/v1","kind":"Document","wrong":"it is\u001b[31m"}`)
	})
	w.item("lost", "", func(i *v1alpha1.DeployItem) { i.Spec.Target.Name, i.Spec.Context = "nowhere", "none" })
	w.item("going", "", func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} })
	if err := w.admin.Delete(t.Context(), &v1alpha1.DeployItem{ObjectMeta: w.named("going")}); err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\n"
	spec := "spec: {type: test.pergola.dev/differ, target: {name: here}, config: " + strings.Replace(document, "green", "blue", 1) + "}\n"
	file := writeFile(t, "item.yaml", head+"metadata: {name: changed, labels: {b: two}}\n"+spec)
	unborn := writeFile(t, "unborn.yaml", head+"metadata: {name: unborn, namespace: workshop}\n"+spec+"status: {observedGeneration: 1, providerStatus: "+document+"}\n")
	changed := "~ update Document workshop/changed: on here, with Context default, label one\n    @@ -1,3 +1,3 @@\n     apiVersion: test.pergola.dev/v1\n    -colour: red\n    +colour: green\n     kind: Document\n0 to create, 1 to update, 0 to delete.\n"
	applied := strings.Replace(strings.Replace(changed, "+colour: green", "+colour: blue", 1), "label one", "label onetwo", 1)

	for _, tc := range []struct {
		reason string
		args   []string
		code   int
		out    string   // all that is printed
		err    []string // parts of the error; none for none
	}{
		{
			reason: "what was never deployed is new", args: []string{"new", "-n", "workshop"}, code: 1,
			out: "+ create Document workshop/new: on here, with Context default, label one\n    @@ -0,0 +1,3 @@\n    +apiVersion: test.pergola.dev/v1\n    +colour: green\n    +kind: Document\n1 to create, 0 to update, 0 to delete.\n",
		},
		{reason: "what has changed since", args: []string{"changed", "-n", "workshop"}, code: 1, out: changed},
		{reason: "the namespace of the kubeconfig's context", args: []string{"changed", "--kubeconfig", w.impersonating(""), "--context", "shopping"}, code: 1, out: changed},
		{reason: "nothing to do", args: []string{"same", "-n", "workshop"}, out: "Nothing to change.\n"},
		{reason: "a file, as if it were applied to the item", args: []string{"-f", file, "-n", "workshop"}, code: 1, out: applied},
		{
			reason: "a file of an item that is not there, whose status is not its own to tell", args: []string{"-f", unborn}, code: 1,
			out: "+ create Document workshop/unborn: on here, with Context default, label\n    @@ -0,0 +1,3 @@\n    +apiVersion: test.pergola.dev/v1\n    +colour: blue\n    +kind: Document\n1 to create, 0 to update, 0 to delete.\n",
		},
		{reason: "another namespace than that of the file", args: []string{"-f", unborn, "-n", "default"}, code: 2, err: []string{`"workshop"`, `-n says "default"`}},
		{reason: "no such item", args: []string{"nobody", "-n", "workshop"}, code: 2, err: []string{`there is no DeployItem "nobody" in the namespace "workshop"`, "-n"}},
		{reason: "no name at all", args: []string{"-n", "workshop"}, code: 2, err: []string{"-f", "0 arguments"}},
		{reason: "an empty name would be a list", args: []string{"", "-n", "workshop"}, code: 2, err: []string{"is empty"}},
		{reason: "two things to compare", args: []string{"new", "-f", file}, code: 2, err: []string{`"new"`, "-f"}},
		{reason: "no such flag", args: []string{"new", "--colour"}, code: 2, err: []string{"--colour"}},
		{reason: "no such file", args: []string{"-f", "/no/where"}, code: 2, err: []string{"/no/where"}},
		{reason: "no such context", args: []string{"new", "--context", "nowhere"}, code: 2, err: []string{"nowhere"}},
		{reason: "an item that goes", args: []string{"going", "-n", "workshop"}, code: 2, err: []string{`"workshop/going"`, "is being deleted"}},
		{reason: "all that is missing", args: []string{"lost", "-n", "workshop"}, code: 2, err: []string{`Target "workshop/nowhere"`, `Context "workshop/none"`}},
		{
			reason: "credentials of the Context", args: []string{"puller", "-n", "workshop"}, code: 1,
			out: "+ create Image: pulled with 36 bytes\n1 to create, 0 to update, 0 to delete.\n",
		},
		{
			reason: "what may not be read is for the plugin to judge", args: []string{"puller", "-n", "workshop", "--kubeconfig", w.powerless}, code: 2,
			err: []string{`plugin "puller": [ERR_CONFIGURATION_PROBLEM]`, `registryPullSecrets[0].name: the Secret "workshop/pull" may not be read`},
		},
		{reason: "a plugin that cannot", args: []string{"plain", "-n", "workshop"}, code: 2, err: []string{`the plugin "plain" v2`, "lacks the capability diff"}},
		{reason: "no plugin, and what may be why", args: []string{"unserved", "-n", "workshop"}, code: 2, err: []string{`no plugin serves the type "test.pergola.dev/none"`, "--plugin-dir", "plugin broken: "}},
		{reason: "what the plugin does not like", args: []string{"wrong", "-n", "workshop"}, code: 2, err: []string{`plugin "differ": [ERR_CONFIGURATION_PROBLEM]`, `spec.config.wrong: it is\x1b[31m`}},
		{
			reason: "the rights are the user's", args: []string{"new", "-n", "workshop", "--kubeconfig", w.powerless}, code: 2,
			err: []string{`secrets "credentials" is forbidden`, `"powerless"`, "your own rights"},
		},
	} {
		out, code, err := w.diff(tc.args...)
		if code != tc.code {
			t.Errorf("%s: expected the exit code %d, but found %d: %v", tc.reason, tc.code, code, err)
		}
		if diff := cmp.Diff(tc.out, out); diff != "" {
			t.Errorf("%s (-want +got):\n%s%v", tc.reason, diff, err)
		}
		for _, text := range tc.err {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected %q, but found: %v", tc.reason, text, err)
			}
		}
		if strings.Contains(out, "t0ps3cret") || err != nil && strings.Contains(err.Error(), "t0ps3cret") {
			t.Errorf("%s: the credentials are shown: %s (%v)", tc.reason, out, err)
		}
	}

	out, code, err := w.diff("changed", "-n", "workshop", "-o", "json")
	want := `{"deployItem":"workshop/changed","changes":[{"object":"Document workshop/changed","action":"update","before":` + red + `,"after":` + document +
		`,"note":"on here, with Context default, label one"}]}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, out)); diff != "" || code != 1 {
		t.Errorf("as JSON, with code %d: (-want +got):\n%s%v", code, diff, err)
	}
}

func TestItemOfFile(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\nmetadata: {name: a}\nspec: {type: t}\n"
	for path, stdin := range map[string]string{"-": text, writeFile(t, "item.yaml", text): ""} {
		if item, err := readItem(path, strings.NewReader(stdin)); err != nil || item.Name != "a" {
			t.Errorf("%s: expected the item, but found %v (%v)", path, item, err)
		}
	}
	if _, err := readItem("-", strings.NewReader("{")); err == nil || !strings.Contains(err.Error(), "read standard input") {
		t.Errorf("expected to hear where it comes from, but found: %v", err)
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
