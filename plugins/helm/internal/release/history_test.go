package release_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	helmchart "helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// world is what one test plays in: Helm's own storage, and a client.
type world struct {
	*plugintest.World

	clientset *kubernetes.Clientset
	helm      *storage.Storage
	client    *target.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(plugintest.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{World: plugintest.New(t), clientset: clientset}
	w.helm = storage.Init(driver.NewSecrets(clientset.CoreV1().Secrets(w.Namespace)))
	w.client = w.Client(plugintest.Config())
	return w
}

// revision returns a revision as Helm stores it.
func (w *world) revision(version int, status helmrelease.Status, labels map[string]string) *helmrelease.Release {
	return &helmrelease.Release{
		Name: "shop", Namespace: w.Namespace, Version: version, Labels: labels,
		Info:  &helmrelease.Info{Status: status},
		Chart: &helmchart.Chart{Metadata: &helmchart.Metadata{Name: "shop", Version: "1.2.3", AppVersion: "4.5"}},
		Manifest: "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n" +
			"data:\n  text: |\n    ---\n    no separator\n",
		Config: map[string]any{"password": "hunter2"},
	}
}

func (w *world) store(version int, status helmrelease.Status, labels map[string]string) {
	w.Helper()
	if err := w.helm.Create(w.revision(version, status, labels)); err != nil {
		w.Fatal(err)
	}
}

// secret creates a Secret that Helm has not made.
func (w *world) secret(name string, labels map[string]string, content string) {
	w.Helper()
	_, err := w.clientset.CoreV1().Secrets(w.Namespace).Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string][]byte{"release": []byte(content)},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) name() helm.Release { return helm.Release{Namespace: w.Namespace, Name: "shop"} }

func (w *world) history() []release.Revision {
	w.Helper()
	history, err := release.History(w.Context(), w.client, w.name())
	if err != nil {
		w.Fatal(err)
	}
	return history
}

func TestHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	digest := release.Input([]byte("chart"), []byte("values"))
	before := time.Now().Add(-time.Minute)
	// In the order of their names, 10 comes before 9.
	w.store(9, helmrelease.StatusSuperseded, release.Labels("ns.item", 9, digest))
	w.store(10, helmrelease.StatusDeployed, release.Labels("ns.item", 9, digest)) // as Helm copies it
	w.store(11, helmrelease.StatusPendingUpgrade, nil)
	other := w.revision(3, helmrelease.StatusDeployed, nil)
	other.Name = "shop.v1"
	if err := w.helm.Create(other); err != nil {
		t.Fatal(err)
	}

	w.Requests.Take()
	history := w.history()
	if n := len(w.Requests.Take()); n != 1 {
		t.Errorf("expected one request, but found %d", n)
	}
	var got []string
	for _, r := range history {
		got = append(got, fmt.Sprint(r.Version, " ", r.Status, " ", r.Item, " ", r.Input))
		if r.ModifiedAt.Before(before) || r.ModifiedAt.After(time.Now().Add(time.Minute)) {
			t.Errorf("revision %d was modified at %s", r.Version, r.ModifiedAt)
		}
	}
	want := []string{
		"9 superseded ns.item " + digest,
		"10 deployed ns.item ",
		"11 pending-upgrade  ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A Secret that has the labels of a revision and the name of none is an error that names it: any client can create it.
func TestHistoryOfStrangeSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secret("sh.helm.release.v1.shop.v3", map[string]string{
		"owner": "helm", "name": "shop", "version": "many", release.ItemLabel: "", release.InputLabel: "3",
	}, "")
	history := w.history()
	if got := history[0]; len(history) != 1 || got.Version != 3 || got.Status != release.StatusUnknown ||
		got.Input != "" || got.Item != "" {
		t.Errorf("expected revision 3 of unknown status, but found %+v", history)
	}
	w.secret("junk", map[string]string{"owner": "helm", "name": "shop", "status": "deployed", "version": "1"}, "")
	_, err := release.History(t.Context(), w.client, w.name())
	var known *sdk.Error
	if !errors.As(err, &known) || known.Reason != release.ReasonUnreadable ||
		!strings.Contains(err.Error(), "junk; delete") {
		t.Errorf("expected an error that names the Secret, but found %v", err)
	}
	history, strange, err := release.Revisions(t.Context(), w.client, w.name())
	if len(history) != 1 || !slices.Equal(strange, []string{"junk"}) || err != nil {
		t.Errorf("expected one revision and one Secret that is none, but found %v, %v (%v)", history, strange, err)
	}
}

// Rule (helm.md#releases): A release may have any name allowed by Helm, such as `release` or `a.release.v3`.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"shop", "release", "helm.release", "a.release.v3", "sh.helm.release.v1", "v1", "v1.v2", "shop.v1", "0",
	} {
		if version := release.VersionOf("sh.helm.release.v1."+name+".v12", name); version != 12 {
			t.Errorf("release %s: expected revision 12, but found %d", name, version)
		}
	}
	const shop = "sh.helm.release.v1.shop"
	for _, secret := range []string{
		"junk", "", shop + ".v0", shop + ".v01", shop + ".v1x", shop + ".v-1", shop + ".v99999999999999999999",
		"sh.helm.release.v1.other.v1", shop, shop + ".v", shop + ".v1.shop.v1", "1", "x.shop.v1",
	} {
		if version := release.VersionOf(secret, "shop"); version != 0 {
			t.Errorf("%q: expected no revision, but found %d", secret, version)
		}
	}
}

// TestModifiedAt: who puts a label on a Secret does not work on the release.
func TestModifiedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(1, helmrelease.StatusPendingInstall, nil)
	created := w.history()[0].ModifiedAt
	secrets := w.clientset.CoreV1().Secrets(w.Namespace)
	secret, err := secrets.Get(t.Context(), "sh.helm.release.v1.shop.v1", metav1.GetOptions{})
	w.Eventually("a later second of the API server", func() bool {
		if err != nil {
			t.Fatal(err)
		}
		secret.Labels[fmt.Sprintf("backup-%d", len(secret.Labels))] = "done" // another field, or the time stays
		secret, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: "backup"})
		return err == nil && slices.ContainsFunc(secret.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == "backup" && f.Time.After(created)
		})
	})
	if got := w.history()[0].ModifiedAt; !got.Equal(created) {
		t.Errorf("a label: expected %s, but found %s", created, got)
	}
	if err := w.helm.Update(w.revision(1, helmrelease.StatusDeployed, nil)); err != nil {
		t.Fatal(err)
	}
	if got := w.history()[0].ModifiedAt; !got.After(created) {
		t.Errorf("an update: expected a time after %s, but found %s", created, got)
	}
}

func TestNotPermitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	access, user := w.ServiceAccount("nobody")
	w.client = w.Client(access)
	_, ofHistory := release.History(t.Context(), w.client, w.name())
	_, ofRead := release.Read(t.Context(), w.client, w.name(), 1)
	shop := "release " + w.Namespace + "/shop"
	for doing, err := range map[string]error{
		"list the revisions of " + shop: ofHistory, "read revision 1 of " + shop: ofRead,
	} {
		var known *sdk.Error
		if !errors.As(err, &known) || known.Reason != target.ReasonTarget || len(known.Codes) > 0 {
			t.Errorf("expected an error that can pass, but found %v", err)
			continue
		}
		for _, part := range []string{
			doing, `User "` + user + `" cannot`,
			"get, list, create, update and delete Secrets in namespace " + w.Namespace,
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("expected an error with %q, but found: %v", part, err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store(1, helmrelease.StatusFailed, nil)
	w.Requests.Take()
	got, err := release.Read(t.Context(), w.client, w.name(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.Requests.Take()); n != 1 {
		t.Errorf("expected one request, but found %d", n)
	}
	want := []helm.Object{{
		Source: "shop/templates/a.yaml",
		JSON: []byte(`{"apiVersion":"v1","data":{"text":"---\nno separator\n"},"kind":"ConfigMap",` +
			`"metadata":{"name":"a"}}`),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secret("sh.helm.release.v1.shop.v1", nil, "hunter2")
	_, err := release.Read(t.Context(), w.client, w.name(), 1)
	var known *sdk.Error
	if !errors.Is(err, release.ErrUnreadable) || !errors.As(err, &known) || known.Reason != release.ReasonUnreadable {
		t.Errorf("expected a release that cannot be read, but found %v", err)
	}
	if !strings.Contains(err.Error(), "Secret sh.helm.release.v1.shop.v1 in namespace "+w.Namespace) ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("expected the name of the Secret and nothing of its content, but found: %v", err)
	}
	_, err = release.Read(t.Context(), w.client, w.name(), 2)
	if err == nil || errors.Is(err, release.ErrUnreadable) {
		t.Errorf("expected that there is no such revision, but found %v", err)
	}
}
