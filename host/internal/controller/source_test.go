package controller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	finished  = `{"jobID":"1","jobIDFinished":"1","phase":"Succeeded"}`
	newJob    = `{"jobID":"2","jobIDFinished":"1","phase":"Succeeded"}`
	smallPage = 3 // so that a few items have several pages
)

// newSource returns a source of a fake API server, whose lists have pages. before is called before each page, of which
// n is the number.
func (a *api) newSource(before func(n int, asked client.ListOptions) error) *Source {
	n := 0
	paged := interceptor.NewClient(a.admin, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			n++
			asked := (&client.ListOptions{}).ApplyOptions(opts)
			if err := errors.Join(before(n, *asked), c.List(ctx, list)); err != nil {
				return err
			}
			page, _ := list.(*v1alpha1.DeployItemList)
			from, _ := strconv.Atoi(asked.Continue)
			if next := from + smallPage; next < len(page.Items) {
				page.Items, page.Continue = page.Items[:next], strconv.Itoa(next)
			}
			page.Items = page.Items[from:]
			return nil
		},
	})
	return &Source{client: paged, seen: func(*v1alpha1.DeployItem, bool) {}}
}

func annotated(key, value string) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) { item.Annotations = map[string]string{key: value} }
}

// heard is a Listener.
type heard map[string]int

func (h heard) Listed(item *v1alpha1.DeployItem) { h[item.Name]++ }
func (h heard) AllListed()                       { h["end"]++ }

// TestSeen: an item that was listed or watched is not read when it is reconciled.
func TestSeen(t *testing.T) {
	silent := func(item *v1alpha1.DeployItem) { item.Annotations = nil }
	asks := func(operation string) func(*v1alpha1.DeployItem) {
		return func(item *v1alpha1.DeployItem) { item.Annotations[v1alpha1.OperationAnnotation] = operation }
	}
	cases := map[string]struct {
		reason      string
		status      string
		modify      func(*v1alpha1.DeployItem)
		idle, typed bool // what is remembered of a list
	}{
		"finished":  {reason: "there is nothing to do", status: finished, idle: true},
		"never-set": {reason: "nobody has set a job so far", idle: true},
		"new-job":   {reason: "there is a job", status: newJob},
		"asks":      {reason: "an operation is to begin", status: finished, modify: asks(v1alpha1.OperationReconcile)},
		"asks-for-something-unknown": {
			reason: "somebody is to learn that there is no such operation", status: finished, modify: asks("dance"),
		},
		"silent": {
			reason: "its metadata does not tell its type", status: finished, modify: silent, idle: true, typed: true,
		},
		"silent-with-a-job": {
			reason: "its type is known, its job is to be carried out", status: newJob, modify: silent, typed: true,
		},
		"lying": {
			reason: "its metadata tells another type", status: finished,
			modify: annotated(v1alpha1.DeployerTypeAnnotation, "test.pergola.dev/another"), idle: true, typed: true,
		},
	}
	for _, listed := range []bool{true, false} {
		b := newBench(t, succeeds)
		c := &Controller{router: b.router, memory: b.memory, plugins: b.plugins, clock: b.clock}
		hearer := heard{}
		c.options.Listed = hearer
		source := b.newSource(func(int, client.ListOptions) error { return nil })
		source.seen = c.seen
		for name, tc := range cases {
			b.newItemAs(b.item.Namespace, name, tc.status, func(item *v1alpha1.DeployItem) {
				if tc.modify != nil {
					tc.modify(item)
				}
			})
		}
		if listed {
			if _, err := source.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		reads := 0
		b.live = interceptor.NewClient(b.admin, interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
			) error {
				reads++
				return c.Get(ctx, key, obj, opts...)
			},
		})
		for name, tc := range cases {
			key := client.ObjectKey{Namespace: b.item.Namespace, Name: name}
			if !listed {
				item := &v1alpha1.DeployItem{}
				if err := b.admin.Get(t.Context(), key, item); err != nil {
					t.Fatal(err)
				}
				c.seen(item, false)
			}
			e := b.memory.entries[key]
			if _, typed := b.router.types[key]; e == nil || e.arrived == (tc.idle && listed) || typed != tc.typed {
				t.Errorf("%s: %s: found %+v, typed: %t", name, tc.reason, e, typed)
			}
			if hearer[name] > 0 != listed {
				t.Errorf("%s: heard of %d times", name, hearer[name])
			}
			if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Errorf("%s: %s", name, err)
			}
		}
		if reads != 0 {
			t.Errorf("listed: %t: %d items were read", listed, reads)
		}
	}
}

// TestNothingIsKeptOfOthers: the content of an item that no plugin here serves is of no use.
func TestNothingIsKeptOfOthers(t *testing.T) {
	b := newBench(t, succeeds)
	c := &Controller{router: b.router, memory: b.memory, plugins: b.plugins, clock: b.clock}
	c.seen(newDeployItem("ns", "foreign", func(item *v1alpha1.DeployItem) {
		item.Spec.Type = "test.pergola.dev/foreign"
		item.Status.JobID = "1"
	}), false)
	if len(b.memory.entries) != 0 {
		t.Errorf("remembered: %v", b.memory.entries)
	}
}

// TestSourceListsPages: no list holds more than a page, and one that fails is an error of the informer, which tries
// again.
func TestSourceListsPages(t *testing.T) {
	down := apierrors.NewServiceUnavailable("down")
	for _, fails := range []int{0, 1, 2} {
		a, seen := newFakeAPI(t), 0
		namespace := a.newNamespace()
		for i := range 2 * smallPage {
			a.newItemAs(namespace, fmt.Sprint("item-", i), finished)
		}
		source := a.newSource(func(n int, asked client.ListOptions) error {
			if asked.Limit != pageSize || asked.Raw != nil || (asked.Continue == "") != (n == 1) {
				t.Errorf("page %d: expected one of the newest items, but found %+v", n, asked)
			}
			if n == fails {
				return down
			}
			return nil
		})
		source.seen = func(*v1alpha1.DeployItem, bool) { seen++ }
		list, err := source.List(metav1.ListOptions{ResourceVersion: "0"})
		if fails > 0 {
			if !errors.Is(err, down) {
				t.Errorf("expected the error, but found %v", err)
			}
			continue
		}
		items, _ := list.(*metav1.List)
		if err != nil || seen != 2*smallPage || len(items.Items) != seen {
			t.Fatalf("found %d items, seen %d: %v", len(items.Items), seen, err)
		}
		if meta, ok := items.Items[0].Object.(*metav1.PartialObjectMetadata); !ok || meta.Name != "item-0" {
			t.Errorf("expected metadata, but found %+v", items.Items[0].Object)
		}
	}
}

func TestSourceWatches(t *testing.T) {
	a := newFakeAPI(t)
	source := a.newSource(nil)
	var seen []string
	source.seen = func(item *v1alpha1.DeployItem, _ bool) { seen = append(seen, item.Name) }
	events, err := source.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	item := a.newItemAs(a.newNamespace(), "item", finished)
	if err := a.admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	for e := range events.ResultChan() {
		if meta, ok := e.Object.(*metav1.PartialObjectMetadata); !ok || meta.Name != "item" {
			t.Errorf("expected metadata, but found %+v", e.Object)
		}
		if e.Type == watch.Deleted {
			break
		}
	}
	if len(seen) == 0 || seen[0] != "item" {
		t.Errorf("expected the item to be seen, but found %v", seen)
	}
}

// TestOneItemThatCannotBeDecoded does not keep the others from being listed. They are read one by one.
func TestOneItemThatCannotBeDecoded(t *testing.T) {
	a := newFakeAPI(t)
	a.newItemAs(a.newNamespace(), "item", newJob)
	source := a.newSource(nil)
	source.client = interceptor.NewClient(a.admin, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, full := list.(*v1alpha1.DeployItemList); full {
				return errors.New("json: cannot unmarshal number into Go struct field")
			}
			return c.List(ctx, list, opts...)
		},
	})
	source.seen = func(item *v1alpha1.DeployItem, _ bool) { t.Errorf("seen: %s", item.Name) }
	list, err := source.List(metav1.ListOptions{})
	if items, ok := list.(*metav1.List); err != nil || !ok || len(items.Items) != 1 {
		t.Errorf("expected the item, but found %v, %v", list, err)
	}
}

// TestArrivesWhileItIsRead: the job of an item of which another version arrives during the read goes on with its lock,
// and what arrives later is looked at although the job is not due.
func TestArrivesWhileItIsRead(t *testing.T) {
	b := newBench(t, always(waits("a Pod")))
	b.setJob()
	b.live = interceptor.NewClient(b.admin, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
		) error {
			err := c.Get(ctx, key, obj, opts...)
			if item, ok := obj.(*v1alpha1.DeployItem); ok && err == nil {
				b.memory.arrived(item.DeepCopy())
			}
			return err
		},
	})
	b.reconcile(t.Context())
	if _, _, goesOn := b.memory.lockState(client.ObjectKeyFromObject(b.item)); !goesOn {
		t.Error("the lock of the job is released")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	b.memory.arrived(b.read())
	if b.reconcile(t.Context()); b.read().Annotations[v1alpha1.OperationAnnotation] != "" {
		t.Error("the abort is left for later")
	}
}
