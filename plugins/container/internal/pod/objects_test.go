package pod

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// TestRights: the golden file has all that the wait container may do: it can create and patch the Secrets of its
// results, and nothing else.
// Rule (container.md#credentials-in-the-pod): `wait` can write its results and read nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	i := shop()
	plugintest.Golden(t, "rights.yaml", i.ServiceAccount(), i.Role(i.Upload(2*mebibyte, mebibyte)), i.RoleBinding())
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

// TestUpload: each begun chunk needs a Secret. Landscaper tells states apart by an annotation.
func TestUpload(t *testing.T) {
	t.Parallel()
	i := shop()
	for size, want := range map[int64]int{1: 1, layout.ChunkBytes: 1, layout.ChunkBytes + 1: 2, 100 * mebibyte: 100} {
		annotations := i.Annotations()
		annotations["container.deployer.landscaper.gardener.cloud/uuid"] = i.RunName()
		upload := layout.Upload{
			Namespace: namespace, Result: i.Result().GetName(), ResultLabels: i.Result().Labels, MaxExportBytes: 17,
			State:       StateNames(&v1alpha1.State{ID: i.RunName(), Chunks: want}),
			StateLabels: i.Labels(PartState), StateAnnotations: annotations, ResultAnnotations: i.Annotations(),
		}
		if diff := cmp.Diff(&upload, i.Upload(size, 17)); diff != "" {
			t.Errorf("%d bytes: -want +got:\n%s", size, diff)
		}
	}
}
