package main

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// The rights to create and patch the Secrets of an Upload, by their names, are enough to write them for the first time
// and once more: the API server asks for the right to create the object that a server-side apply names.
func TestRightsThatSuffice(t *testing.T) {
	t.Parallel()
	cluster, world := plugintest.Config(), plugintest.New(t)
	ns := world.Namespace
	admin, err := kubernetes.NewForConfig(cluster)
	must(t, err)
	upload := someUpload(ns)
	names := append(slices.Clone(upload.State), upload.Result)
	access, _ := world.ServiceAccount("run", may("create", names...), may("patch", names...))
	token := access.BearerToken

	p := newPlace(t)
	server, err := url.Parse(cluster.Host)
	must(t, err)
	host, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		host, port, err = net.SplitHostPort(cluster.Host) // it may come without a scheme
	}
	must(t, err)
	p.grant(host, port, string(cluster.CAData), token, upload)
	for _, turn := range []struct {
		reason, state, exports string
		chunks                 int
	}{
		{"nothing exists yet", noise(3 * layout.ChunkBytes), "key: value\n", 4},
		{"all exists already", noise(layout.ChunkBytes / 2), "key: other\n", 1},
	} {
		t.Log(turn.reason)
		p.write(layout.State+"/file", turn.state)
		p.write(layout.Exports, turn.exports)
		w := p.wait()
		w.signal(syscall.SIGTERM)
		w.mustEnd()
		result, err := admin.CoreV1().Secrets(ns).Get(t.Context(), upload.Result, metav1.GetOptions{})
		must(t, err)
		if got := string(result.Data[layout.ChunkKey]); got != turn.exports ||
			!cmp.Equal(result.Labels, upload.ResultLabels) {
			t.Errorf("found the exports %q and the labels %v", got, result.Labels)
		}
		for i := range turn.chunks {
			chunk, err := admin.CoreV1().Secrets(ns).Get(t.Context(), upload.State[i], metav1.GetOptions{})
			must(t, err)
			want := map[string]string{"uuid": "u", layout.NumberAnnotation: strconv.Itoa(i)}
			if len(chunk.Data[layout.ChunkKey]) == 0 || !cmp.Equal(chunk.Annotations, want) ||
				chunk.Type != corev1.SecretTypeOpaque {
				t.Errorf("found %d bytes in a chunk of type %s with %v", len(chunk.Data[layout.ChunkKey]), chunk.Type,
					chunk.Annotations)
			}
			if managers := chunk.ManagedFields; len(managers) != 1 || managers[0].Manager != layout.FieldManager ||
				managers[0].Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("found the managers %v", managers)
			}
		}
	}
}

// may is a rule for Secrets; no names are all.
func may(verb string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{verb}, ResourceNames: names,
	}
}
