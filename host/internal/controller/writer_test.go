package controller

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func raw(document string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(document)} }

// TestWriter also shows that the fake API server of the other tests is right about writes.
func TestWriter(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *api{"real API server": newServerAPI, "fake one": newFakeAPI} {
		t.Run(name, func(t *testing.T) { testWriter(t, start(t)) })
	}
}

func testWriter(t *testing.T, a *api) {
	t.Helper()
	created := newDeployItem(a.newNamespace(), "item")
	a.create(created)
	w := &writer{client: client.WithFieldOwner(a.admin, UserAgent)}
	item := created.DeepCopy()
	save := func(item *v1alpha1.DeployItem, document string) error {
		return w.status(t.Context(), item, func(i *v1alpha1.DeployItem) {
			i.Status.ObservedGeneration, i.Status.ProviderStatus = i.Generation, raw(document)
		})
	}

	if err := save(item, `{"apiVersion":"v1","kind":"S","n":9007199254740993,"gone":true}`); err != nil {
		t.Fatal(err)
	}
	if err := save(item, `{"apiVersion":"v1","kind":"S","n":9007199254740993}`); err != nil {
		t.Fatal(err)
	}
	fresh := &v1alpha1.DeployItem{}
	if err := a.admin.Get(t.Context(), client.ObjectKeyFromObject(item), fresh); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(
		json.Unmarshal([]byte(rawStatus(fresh)), &got),
		json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"S","n":9007199254740993}`), &want),
	); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("provider status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(withoutManagers(fresh), item); diff != "" {
		t.Errorf("after a write the item is what the API server has (-there +here):\n%s", diff)
	}

	version := item.ResourceVersion
	if err := save(item, rawStatus(item)); err != nil || item.ResourceVersion != version {
		t.Errorf(
			"what is there already must not be written: version %s instead of %s, error %v", item.ResourceVersion, version, err,
		)
	}

	a.touch(item)
	before := item.DeepCopy()
	if err := save(item, `{"apiVersion":"v1","kind":"S"}`); !errors.Is(err, errOutdated) {
		t.Errorf("expected errOutdated after somebody else's write, but found %v", err)
	}
	if err := w.addFinalizer(t.Context(), item); !errors.Is(err, errOutdated) {
		t.Errorf("expected errOutdated after somebody else's write, but found %v", err)
	}
	if diff := cmp.Diff(before, item); diff != "" {
		t.Errorf("a write that failed must leave the item as it was (-want +got):\n%s", diff)
	}

	a.remove(item)
	if err := save(item, `{"apiVersion":"v1","kind":"S"}`); !errors.Is(err, errOutdated) {
		t.Errorf("expected errOutdated for an item that is gone, but found %v", err)
	}
	again := newDeployItem(item.Namespace, item.Name)
	a.create(again)
	if err := w.addFinalizer(t.Context(), item); !errors.Is(err, errOutdated) {
		t.Errorf("an item of the same name was written in place of the one that is gone: %v", err)
	}
}
