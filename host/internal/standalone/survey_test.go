package standalone

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// counts counts for each item what a setter does with it.
type counts struct {
	mu                   sync.Mutex
	looks, reads, writes map[client.ObjectKey]int
}

// countAll has a setter's requests counted.
func (a *api) countAll(s *Setter) *counts {
	c := &counts{looks: map[client.ObjectKey]int{}, reads: map[client.ObjectKey]int{}, writes: map[client.ObjectKey]int{}}
	count := func(counted map[client.ObjectKey]int, key client.ObjectKey) {
		c.mu.Lock()
		defer c.mu.Unlock()
		counted[key]++
	}
	s.cache = countingReader{s.cache, func(key client.ObjectKey) { count(c.looks, key) }}
	s.live = countingReader{s.live, func(key client.ObjectKey) { count(c.reads, key) }}
	s.client = interceptor.NewClient(a.admin, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, api client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			count(c.writes, client.ObjectKeyFromObject(obj))
			return api.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	return c
}

// countingReader has each item that is read counted.
type countingReader struct {
	client.Reader
	count func(client.ObjectKey)
}

func (r countingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	r.count(key)
	return r.Reader.Get(ctx, key, obj, opts...)
}

// of is how often an item has been looked at, read and written.
func (c *counts) of(item *v1alpha1.DeployItem) (looks, reads, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(item)
	return c.looks[key], c.reads[key], c.writes[key]
}

// waitForLook waits until something has looked at an item more often than before.
func (c *counts) waitForLook(t *testing.T, item *v1alpha1.DeployItem, before int) {
	t.Helper()
	waitUntil(t, "a look at "+item.Namespace, func() bool {
		looks, _, _ := c.of(item)
		return looks > before
	})
}

// waitForWatch waits until a setter hears of changes: what comes before is there at the start.
func (c *counts) waitForWatch(a *api, probe *v1alpha1.DeployItem) {
	a.t.Helper()
	changes := 0
	waitUntil(a.t, "the setter to hear of a change", func() bool {
		changes++
		a.patchTimeout(probe, fmt.Sprintf("%ds", changes))
		looks, _, _ := c.of(probe)
		return looks > 0
	})
}

func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("expected %s: %v", what, err)
	}
}

// finishedOf creates items of a type whose last job was for them as they are.
func (a *api) finishedOf(itemType v1alpha1.DeployItemType, n int) []*v1alpha1.DeployItem {
	a.t.Helper()
	var items []*v1alpha1.DeployItem
	for i := range n {
		item := a.newDeployItem(func(item *v1alpha1.DeployItem) {
			item.Spec.Type = itemType
			item.Annotations = responsibility.Annotations(item)
		})
		job := fmt.Sprint("job-", i)
		a.patchStatus(item, fmt.Sprintf(`{"phase":"Succeeded","observedGeneration":1,"jobID":%q,"jobIDFinished":%[1]q}`, job))
		items = append(items, item)
	}
	return items
}

// list tells a setter of all items, as a survey does.
func (a *api) list(setter *Setter) {
	a.t.Helper()
	all := &v1alpha1.DeployItemList{}
	if err := a.admin.List(a.t.Context(), all); err != nil {
		a.t.Fatal(err)
	}
	for i := range all.Items {
		if err := setter.Surveyed(a.t.Context(), &all.Items[i]); err != nil {
			a.t.Fatal(err)
		}
	}
}

// patchTimeout changes the spec of an item.
func (a *api) patchTimeout(item *v1alpha1.DeployItem, timeout string) {
	a.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"timeout":%q}}`, timeout))
	if err := a.admin.Patch(a.t.Context(), item.DeepCopy(), patch); err != nil {
		a.t.Fatal(err)
	}
}

func hasJob(s *v1alpha1.DeployItemStatus) bool { return s.JobID != s.JobIDFinished }

func TestStartWithASurvey(t *testing.T) {
	const itemType v1alpha1.DeployItemType = "test.pergola.dev/surveyed"
	ofType := func(item *v1alpha1.DeployItem) { item.Spec.Type = itemType }
	for name, complete := range map[string]bool{"complete": true, "failed": false} {
		t.Run(name, func(t *testing.T) {
			a := newServerAPI(t)
			idle := a.finishedOf(itemType, 5)
			waiting := a.newDeployItem(ofType)
			var c *counts
			setter := a.startManager(func(other v1alpha1.DeployItemType) bool { return other == itemType },
				Options{Surveyed: true}, func(s *Setter) { c = a.countAll(s) })

			c.waitForWatch(a, a.newDeployItem(ofType))
			a.waitFor(a.newDeployItem(ofType), "given a job meanwhile", hasJob)
			a.patchTimeout(idle[0], "1m")
			a.waitFor(idle[0], "given a job for its change meanwhile", hasJob)
			setter.Served([]v1alpha1.DeployItemType{itemType})
			if complete {
				a.list(setter)
			}
			if _, reads, _ := c.of(waiting); reads != 0 {
				t.Errorf("an item that was there has not waited for the survey: %d reads", reads)
			}
			if err := setter.SurveyEnded(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.waitFor(waiting, "given a job", hasJob)
			for range 2 { // the second look comes after the end of the first
				for _, item := range idle[1:] {
					looks, _, _ := c.of(item)
					setter.Served([]v1alpha1.DeployItemType{itemType})
					c.waitForLook(t, item, looks)
				}
			}
			for _, item := range idle[1:] {
				if _, reads, _ := c.of(item); complete && reads != 0 || !complete && reads != 1 {
					t.Errorf("an item that needs nothing was read %d times", reads)
				}
			}
		})
	}
}

// TestElection: only the elected replica sets jobs. One that comes to be elected goes on, and does not read what it knows.
func TestElection(t *testing.T) {
	a := newServerAPI(t)
	const itemType v1alpha1.DeployItemType = "test.pergola.dev/elected"
	const replicas = 2
	idle := a.finishedOf(itemType, 1)[0]
	var elected atomic.Int32 // from 1; zero for none
	elected.Store(1)
	var setters [replicas + 1]*Setter
	var counted [replicas + 1]*counts
	var asked [replicas + 1]atomic.Int32
	for i := 1; i <= replicas; i++ {
		options := Options{Surveyed: true, Elected: func(v1alpha1.DeployItemType) bool {
			asked[i].Add(1)
			return elected.Load() == int32(i)
		}}
		setters[i] = a.startManager(func(other v1alpha1.DeployItemType) bool { return other == itemType }, options,
			func(s *Setter) { counted[i] = a.countAll(s) })
		a.list(setters[i])
		if err := setters[i].SurveyEnded(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	elect := func(i int32) {
		elected.Store(i)
		for _, setter := range setters[1:] {
			setter.ReplicasChanged()
		}
	}
	// bothAsk waits until both have asked who is elected, because of what is done.
	bothAsk := func(do func()) {
		t.Helper()
		first, second := asked[1].Load(), asked[2].Load()
		do()
		waitUntil(t, "both to have a look", func() bool { return asked[1].Load() > first && asked[2].Load() > second })
	}
	// expect waits until the item has a job, and expects it to be the setter's.
	expect := func(item *v1alpha1.DeployItem, i int, total [replicas + 1]int) string {
		t.Helper()
		jobID := a.waitFor(item, "given a job", hasJob).Status.JobID
		for replica := 1; replica <= replicas; replica++ {
			if _, _, writes := counted[replica].of(item); writes != total[replica] {
				t.Errorf("%d is elected: expected %d writes of %d, but found %d", i, total[replica], replica, writes)
			}
		}
		return jobID
	}
	item := a.newDeployItem(func(item *v1alpha1.DeployItem) { item.Spec.Type = itemType })
	first := expect(item, 1, [...]int{0, 1, 0})

	a.patchStatus(item, fmt.Sprintf(`{"phase":"Succeeded","observedGeneration":1,"jobIDFinished":%q}`, first))
	bothAsk(func() { elect(0) })
	bothAsk(func() { a.patchTimeout(item, "1m") })
	elect(2)
	second := expect(item, 2, [...]int{0, 1, 1})
	counted[2].waitForLook(t, idle, 0)
	if _, reads, _ := counted[2].of(idle); reads != 0 {
		t.Errorf("an item that was listed was read %d times after the election", reads)
	}

	a.patchStatus(item, fmt.Sprintf(`{"phase":"Succeeded","observedGeneration":2,"jobIDFinished":%q}`, second))
	elect(1)
	a.patchTimeout(item, "2m")
	expect(item, 1, [...]int{0, 2, 1})
}
