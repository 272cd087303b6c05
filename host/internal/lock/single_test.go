package lock

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// running is a Single that runs.
type running struct {
	*Single
	stop  context.CancelFunc
	ended chan error
}

func runSingle(c client.Client) *running {
	ctx, stop := context.WithCancel(context.Background())
	s := &running{NewSingle(c, nil, "group", 15*time.Second, slog.New(slog.DiscardHandler)), stop, make(chan error, 1)}
	go func() { s.ended <- s.Run(ctx) }()
	synctest.Wait()
	return s
}

func (s *running) end() error {
	s.stop()
	return <-s.ended
}

// Rule (operators-guide.md#scale): A second standalone host without locks waits until the first one ends, or has
// not renewed its Lease in time.
func TestSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := testenv.FakeClient()
		if err != nil {
			t.Fatal(err)
		}
		first, second := runSingle(api), runSingle(api)
		held := false
		second.OnHeld(func() { held = true })
		time.Sleep(time.Hour)
		if why := second.Wait(); first.Wait() != nil || why == nil || !strings.Contains(why.Error(), first.process) {
			t.Fatalf("the first host waits for %v, the second one for %v", first.Wait(), why)
		}
		if err := first.end(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if second.Wait() != nil || !held {
			t.Fatalf("after the end of the first host the second one waits for %v", second.Wait())
		}

		// A host without a connection goes on, and ends when it sees another holder.
		cut := false
		third := runSingle(interceptor.NewClient(api, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if cut {
					return errors.New("cut off")
				}
				return c.Update(ctx, o, opts...)
			},
		}))
		if err := second.end(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		cut = true
		fourth := runSingle(api)
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if third.Wait() != nil || fourth.Wait() == nil {
			t.Errorf("before the Lease expires: %v, %v", third.Wait(), fourth.Wait())
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if err := <-third.ended; !errors.Is(err, ErrTakenOver) || fourth.Wait() != nil {
			t.Errorf("after the Lease has expired: %v, %v", err, fourth.Wait())
		}
		if err := fourth.end(); err != nil {
			t.Error(err)
		}
	})
}

// Rule (host-configuration.md#namespaces): Standalone hosts without locks and with other namespaces do not wait for
// each other.
func TestSingleOfNamespaces(t *testing.T) {
	t.Parallel()
	if got := singleNamespace(nil); got != "kube-system" {
		t.Errorf("a host of all namespaces: %s", got)
	}
	if one, other := singleNamespace([]string{"b", "a"}), singleNamespace([]string{"a", "b"}); one != "a" || other != "a" {
		t.Errorf("the same namespaces in another order: %s and %s", one, other)
	}
}

// Rule (operators-guide.md#scale): A standalone host without the namespace of the Lease works without it.
func TestSingleWithoutNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := testenv.FakeClient()
		if err != nil {
			t.Fatal(err)
		}
		s := runSingle(interceptor.NewClient(api, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
			},
		}))
		if err := s.Wait(); err != nil {
			t.Errorf("the host waits for %v", err)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// Rule (operators-guide.md#scale): A standalone host that may not write the Lease works without it.
func TestSingleWithoutRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := testenv.FakeClient()
		if err != nil {
			t.Fatal(err)
		}
		s := runSingle(interceptor.NewClient(api, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "lease", errors.New("no"))
			},
		}))
		if err := s.Wait(); err != nil {
			t.Errorf("the host waits for %v", err)
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}
