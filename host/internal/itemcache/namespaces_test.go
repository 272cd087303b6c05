package itemcache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// scoped is a cache of a user with rights in some namespaces.
type scoped struct {
	t      *testing.T
	admin  client.Client
	user   string
	source *Source
	cache  cache.Cache

	mu   sync.Mutex
	seen map[string]int // events by the names of items
}

func newScoped(t *testing.T, namespaces ...string) *scoped {
	t.Helper()
	plane, admin := controlPlane.ForTest(t)
	s := &scoped{t: t, admin: admin, user: "user-" + uuid.NewString()[:8], seen: map[string]int{}}
	config := rest.CopyConfig(plane.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: s.user, Groups: []string{"system:authenticated"}}
	var err error
	if s.source, err = NewSource(config, admin.Scheme(), namespaces...); err != nil {
		t.Fatal(err)
	}
	s.source.retry = 1100 * time.Millisecond // a reflector lists again after a shorter watch
	options := cache.Options{
		Scheme: admin.Scheme(), NewInformer: s.source.NewInformer, DefaultNamespaces: map[string]cache.Config{},
		ByObject: map[client.Object]cache.ByObject{&v1alpha1.DeployItem{}: {Namespaces: map[string]cache.Config{}}},
	}
	for _, namespace := range namespaces {
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	if s.cache, err = cache.New(config, options); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the cache, and returns when it has listed everything.
func (s *scoped) start() {
	s.t.Helper()
	count := func(obj any) {
		if item, ok := obj.(*v1alpha1.DeployItem); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen[item.Name]++
		}
	}
	items, err := s.cache.GetInformer(s.t.Context(), &v1alpha1.DeployItem{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = items.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: count, UpdateFunc: func(before, obj any) {
				if before.(*v1alpha1.DeployItem).ResourceVersion != obj.(*v1alpha1.DeployItem).ResourceVersion {
					count(obj)
				}
			},
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.cache.GetInformer(s.t.Context(), &v1alpha1.Target{}, cache.BlockUntilSynced(false)); err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = s.cache.Start(s.t.Context()) }()
	if !s.cache.WaitForCacheSync(s.t.Context()) {
		s.t.Fatal("the cache was not synced")
	}
}

// add creates a namespace, the rights of the user in it, and there an item and a Target with its name.
func (s *scoped) add(namespace string) {
	s.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: namespace}
	target := &v1alpha1.Target{ObjectMeta: meta, Spec: v1alpha1.TargetSpec{Type: "test.pergola.dev/t"}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, target, s.item(namespace, namespace),
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"deployitems", "targets"},
			Verbs: []string{"list", "watch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: namespace},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: s.user}},
		},
	} {
		if err := s.admin.Create(s.t.Context(), object); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scoped) item(namespace, name string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.DeployItemSpec{Type: "test"},
	}
}

// await waits until the cache has exactly these items and Targets.
func (s *scoped) await(items, targets []string) {
	s.t.Helper()
	var found string
	want := fmt.Sprint(items, targets)
	err := wait.PollUntilContextTimeout(s.t.Context(), 10*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			itemList, targetList := &v1alpha1.DeployItemList{}, &v1alpha1.TargetList{}
			if err := s.cache.List(ctx, itemList); err != nil {
				return false, err
			}
			if err := s.cache.List(ctx, targetList); err != nil {
				return false, err
			}
			found = fmt.Sprint(namesOf(itemList.Items, func(i v1alpha1.DeployItem) string { return i.Name }),
				namesOf(targetList.Items, func(i v1alpha1.Target) string { return i.Name }))
			return found == want, nil
		})
	if err != nil {
		s.t.Fatalf("expected %s, but found %s: %v", want, found, err)
	}
}

func namesOf[T any](objects []T, name func(T) string) (names []string) {
	for _, object := range objects {
		names = append(names, name(object))
	}
	slices.Sort(names)
	return names
}

// Rule (host-configuration.md#namespaces): The host sees DeployItems in its namespaces alone, and one that comes later,
// or whose Role does, without a restart.
func TestNamespaces(t *testing.T) {
	prefix := "scoped-" + uuid.NewString()[:8]
	a, b, never, other := prefix+"-a", prefix+"-b", prefix+"-never", prefix+"-other"
	s := newScoped(t, a, b, never)
	s.add(a)
	s.add(other)
	s.start()
	s.await([]string{a}, []string{a})
	s.add(b)
	s.await([]string{a, b}, []string{a, b})

	// Each namespace goes on from its own position after the end of a watch, which the missing namespace brings about.
	want := []string{a, b}
	for i := range 4 {
		namespace := []string{b, a}[i%2]
		item := s.item(namespace, fmt.Sprintf("%s-%d", namespace, i))
		if err := s.admin.Create(t.Context(), item); err != nil {
			t.Fatal(err)
		}
		want = append(want, item.Name)
		slices.Sort(want)
		s.await(want, []string{a, b})
	}

	// Without its Role, a namespace keeps what was known, and the other one goes on.
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: b, Name: b}}
	if err := s.admin.Delete(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	list, err := s.listAfter(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(list.Items); got != len(want) {
		t.Errorf("expected the items of both namespaces, but found %d", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range maps.Keys(s.seen) {
		if s.seen[name] > 1 {
			t.Errorf("item %s was seen %d times", name, s.seen[name])
		}
	}
}

// listAfter lists when the user may not list a namespace any more.
func (s *scoped) listAfter(namespace string) (list *metav1.List, err error) {
	for {
		if _, err := s.source.list(s.t.Context(), namespace, metav1.ListOptions{Limit: 1}); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	found, err := s.source.List(metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return found.(*metav1.List), nil
}

// The end of one watch ends all, and no event that was taken comes again.
func TestMergedWatch(t *testing.T) {
	t.Parallel()
	one, two := watch.NewFake(), watch.NewFake()
	merged := newMergedWatch()
	var taken []watch.EventType
	merged.add(nil, one, func(e watch.Event) { taken = append(taken, e.Type) })
	merged.add(nil, two, func(watch.Event) {})
	go one.Add(&v1alpha1.DeployItem{})
	if e := <-merged.ResultChan(); e.Type != watch.Added {
		t.Errorf("found %+v", e)
	}
	two.Stop()
	if e, open := <-merged.ResultChan(); open {
		t.Errorf("expected the end, but found %+v", e)
	}
	merged.Stop()
	if !one.IsStopped() || len(taken) != 1 {
		t.Errorf("one is stopped: %t, taken: %v", one.IsStopped(), taken)
	}
}

// A watch of several namespaces goes on where the one before has ended, in each of them.
func TestPositions(t *testing.T) {
	plane, admin := controlPlane.ForTest(t)
	prefix := "positions-" + uuid.NewString()[:8]
	namespaces := []string{prefix + "-a", prefix + "-b"}
	source, err := NewSource(plane.Config, admin.Scheme(), namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	add := func(namespace, name string) {
		t.Helper()
		item := &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.DeployItemSpec{Type: "test"},
		}
		if err := admin.Create(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range namespaces {
		if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
		add(namespace, "listed")
	}
	list, err := source.List(metav1.ListOptions{Limit: 1})
	if listed := list.(*metav1.List); err != nil || len(listed.Items) != 2 || listed.Continue != "" {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	for round := range 2 {
		for i, namespace := range namespaces {
			add(namespace, fmt.Sprintf("item-%d", 2*round+i))
		}
		// What the reflector has seen last is of any namespace.
		events, err := source.Watch(metav1.ListOptions{ResourceVersion: "1"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range namespaces {
			item, ok := (<-events.ResultChan()).Object.(*v1alpha1.DeployItem)
			if !ok {
				t.Fatal("expected an item")
			}
			got = append(got, item.Name)
		}
		events.Stop()
		slices.Sort(got)
		if want := []string{fmt.Sprintf("item-%d", 2*round), fmt.Sprintf("item-%d", 2*round+1)}; !slices.Equal(got, want) {
			t.Errorf("round %d: expected %v, but found %v", round, want, got)
		}
	}
}
