package pod

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// TestRights: who takes over the wait container can write what it would have written, and read nothing.
// Rule (container.md#credentials-in-the-pod): `wait` can write its results and read nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	i := shop()
	upload := i.Upload(2*mebibyte, mebibyte)
	name := i.RunName()
	role, binding, account := i.Role(upload), i.RoleBinding(), i.ServiceAccount()
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch"},
		ResourceNames: []string{name + "-result", name + "-state-0", name + "-state-1"},
	}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rules: -want +got:\n%s", diff)
	}
	want := &rbacv1.RoleBinding{
		TypeMeta: binding.TypeMeta, ObjectMeta: binding.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	}
	if diff := cmp.Diff(want, binding); diff != "" {
		t.Errorf("binding: -want +got:\n%s", diff)
	}
	if role.Name != name || role.Namespace != namespace || binding.Namespace != namespace || account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Errorf("expected all in namespace %s with the name of the run, and no token in other containers, but found %+v, %+v and %+v", namespace, role, binding, account)
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		bytes int64
		want  int
	}{
		"a part of a chunk needs a Secret": {bytes: 1, want: 1}, "a full one needs no second": {bytes: layout.ChunkBytes, want: 1},
		"one byte more needs one": {bytes: layout.ChunkBytes + 1, want: 2}, "operators may have all that settings allow": {bytes: 100 * mebibyte, want: 100},
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

// TestSecrets: each Secret has what it is for under the key that its reader expects, and is found by its part.
func TestSecrets(t *testing.T) {
	t.Parallel()
	i := shop()
	upload := i.Upload(1, 1)
	document, err := json.Marshal(upload)
	if err != nil {
		t.Fatal(err)
	}
	access, err := i.Access(upload, "token")
	if err != nil {
		t.Fatal(err)
	}
	type content struct {
		Name, Part string
		Type       corev1.SecretType
		Data       map[string]string
	}
	var found []content
	secrets := append(i.Inputs([][]byte{[]byte("a"), []byte("b")}), i.OldState([][]byte{[]byte("c")})...)
	for _, o := range append(secrets, access, i.Result(), i.Pull([]byte("{}"))) {
		s := o.(*corev1.Secret)
		c := content{Name: s.Name, Part: s.Labels[PartLabel], Type: s.Type, Data: map[string]string{}}
		for key, value := range s.Data {
			c.Data[key] = string(value)
		}
		found = append(found, c)
	}
	name := i.RunName()
	want := []content{
		{Name: name + "-input-0", Part: PartInput, Type: "Opaque", Data: map[string]string{"chunk": "a"}},
		{Name: name + "-input-1", Part: PartInput, Type: "Opaque", Data: map[string]string{"chunk": "b"}},
		{Name: name + "-old-state-0", Part: PartInput, Type: "Opaque", Data: map[string]string{layout.ChunkKey: "c"}},
		{Name: name + "-access", Part: PartAccess, Type: "Opaque", Data: map[string]string{layout.TokenFile: "token", layout.UploadFile: string(document)}},
		{Name: name + "-result", Part: PartResult, Type: "Opaque", Data: map[string]string{}},
		{Name: name + "-pull", Part: PartPull, Type: "kubernetes.io/dockerconfigjson", Data: map[string]string{".dockerconfigjson": "{}"}},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
