package itemclient

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestWrites also shows that the fake API server of other packages' tests is right about writes.
// Rule (architecture.md#what-always-holds): 10. Each write of the host is conditional on the version of its decision,
// and changes nothing else.
func TestWrites(t *testing.T) {
	t.Run("real API server", func(t *testing.T) {
		_, admin := testenv.ForTest(t)
		testWrites(t, admin)
	})
	t.Run("fake one", func(t *testing.T) {
		admin, err := testenv.FakeClient()
		if err != nil {
			t.Fatal(err)
		}
		testWrites(t, admin)
	})
}

func newItem(namespace string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "item"},
		Spec:       v1alpha1.DeployItemSpec{Type: "test.pergola.dev/one"},
	}
}

func testWrites(t *testing.T, admin client.Client) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	namespace := "itemclient-" + uuid.NewString()[:8]
	must(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	created := newItem(namespace)
	must(admin.Create(t.Context(), created))
	c := New(client.WithFieldOwner(admin, "pergola"), admin)
	item := created.DeepCopy()
	save := func(item *v1alpha1.DeployItem, document string) error {
		return c.UpdateStatus(t.Context(), item, func(i *v1alpha1.DeployItem) {
			i.Status.ObservedGeneration = i.Generation
			i.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(document)}
		})
	}

	must(save(item, `{"apiVersion":"v1","kind":"S","n":9007199254740993,"gone":true}`))
	must(save(item, `{"apiVersion":"v1","kind":"S","n":9007199254740993}`))
	fresh, err := c.Read(t.Context(), client.ObjectKeyFromObject(item))
	must(err)
	var got, want any
	must(json.Unmarshal(fresh.Status.ProviderStatus.Raw, &got))
	must(json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"S","n":9007199254740993}`), &want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("provider status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fresh, item); diff != "" {
		t.Errorf("after a write the item is as the API server has it (-there +here):\n%s", diff)
	}

	version := item.ResourceVersion
	for _, same := range []string{
		string(item.Status.ProviderStatus.Raw), `{"n": 9007199254740993, "kind": "S", "apiVersion": "v1"}`,
	} {
		if err := save(item, same); err != nil || item.ResourceVersion != version {
			t.Errorf("what is there already must not be written: version %s instead of %s, error %v",
				item.ResourceVersion, version, err)
		}
	}

	touch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"true"}}}`))
	must(admin.Patch(t.Context(), item.DeepCopy(), touch))
	before := item.DeepCopy()
	if err := save(item, `{"apiVersion":"v1","kind":"S"}`); !errors.Is(err, ErrOutdated) {
		t.Errorf("expected ErrOutdated after another client's write, but found %v", err)
	}
	if err := c.AddFinalizer(t.Context(), item); !errors.Is(err, ErrOutdated) {
		t.Errorf("expected ErrOutdated after another client's write, but found %v", err)
	}
	if diff := cmp.Diff(before, item); diff != "" {
		t.Errorf("a write that failed must leave the item as it was (-want +got):\n%s", diff)
	}

	must(admin.Delete(t.Context(), item.DeepCopy()))
	if err := save(item, `{"apiVersion":"v1","kind":"S"}`); !errors.Is(err, ErrOutdated) {
		t.Errorf("expected ErrOutdated for an item that is gone, but found %v", err)
	}
	must(admin.Create(t.Context(), newItem(namespace)))
	if err := c.AddFinalizer(t.Context(), item); !errors.Is(err, ErrOutdated) {
		t.Errorf("an item of the same name was written in place of the one that is gone: %v", err)
	}
}
