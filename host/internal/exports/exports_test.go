package exports

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func newFakeAPI(t *testing.T) client.Client {
	t.Helper()
	api, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func create(t *testing.T, api client.Client, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func itemIn(namespace string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "item", UID: "ours"}}
}

func TestExports(t *testing.T) {
	owner := func(uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem", Name: "item", UID: uid},
		}
	}
	type secret struct {
		Name   string
		Owners []metav1.OwnerReference
		Data   map[string][]byte
	}
	ours := map[string][]byte{"config": []byte(`{"a":1}`)}
	cases := map[string]struct {
		reason   string
		there    *secret
		named    string // by the item's status
		values   string
		want     *secret
		conflict bool
		kept     bool // nothing was written
	}{
		"nothing to export": {reason: "no secret without exports"},
		"first": {
			reason: "the item owns it", values: `{"a":1}`, want: &secret{Name: "item-export", Owners: owner("ours"), Data: ours},
		},
		"changed": {
			reason: "the values change, the rest stays", values: `{"a":1}`,
			there: &secret{
				Name: "item-export", Owners: owner("ours"),
				Data: map[string][]byte{"config": []byte("old"), "other": []byte("kept")},
			},
			want: &secret{
				Name: "item-export", Owners: owner("ours"),
				Data: map[string][]byte{"config": []byte(`{"a":1}`), "other": []byte("kept")},
			},
		},
		"unchanged": {
			reason: "no write without a change", values: `{"a":1}`, kept: true,
			there: &secret{
				Name: "item-export", Owners: owner("ours"), Data: ours,
			}, want: &secret{Name: "item-export", Owners: owner("ours"), Data: ours},
		},
		"named by the status": {
			reason: "Landscaper may have created it, without an owner", values: `{"a":1}`, named: "elsewhere",
			there: &secret{Name: "elsewhere"}, want: &secret{Name: "elsewhere", Data: ours},
		},
		"left by an item of that name": {
			reason: "its item is gone, and the garbage collector may be late; the values are the same, but the owner is not",
			values: `{"a":1}`,
			there: &secret{
				Name: "item-export", Owners: owner("theirs"), Data: ours,
			}, want: &secret{Name: "item-export", Owners: owner("ours"), Data: ours},
		},
		"another owner's": {
			reason: "is not touched", values: `{"a":1}`, conflict: true, kept: true,
			there: &secret{Name: "item-export", Data: map[string][]byte{"password": []byte("theirs")}},
			want:  &secret{Name: "item-export", Data: map[string][]byte{"password": []byte("theirs")}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api, item := newFakeAPI(t), itemIn("ns")
			if tc.named != "" {
				item.Status.ExportReference = &v1alpha1.ObjectReference{Name: tc.named, Namespace: item.Namespace}
			}
			before := &corev1.Secret{}
			if tc.there != nil {
				before.Namespace, before.Name = item.Namespace, tc.there.Name
				before.OwnerReferences, before.Data = tc.there.Owners, tc.there.Data
				create(t, api, before)
			}
			var values []byte
			if tc.values != "" {
				values = []byte(tc.values)
			}
			ref, err := New(api).Write(t.Context(), item, values, stillHeld)
			var conflict contract.Error
			if errors.As(err, &conflict) != tc.conflict || !tc.conflict && err != nil || tc.conflict && !conflict.Final() {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if (ref != nil) != (tc.want != nil && !tc.conflict) {
				t.Errorf("%s: reference %v", tc.reason, ref)
			}
			if tc.want == nil {
				return
			}
			after := &corev1.Secret{}
			if err := api.Get(
				t.Context(), client.ObjectKey{Namespace: item.Namespace, Name: tc.want.Name}, after,
			); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(
				tc.want, &secret{Name: after.Name, Owners: after.OwnerReferences, Data: after.Data},
			); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if tc.kept && after.ResourceVersion != before.ResourceVersion {
				t.Errorf("%s: the secret was written", tc.reason)
			}
		})
	}
}

// TestExportsThatCannotBeWritten: another try would not help.
func TestExportsThatCannotBeWritten(t *testing.T) {
	_, api := testenv.ForTest(t)
	namespace := "exports-" + uuid.NewString()[:8]
	create(t, api, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	secret := strings.Repeat("secret", 1<<18)
	for name, c := range map[string]struct {
		item, values       string
		before             func(*corev1.Secret) // changes the Secret of a job before; nil for no such job
		reason, wantedText string
	}{
		"more than 1 MiB": {"item", secret, nil, "ExportsTooLarge", "data: Too long"},
		"later more than 1 MiB": {
			"item", secret, func(*corev1.Secret) {}, "ExportsTooLarge", "data: Too long",
		},
		"a request of more than 3 MiB": {"item", secret + secret + secret, nil, "ExportsTooLarge", "too large"},
		"the longest name of an item":  {strings.Repeat("n", 253), "{}", nil, "ExportNameTooLong", "metadata.name"},
		"an immutable Secret": {
			"item", `{"a":1}`, func(s *corev1.Secret) { s.Immutable = new(true) }, "ExportsRefused", "immutable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := itemIn(namespace)
			item.Name = c.item
			if c.before != nil {
				ref, err := New(api).Write(t.Context(), item, []byte("{}"), stillHeld)
				if err != nil {
					t.Fatal(err)
				}
				there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
				if err := testenv.Change(t.Context(), api, there, func() { c.before(there) }); err != nil {
					t.Fatal(err)
				}
			}
			_, err := New(api).Write(t.Context(), item, []byte(c.values), stillHeld)
			var got contract.Error
			if !errors.As(err, &got) || !slices.Equal(got.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}) ||
				got.Reason != c.reason ||
				!strings.Contains(got.Message, c.wantedText) || strings.Contains(got.Message, "secretsecret") {
				t.Errorf("expected the reason %s, but found %.500s: %v", c.reason, got.Reason, err)
			}
		})
	}
}

// TestExportsOfALostJob: a replica that has lost the lock unnoticed does not replace newer values by old ones.
func TestExportsOfALostJob(t *testing.T) {
	api, item := newFakeAPI(t), itemIn("ns")
	ref, err := New(api).Write(t.Context(), item, []byte("of the new holder"), stillHeld)
	if err != nil {
		t.Fatal(err)
	}
	lost := func(context.Context) error { return lock.ErrLost }
	if _, err := New(api).Write(t.Context(), item, []byte("old"), lost); !errors.Is(err, lock.ErrLost) {
		t.Errorf("expected the error that the lock was lost, but found %v", err)
	}
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data[key]); got != "of the new holder" {
		t.Errorf("the exports are %q now", got)
	}
}

func stillHeld(context.Context) error { return nil }
