package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// The rights to create and patch the Secrets of an Upload, by their names, are enough to write them for the first time
// and once more: the API server asks for the right to create the object that a server-side apply names. They allow
// nothing else.
func TestRightsThatSuffice(t *testing.T) {
	t.Parallel()
	cluster, world := plugintest.Config(), plugintest.New(t)
	ns := world.Namespace
	admin, err := kubernetes.NewForConfig(cluster)
	must(t, err)
	_, err = admin.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}}, metav1.CreateOptions{})
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
		if got := string(result.Data[layout.ChunkKey]); got != turn.exports || !cmp.Equal(result.Labels, upload.ResultLabels) {
			t.Errorf("found the exports %q and the labels %v", got, result.Labels)
		}
		for i := range turn.chunks {
			chunk, err := admin.CoreV1().Secrets(ns).Get(t.Context(), upload.State[i], metav1.GetOptions{})
			must(t, err)
			want := map[string]string{"uuid": "u", layout.NumberAnnotation: strconv.Itoa(i)}
			if len(chunk.Data[layout.ChunkKey]) == 0 || !cmp.Equal(chunk.Annotations, want) || chunk.Type != corev1.SecretTypeOpaque {
				t.Errorf("found %d bytes in a chunk of type %s with %v", len(chunk.Data[layout.ChunkKey]), chunk.Type, chunk.Annotations)
			}
			if managers := chunk.ManagedFields; len(managers) != 1 || managers[0].Manager != layout.FieldManager || managers[0].Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("found the managers %v", managers)
			}
		}
	}

	own, err := kubernetes.NewForConfig(access)
	must(t, err)
	mayNot(t, own.CoreV1().Secrets(ns), upload.Result)
	mayNot(t, own.CoreV1().Secrets("default"), upload.Result)
	if err := applySecret(t.Context(), own.CoreV1().Secrets("default"), upload.Result); !apierrors.IsForbidden(err) {
		t.Errorf("the known name in another namespace: expected that it is forbidden, but found %v", err)
	}

	t.Log("a name that nobody has granted is told to the user")
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cluster))
	must(t, err)
	impatient, _ := restless(t, "https://"+net.JoinHostPort(host, port), token, &http.Client{Transport: transport})
	err = impatient.apply(ns, newSecret("another", nil, nil, nil))
	if err == nil {
		t.Fatal("expected that another name is forbidden, but it was written")
	}
	for _, part := range []string{"Secret " + ns + "/another", "403 (Forbidden)", `secrets "another" is forbidden`, "may create and patch it"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("expected %q in %q", part, err)
		}
	}
}

// may is a rule for Secrets; no names are all.
func may(verb string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{verb}, ResourceNames: names}
}

func applySecret(ctx context.Context, secrets corev1client.SecretInterface, name string) error {
	document := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},"data":{"a":"YQ=="}}`
	_, err := secrets.Patch(ctx, name, types.ApplyPatchType, []byte(document), metav1.PatchOptions{FieldManager: layout.FieldManager})
	return err
}

// mayNot expects that all is forbidden but to apply the known Secret. What is refused for another reason would prove
// nothing.
func mayNot(t *testing.T, secrets corev1client.SecretInterface, known string) {
	t.Helper()
	for what, try := range map[string]func(ctx context.Context) error{
		"get": func(ctx context.Context) error { _, err := secrets.Get(ctx, known, metav1.GetOptions{}); return err },
		"list of the known name": func(ctx context.Context) error {
			_, err := secrets.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + known})
			return err
		},
		"watch of the known name": func(ctx context.Context) error {
			_, err := secrets.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + known})
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := secrets.Update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: known}}, metav1.UpdateOptions{})
			return err
		},
		"delete": func(ctx context.Context) error { return secrets.Delete(ctx, known, metav1.DeleteOptions{}) },
		"deletion of all": func(ctx context.Context) error {
			return secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"creation": func(ctx context.Context) error {
			_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "any-"}}, metav1.CreateOptions{})
			return err
		},
		"apply of a new name": func(ctx context.Context) error { return applySecret(ctx, secrets, "another") },
		"apply of another":    func(ctx context.Context) error { return applySecret(ctx, secrets, "of-others") },
	} {
		if err := try(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("%s: expected that it is forbidden, but found %v", what, err)
		}
	}
}
