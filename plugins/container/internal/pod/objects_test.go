package pod

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// TestRights: an attacker in the wait container can write its results, and read nothing.
// Rule (container.md#credentials-in-the-pod): `wait` can write its results and read nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	i := shop()
	role, name := i.Role(i.Upload(2*mebibyte, mebibyte)), i.RunName()
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch"},
		ResourceNames: []string{name + "-result", name + "-state-0", name + "-state-1"},
	}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rules: -want +got:\n%s", diff)
	}
	plugintest.Golden(t, "rights.yaml", i.ServiceAccount(), role, i.RoleBinding())
}

// TestSecrets: the golden file has each Secret, with its content under the key of its reader.
func TestSecrets(t *testing.T) {
	t.Parallel()
	i := shop()
	access, err := i.Access(i.Upload(1, 17), "token")
	if err != nil {
		t.Fatal(err)
	}
	secrets := append(i.Inputs([][]byte{[]byte("a"), []byte("b")}), i.OldState([][]byte{[]byte("c")})...)
	var documents []any
	for _, o := range append(secrets, access, i.Result(), i.Pull([]byte("{}"))) {
		s := o.(*corev1.Secret)
		s.StringData = map[string]string{} // it can be read
		for key, value := range s.Data {
			var text bytes.Buffer
			if json.Indent(&text, value, "", "  ") != nil {
				text.Write(value)
			}
			s.StringData[key] = text.String()
		}
		s.Data = nil
		documents = append(documents, s)
	}
	plugintest.Golden(t, "secrets.yaml", documents...)
}

func TestUpload(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		bytes int64
		want  int
	}{
		"a part of a chunk needs a Secret": {bytes: 1, want: 1}, "a full one needs no second": {
			bytes: layout.ChunkBytes, want: 1,
		},
		"one byte more needs one": {
			bytes: layout.ChunkBytes + 1, want: 2,
		}, "operators may have all that settings allow": {bytes: 100 * mebibyte, want: 100},
	} {
		upload := shop().Upload(c.bytes, 17)
		names := StateNames(&v1alpha1.State{ID: shop().RunName(), Chunks: c.want})
		if diff := cmp.Diff(names, upload.State); diff != "" {
			t.Errorf("%s: -names of the state +names that are uploaded:\n%s", reason, diff)
		}
		if upload.MaxExportBytes != 17 {
			t.Errorf("expected 17 bytes for exports, but found %d", upload.MaxExportBytes)
		}
	}
	upload := shop().Upload(1, 1)
	want := shop().Annotations()
	want["container.deployer.landscaper.gardener.cloud/uuid"] = shop().RunName()
	if diff := cmp.Diff(want, upload.StateAnnotations); diff != "" {
		t.Errorf("Landscaper tells states apart by an annotation: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(shop().Labels(PartState), upload.StateLabels); diff != "" {
		t.Errorf("labels of the state: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(shop().Result().Labels, upload.ResultLabels); diff != "" {
		t.Errorf("the result keeps its labels when it is uploaded: -want +got:\n%s", diff)
	}
}
