package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const itemHead = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\n"

func readComplete(path string) (*v1alpha1.DeployItem, error) {
	call, err := (&callFlags{}).read(context.Background(), path)
	if err != nil {
		return nil, err
	}
	return call.item, nil
}

func TestReadItem(t *testing.T) {
	t.Parallel()
	item, err := readComplete(writeFile(t, "item.yaml", itemHead+"metadata: {name: a}\nspec: {type: t}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if item.Namespace != "default" || item.UID == "" || item.Generation != 1 {
		t.Errorf("expected what an item has in a cluster, but found %+v", item.ObjectMeta)
	}
	item, err = readComplete(writeFile(t, "item.yaml", "# a comment\n---\n"+itemHead+"metadata: {name: a}\nspec: {type: t}\n---\n"))
	if err != nil || item.Name != "a" {
		t.Errorf("expected empty documents to be passed over, but found %+v (%v)", item, err)
	}
	item, err = readComplete(writeFile(t, "item.yaml", itemHead+"metadata: {name: a, namespace: b, uid: c, generation: 4}\nspec: {type: t}\n"))
	if err != nil || item.Namespace != "b" || item.UID != "c" || item.Generation != 4 {
		t.Errorf("expected what the item says, but found %+v (%v)", item.ObjectMeta, err)
	}
	for text, want := range map[string]string{
		"":                                       `expected a DeployItem`,
		"kind: List\napiVersion: v1\n":           `found a "List" of "v1"`,
		itemHead + "spec: {type: t}\n":           "metadata.name is missing",
		itemHead + "metadata: {name: a}\n":       "spec.type is missing",
		itemHead + "metadata: {name: a}\nx: y\n": `unknown field "x"`,
		"{":                                      "read ",
		itemHead + "metadata: {name: a}\nspec: {type: t}\n---\n" + itemHead: "expected one object, but found several",
	} {
		path := writeFile(t, "item.yaml", text)
		if _, err := readItem(path, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: expected an error with %q and the file, but found: %v", text, want, err)
		}
	}
	if _, err := readItem("/no/where", nil); !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "/no/where")) {
		t.Errorf("expected the file to be named, but found: %v", err)
	}
}

func TestReadContext(t *testing.T) {
	t.Parallel()
	got, err := (&callFlags{}).readContext("ns")
	if err != nil || got.Name != v1alpha1.DefaultContextName || got.Namespace != "ns" {
		t.Errorf("expected an empty Context, but found %+v (%v)", got, err)
	}
	file := writeFile(t, "context.yaml", "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Context\nmetadata: {name: mine}\n")
	if got, err = (&callFlags{context: file}).readContext("ns"); err != nil || got.Name != "mine" {
		t.Errorf("expected the one of the file, but found %+v (%v)", got, err)
	}
}

// kubeconfig writes a kubeconfig with such a user.
func kubeconfig(t *testing.T, user string) string {
	t.Helper()
	return writeFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c,
		contexts: [{name: c, context: {cluster: c, user: u}}, {name: other, context: {cluster: other, user: other}}],
		clusters: [{name: c, cluster: {server: "https://one", certificate-authority: ca}}, {name: other, cluster: {server: "https://other"}}],
		users: [{name: u, user: {`+user+`}}, {name: other, user: {token: other-secret}}]}`)
}

func TestTarget(t *testing.T) {
	t.Parallel()
	item := &v1alpha1.DeployItem{}
	if target, err := (&callFlags{}).targetOf(item); target != nil || err != nil {
		t.Errorf("an item without a target: %v, %v", target, err)
	}
	item.Spec.Target = &v1alpha1.ObjectReference{Name: "my-cluster"}
	if _, err := (&callFlags{}).targetOf(item); err == nil || !strings.Contains(err.Error(), "my-cluster") || !strings.Contains(err.Error(), "--target") {
		t.Errorf("expected what is missing, but found: %v", err)
	}

	path := kubeconfig(t, "tokenFile: token")
	for name, content := range map[string]string{"ca": "authority", "token": "secret"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target, err := (&callFlags{target: path}).targetOf(item)
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
	if config.Host != "https://one" || config.BearerToken != "secret" || string(config.CAData) != "authority" || config.CAFile != "" || config.BearerTokenFile != "" {
		t.Errorf("expected everything of the current context inside, but found %s", content["kubeconfig"])
	}
	if strings.Contains(content["kubeconfig"], "other-secret") {
		t.Error("the plugin gets the credentials of another context")
	}
}

func TestOtherTargets(t *testing.T) {
	t.Parallel()
	path := kubeconfig(t, "token: secret")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ca"), []byte("authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	targets, err := (&callFlags{others: []string{"a=" + path, "b=" + path}}).otherTargets("ns")
	if err != nil || len(targets) != 2 {
		t.Fatalf("expected two Targets, but found %v (%v)", targets, err)
	}
	for name, target := range targets {
		if target.Target.Name != name || target.Target.Namespace != "ns" || !strings.Contains(target.Content, "secret") {
			t.Errorf("%s: found %+v", name, target)
		}
	}
	for want, others := range map[string][]string{
		`expected NAME=FILE, but found "a"`:      {"a"},
		`expected NAME=FILE, but found "=file"`:  {"=file"},
		`expected NAME=FILE, but found "a="`:     {"a="},
		`the Target "a" is there twice`:          {"a=" + path, "a=" + path},
		"--other-target b: open /no/where":       {"b=/no/where"},
		"fetches its credentials, which no Targ": {"c=" + kubeconfig(t, "exec: {apiVersion: client.authentication.k8s.io/v1, command: rm, interactiveMode: Never}")},
	} {
		if strings.HasPrefix(want, "fetches") {
			dir := filepath.Dir(strings.TrimPrefix(others[0], "c="))
			if err := os.WriteFile(filepath.Join(dir, "ca"), []byte("authority"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := (&callFlags{others: others}).otherTargets("ns"); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("expected an error with %q, but found %v: %v", want, got, err)
		}
	}
}

func TestBadKubeconfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, path, want string }{
		{"a plugin runs no commands of others", kubeconfig(t, "exec: {apiVersion: client.authentication.k8s.io/v1, command: rm, interactiveMode: Never}"), "fetches its credentials"},
		{"nor these", kubeconfig(t, "auth-provider: {name: oidc}"), "fetches its credentials"},
		{"a file that is missing", kubeconfig(t, "tokenFile: nowhere"), "no such file"},
		{"no file", "/no/where", "/no/where"},
		{"no kubeconfig", writeFile(t, "kubeconfig", "{"), "--target"},
		{"nothing in it", writeFile(t, "kubeconfig", "{}"), "--target"},
	} {
		dir := filepath.Dir(tc.path)
		if _, err := os.Stat(tc.path); err == nil {
			if err := os.WriteFile(filepath.Join(dir, "ca"), []byte(base64.StdEncoding.EncodeToString([]byte("ca"))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		target, err := (&callFlags{target: tc.path}).targetOf(&v1alpha1.DeployItem{})
		if target != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected an error with %q, but found: %v", tc.reason, tc.want, err)
		}
	}
}
