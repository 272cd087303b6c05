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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

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
	data := map[string][]byte{"config": []byte(`{"a":1}`)}
	secretOf := func(uid types.UID, data map[string][]byte) *secret {
		return &secret{Name: "item-export", Owners: owner(uid), Data: data}
	}
	ours := secretOf("ours", data)
	cases := map[string]struct {
		reason   string
		there    *secret
		named    string // by the item's status
		nothing  bool   // to export
		want     *secret
		conflict bool
		lost     bool // the lock is
		kept     bool // nothing was written
	}{
		"nothing to export": {reason: "no secret without exports", nothing: true},
		// Rule (plugin-authors.md#exports-and-conditions): Exports are written to the Secret `<item>-export` of the
		// item, key `config`.
		"first": {reason: "the item owns it", want: ours},
		"changed": {
			reason: "the values change, the rest stays",
			there:  secretOf("ours", map[string][]byte{"config": []byte("old"), "other": []byte("kept")}),
			want:   secretOf("ours", map[string][]byte{"config": data["config"], "other": []byte("kept")}),
		},
		"unchanged": {reason: "no write without a change", there: ours, want: ours, kept: true},
		"named by the status": {
			reason: "Landscaper may have created it, without an owner", named: "elsewhere",
			there: &secret{Name: "elsewhere"}, want: &secret{Name: "elsewhere", Data: data},
		},
		"left by an item of that name": {
			reason: "its item is gone, and the garbage collector may be late; the values are the same, but the owner is not",
			there:  secretOf("theirs", data), want: ours,
		},
		// Rule (SECURITY.md#authors-of-items): Exports are written to no Secret of another owner.
		"another owner's": {
			reason: "is not touched", conflict: true, kept: true,
			there: &secret{Name: "item-export", Data: map[string][]byte{"password": []byte("theirs")}},
			want:  &secret{Name: "item-export", Data: map[string][]byte{"password": []byte("theirs")}},
		},
		"lost lock": {
			reason: "the values of the next holder are newer", lost: true, kept: true,
			there: secretOf("ours", map[string][]byte{"config": []byte("of the next holder")}),
			want:  secretOf("ours", map[string][]byte{"config": []byte("of the next holder")}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := itemIn("ns")
			api, err := testenv.FakeClient()
			if err != nil {
				t.Fatal(err)
			}
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
			if !tc.nothing {
				values = data["config"]
			}
			verify := stillHeld
			if tc.lost {
				verify = func(context.Context) error { return lock.ErrLost }
			}
			ref, err := New(api).Write(t.Context(), item, values, verify)
			var conflict contract.Error
			final := errors.As(err, &conflict) && conflict.Final()
			if (err != nil) != (tc.conflict || tc.lost) || final != tc.conflict || errors.Is(err, lock.ErrLost) != tc.lost {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if (ref != nil) != (tc.want != nil && err == nil) {
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

// TestExportsAboveASmallerLimit: that of a proxy, or of etcd, may be below that of Secrets.
func TestExportsAboveASmallerLimit(t *testing.T) {
	for name, refusal := range map[string]error{
		"proxy": apierrors.NewRequestEntityTooLargeError("limit is 512 KiB"),
		"etcd":  apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		t.Run(name, func(t *testing.T) {
			admin, err := testenv.FakeClient()
			if err != nil {
				t.Fatal(err)
			}
			api := interceptor.NewClient(admin, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refusal },
			})
			_, err = New(api).Write(t.Context(), itemIn("ns"), []byte("{}"), stillHeld)
			var got contract.Error
			if !errors.As(err, &got) || got.Reason != "ExportsTooLarge" || len(got.Codes) == 0 {
				t.Errorf("expected the end of the job, but found: %v", err)
			}
		})
	}
}

// stillHeld is the check of a lock that is held.
func stillHeld(context.Context) error { return nil }

// Rule (plugin-authors.md#exports-and-conditions): Without a Landscaper, the exports of an item without exports are
// removed.
func TestRemove(t *testing.T) {
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   []metav1.OwnerReference // nil if the Secret stays as it is
	}{
		"of the item": {ownedBy(itemIn(""), "ours"), ownedBy(itemIn(""), goneOwner)},
		"without one": {nil, ownedBy(itemIn(""), goneOwner)},
		"of a ConfigMap, too": {
			[]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "a"}},
			[]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, err := testenv.FakeClient()
			if err != nil {
				t.Fatal(err)
			}
			item := itemIn("ns")
			item.Status.ExportReference = &v1alpha1.ObjectReference{Namespace: "ns", Name: "values"}
			if err := New(api).Remove(t.Context(), item, func(context.Context) error { return nil }); err != nil {
				t.Errorf("a Secret that is gone: %v", err)
			}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "values", OwnerReferences: tc.owners},
				Data:       map[string][]byte{"config": []byte("{}"), "other": []byte("kept")},
			}
			create(t, api, secret)
			lost := func(context.Context) error { return lock.ErrLost }
			if err := New(api).Remove(t.Context(), item, lost); !errors.Is(err, lock.ErrLost) {
				t.Errorf("without the lock: %v", err)
			}
			if err := New(api).Remove(t.Context(), item, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, secret.OwnerReferences); diff != "" || len(secret.Data) != 1 {
				t.Errorf("data %v, owners (-want +got):\n%s", secret.Data, diff)
			}
		})
	}
}
