package follow_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/follow"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

var admin client.WithWatch

func TestMain(m *testing.M) {
	os.Exit(testenv.RunTests(m, func(c *testenv.ControlPlane) (err error) {
		admin, err = c.Client()
		return err
	}))
}

// broken is a client whose watches do not work, from one on.
type broken struct {
	client.WithWatch

	// watch replaces the watches with these numbers, from one on.
	watch   func(number int64) (watch.Interface, error)
	watches atomic.Int64
}

func (b *broken) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	number := b.watches.Add(1)
	if events, err := b.watch(number); events != nil || err != nil {
		return events, err
	}
	return b.WithWatch.Watch(ctx, list, opts...)
}

func newItem(name string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1alpha1.DeployItemSpec{Type: "test.pergola.dev/any"}}
}

// TestItemsGoesOn: what happens while a watch is broken is told afterwards, and nothing twice.
func TestItemsGoesOn(t *testing.T) {
	ctx := t.Context()
	steady, going := newItem("steady"), newItem("going")
	for _, item := range []*v1alpha1.DeployItem{steady, going} {
		if err := admin.Create(ctx, item); err != nil {
			t.Fatal(err)
		}
	}
	expired := watch.NewFakeWithChanSize(1, false)
	gone := apierrors.NewResourceExpired("too old").Status()
	expired.Error(&gone)
	api := &broken{WithWatch: admin, watch: func(number int64) (watch.Interface, error) {
		switch number {
		case 1:
			return watch.NewEmptyWatch(), nil
		case 2:
			return nil, errors.New("connection refused")
		case 3:
			return expired, nil
		default:
			return nil, nil
		}
	}}
	var told []string
	complete := 0
	err := follow.Items(ctx, api, func(change follow.Change) error {
		if change.Kind != follow.Complete {
			told = append(told, string(change.Kind)+" "+change.Item.Name)
			if change.Item.Name == "late" {
				return follow.ErrStop
			}
			return nil
		}
		switch complete++; complete {
		case 1:
			return admin.Delete(ctx, going)
		case 4:
			return admin.Create(ctx, newItem("late"))
		}
		return nil
	}, client.InNamespace("default"))
	want := []string{"added going", "added steady", "gone going", "added late"}
	if err != nil || !slices.Equal(told, want) {
		t.Errorf("expected %v, but found %v, error %v", want, told, err)
	}
}

// TestItemsGivesUp: the first error ends it, one that does not pass ends it later, and so do its owner and its user.
func TestItemsGivesUp(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployitems"}, "", errors.New("no"))
	errSeen, errTime := errors.New("seen"), errors.New("time is over")
	short, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errTime)
	defer cancel()
	works := func(int64) (watch.Interface, error) { return nil, nil }
	for _, tc := range []struct {
		reason string
		ctx    context.Context
		watch  func(int64) (watch.Interface, error)
		see    error
		want   error
	}{
		{reason: "the rights to watch are missing", ctx: t.Context(), watch: func(int64) (watch.Interface, error) { return nil, forbidden }, want: forbidden},
		{reason: "who sees them fails", ctx: t.Context(), watch: works, see: errSeen, want: errSeen},
		{reason: "the time is over", ctx: short, watch: works, want: errTime},
	} {
		err := follow.Items(tc.ctx, &broken{WithWatch: admin, watch: tc.watch}, func(follow.Change) error { return tc.see })
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: expected %v, but found %v", tc.reason, tc.want, err)
		}
	}
}
