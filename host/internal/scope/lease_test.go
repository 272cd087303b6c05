package scope

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// Rule (host-configuration.md#namespaces): `items list` names the namespaces of the running hosts, unless one of them
// serves all.
func TestServed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lease := func(holder string, age time.Duration, namespaces ...string) coordinationv1.Lease {
		l := coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: now.Add(-age)},
		}}
		Note(&l, namespaces)
		return l
	}
	for name, test := range map[string]struct {
		leases []coordinationv1.Lease
		want   []string
	}{
		"no host":         {nil, nil},
		"a host for some": {[]coordinationv1.Lease{lease("a", 0, "shop", "tools")}, []string{"shop", "tools"}},
		"two of one installation": {
			[]coordinationv1.Lease{lease("a", 0, "tools", "shop"), lease("b", 0, "shop", "tools")}, []string{"shop", "tools"},
		},
		"beside a host of all":  {[]coordinationv1.Lease{lease("a", 0, "shop"), lease("b", 0)}, nil},
		"beside a dead host":    {[]coordinationv1.Lease{lease("a", 0, "shop"), lease("b", time.Minute)}, []string{"shop"}},
		"beside a stopped host": {[]coordinationv1.Lease{lease("a", 0, "shop"), lease("", 0)}, []string{"shop"}},
		"dead hosts alone":      {[]coordinationv1.Lease{lease("a", time.Minute, "shop")}, nil},
	} {
		if got := served(test.leases, now); !slices.Equal(got, test.want) {
			t.Errorf("%s: expected %q, but found %q", name, test.want, got)
		}
	}
}

// A list of a namespace without a host has a line about it, unless the user has no right to Leases.
func TestUnserved(t *testing.T) {
	t.Parallel()
	api, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	const label = "test.pergola.dev/group"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hosts", Name: "host", Labels: map[string]string{label: "a"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("host"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	}
	Note(lease, []string{"tools", "shop"})
	if err := api.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	forbidden := interceptor.NewClient(api, interceptor.Funcs{List: func(
		context.Context, client.WithWatch, client.ObjectList, ...client.ListOption,
	) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no"))
	}})
	for name, test := range map[string]struct {
		reader     client.Reader
		namespaces []string
		want       string
	}{
		"served": {api, []string{"shop", "shop"}, ""},
		"unserved": {api, []string{"shop", "b", "a", "b"},
			"No host serves the DeployItems of a, b: the running hosts are for the namespaces shop, tools alone.\n"},
		"no right": {forbidden, []string{"a"}, ""},
	} {
		if got := Unserved(t.Context(), test.reader, label, test.namespaces, time.Now()); got != test.want {
			t.Errorf("%s: expected %q, but found %q", name, test.want, got)
		}
	}
}
