package main

import (
	"encoding/base64"
	"net"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// The rights to create and patch the Secrets of an Upload, by their names, are enough to write them for the first time
// and once more: the API server asks for the right to create the object that a server-side apply names.
func TestRightsThatSuffice(t *testing.T) {
	t.Parallel()
	w := plugintest.New(t)
	upload := someUpload(w.Namespace)
	access, _ := w.ServiceAccount("run", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch"},
		ResourceNames: append(slices.Clone(upload.State), upload.Result),
	})
	p := newPlace(t)
	host, port, err := net.SplitHostPort(strings.Trim(strings.TrimPrefix(access.Host, "https:"), "/"))
	must(t, err)
	p.grant(host, port, string(access.CAData), access.BearerToken, upload)
	for _, exports := range []string{"key: value\n", "key: other\n"} {
		p.write(layout.State+"/file", noise(3*layout.ChunkBytes))
		p.write(layout.Exports, exports)
		p.wait().mustUpload()
		for _, name := range append(slices.Clone(upload.State), upload.Result) {
			o := w.MustGet(plugintest.Secrets, name)
			data, _, err := unstructured.NestedString(o.Object, "data", layout.ChunkKey)
			if err != nil || data == "" {
				t.Errorf("found no data in %s: %v", name, o.Object)
			}
			if name == upload.Result && data != base64.StdEncoding.EncodeToString([]byte(exports)) {
				t.Errorf("found the exports %s", data)
			}
		}
	}
}
