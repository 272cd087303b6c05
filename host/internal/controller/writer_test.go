package controller

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func raw(document string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(document)} }

func TestDifference(t *testing.T) {
	const metadata = `{"resourceVersion":"5","uid":"a"}`
	cases := map[string]struct {
		reason         string
		before, change func(*v1alpha1.DeployItem)
		want           string
	}{
		"nothing": {reason: "what is the same is not written", change: func(*v1alpha1.DeployItem) {}},
		"status": {
			reason: "one field, under the condition that the item is the one that was read",
			change: func(i *v1alpha1.DeployItem) { i.Status.JobIDFinished = "j" },
			want:   `{"metadata":` + metadata + `,"status":{"jobIDFinished":"j","observedGeneration":7}}`,
		},
		"emptied": {
			reason: "what is no longer there becomes null",
			before: func(i *v1alpha1.DeployItem) { i.Status.LastError = &v1alpha1.Error{Message: "m"} },
			change: func(i *v1alpha1.DeployItem) { i.Status.LastError = nil },
			want:   `{"metadata":` + metadata + `,"status":{"lastError":null,"observedGeneration":7}}`,
		},
		"provider status": {
			reason: "field by field; a removed one becomes null, and null is as good as absent",
			before: func(i *v1alpha1.DeployItem) {
				i.Status.ProviderStatus = raw(`{"kept":1,"gone":{"a":1},"inner":{"x":1,"y":2},"list":[1,2]}`)
			},
			change: func(i *v1alpha1.DeployItem) {
				i.Status.ProviderStatus = raw(`{"kept":1,"inner":{"x":1,"z":null},"list":[2],"never":null}`)
			},
			want: `{"metadata":` + metadata + `,"status":{"observedGeneration":7,"providerStatus":{"gone":null,"inner":{"y":null},"list":[2]}}}`,
		},
		"large numbers": {
			reason: "a float64 cannot tell these two",
			before: func(i *v1alpha1.DeployItem) { i.Status.ProviderStatus = raw(`{"n":9007199254740992}`) },
			change: func(i *v1alpha1.DeployItem) { i.Status.ProviderStatus = raw(`{"n":9007199254740993}`) },
			want:   `{"metadata":` + metadata + `,"status":{"observedGeneration":7,"providerStatus":{"n":9007199254740993}}}`,
		},
		"finalizer": {
			reason: "a write to the metadata has no status",
			change: func(i *v1alpha1.DeployItem) { i.Finalizers = []string{"f"} },
			want:   `{"metadata":{"finalizers":["f"],"resourceVersion":"5","uid":"a"}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := itemAt("a", "5")
			before.Status.ObservedGeneration = 7
			if tc.before != nil {
				tc.before(before)
			}
			after := before.DeepCopy()
			tc.change(after)
			patch, err := difference(before, after)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if patch != nil {
				data, err := patch.Data(after)
				if err != nil {
					t.Fatal(err)
				}
				got = string(data)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDifferenceOfGarbage(t *testing.T) {
	before := itemAt("a", "5")
	after := before.DeepCopy()
	after.Status.ProviderStatus = raw("{")
	if _, err := difference(before, after); err == nil {
		t.Error("expected an error for a provider status that is no JSON")
	}
}

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
	seen := func() *metav1.PartialObjectMetadata { // as the cache has it
		t.Helper()
		meta := NewMetadata()
		if err := a.admin.Get(t.Context(), client.ObjectKeyFromObject(created), meta); err != nil {
			t.Fatal(err)
		}
		return slimmed(t, meta)
	}
	unwritten := seen()
	item := created.DeepCopy()
	save := func(item *v1alpha1.DeployItem, document string) error {
		return w.status(t.Context(), item, func(i *v1alpha1.DeployItem) { i.Status.ProviderStatus = raw(document) })
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
	if diff := cmp.Diff(fresh, item); diff != "" {
		t.Errorf("after a write the item is what the API server has (-there +here):\n%s", diff)
	}

	version := item.ResourceVersion
	if err := save(item, rawStatus(item)); err != nil || item.ResourceVersion != version {
		t.Errorf("what is there already must not be written: version %s instead of %s, error %v", item.ResourceVersion, version, err)
	}

	written := seen()
	if wroteStatus(unwritten) || !wroteStatus(written) || onlyMetadataChanged(unwritten, written) {
		t.Errorf("the metadata do not show who has written the status: %+v", written.ManagedFields)
	}
	a.touch(item)
	if !onlyMetadataChanged(written, seen()) {
		t.Error("a label was taken for a change of the item")
	}
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
	outdated := item.DeepCopy()
	outdated.ResourceVersion = again.ResourceVersion // even if the versions were the same
	for _, stale := range []*v1alpha1.DeployItem{item, outdated} {
		if err := w.addFinalizer(t.Context(), stale); err == nil {
			t.Error("an item of the same name was written in place of the one that is gone")
		}
	}
}
