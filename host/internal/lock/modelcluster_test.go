package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	modelNamespace = "ns"
	modelPlugin    = "p"
)

// The errors that the requests of the model can meet.
var (
	errConflict = errors.New("conflict")
	errNoItem   = errors.New("not found")
	errTimeout  = errors.New("no answer")
)

// modelItem is a deploy item, as far as locks are concerned.
type modelItem struct {
	name    string
	uid     types.UID
	version int
	// job is the newest job; picked the one that was picked up last, which waits for its turn as long as it is queued; finished the one
	// that has ended last.
	job, picked, finished int
	queued                bool
	// noise is what others write: labels and such.
	noise int
}

func (i *modelItem) done() bool { return i.job == i.finished }

// modelSecret is what a job exports, and the tenure of who has written it.
type modelSecret struct{ version, tenure int }

// tenure is the time from the write that takes a lock to the one that gives it to somebody else, known by the version of the first.
type tenure struct {
	id     int
	holder *process
}

// stream is one of the watches of a replica. Events are in order within it, and arrive at any time.
type stream int

const (
	lockStream stream = iota
	itemStream
	podStream
	leaseStream
	streams
)

// cluster is an API server that answers at once. Its ghosts, which no replica sees, are what is checked.
type cluster struct {
	revision int
	locks    map[string]*v1alpha1.SyncObject
	items    map[string]*modelItem
	secrets  map[types.UID]modelSecret
	pods     map[string]types.UID
	leases   map[string]*coordinationv1.Lease
	watchers []*process

	tenures map[string]tenure // of the locks, by name
	// fenced is the tenure under which the item was picked up or taken over last.
	fenced map[types.UID]int
	// wrong is the first thing that must not be.
	wrong string
	// log tells what happens, should it come to that.
	log func(format string, args ...any)
}

func newCluster(log func(string, ...any)) *cluster {
	return &cluster{
		log:   log,
		locks: map[string]*v1alpha1.SyncObject{}, items: map[string]*modelItem{}, secrets: map[types.UID]modelSecret{},
		pods: map[string]types.UID{}, leases: map[string]*coordinationv1.Lease{},
		tenures: map[string]tenure{}, fenced: map[types.UID]int{},
	}
}

func (c *cluster) next() int {
	c.revision++
	return c.revision
}

// blame notes what must not be, by the name of the invariant.
func (c *cluster) blame(invariant, format string, args ...any) {
	if c.wrong == "" {
		c.wrong = invariant + ": " + fmt.Sprintf(format, args...)
	}
}

// publish has each replica hear of something, later.
func (c *cluster) publish(s stream, event func(*process)) {
	for _, p := range c.watchers {
		p.events[s] = append(p.events[s], event)
	}
}

func (c *cluster) putItem(item modelItem) modelItem {
	item.version = c.next()
	c.items[item.name] = &item
	c.publish(itemStream, func(p *process) { p.seeItem(item) })
	return item
}

func (c *cluster) deleteItem(name string) {
	delete(c.items, name)
	c.log("%d: item %s is deleted", c.next(), name)
	c.publish(itemStream, func(p *process) { p.loseItem(name) })
}

func (c *cluster) putLock(object *v1alpha1.SyncObject) {
	object.ResourceVersion = strconv.Itoa(c.next())
	c.locks[object.Name] = object
	c.publish(lockStream, func(p *process) { p.seeLock(object) })
}

func (c *cluster) deleteLock(name string) {
	object := c.locks[name]
	delete(c.locks, name)
	delete(c.tenures, name)
	c.next()
	c.publish(lockStream, func(p *process) { p.loseLock(object, false) })
}

func (c *cluster) putPod(name string, uid types.UID) {
	c.pods[name] = uid
	c.publish(podStream, func(p *process) { p.feed.PodSeen(name, uid) })
}

// deletePod deletes a pod, and with it its Lease.
func (c *cluster) deletePod(name string) {
	delete(c.pods, name)
	c.publish(podStream, func(p *process) { p.feed.PodMissing(name) })
	if lease := c.leases[name]; lease != nil {
		delete(c.leases, name)
		version := strconv.Itoa(c.next())
		c.publish(leaseStream, func(p *process) { p.feed.LeaseGone(name, version) })
	}
}

func (c *cluster) putLease(pod string, lease *coordinationv1.Lease) {
	lease.ResourceVersion = strconv.Itoa(c.next())
	c.leases[pod] = lease
	c.publish(leaseStream, func(p *process) { p.seeLease(pod, lease) })
}

// relist has a replica's watch of locks begin anew: it hears of what is there now, and not of what was meanwhile.
func (c *cluster) relist(p *process) {
	p.events[lockStream] = nil
	for _, name := range slices.Sorted(maps.Keys(p.seen)) {
		if c.locks[name] == nil {
			p.loseLock(p.seen[name], true)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.locks)) {
		p.seeLock(c.locks[name])
	}
}

// modelAPI is the API of SyncObjects as one process has it.
type modelAPI struct{ *process }

var (
	_ objects                    = modelAPI{}
	_ cache.ResourceEventHandler = (*Locker)(nil)
)

func (a modelAPI) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return a.request(func() error {
		found := a.locks[key.Name]
		if found == nil {
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
		found.DeepCopyInto(object.(*v1alpha1.SyncObject))
		return nil
	})
}

func (a modelAPI) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return a.request(func() error {
		lock := object.(*v1alpha1.SyncObject).DeepCopy()
		if a.locks[lock.Name] != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, lock.Name)
		}
		lock.UID = types.UID(fmt.Sprintf("lock-%d", a.revision))
		a.putLock(lock)
		a.noteTenure(lock)
		lock.DeepCopyInto(object.(*v1alpha1.SyncObject))
		return nil
	})
}

func (a modelAPI) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	raw, err := patch.Data(object)
	if err != nil {
		return err
	}
	name := object.GetName()
	return a.request(func() error {
		found := a.locks[name]
		if found == nil {
			return apierrors.NewNotFound(schema.GroupResource{}, name)
		}
		lock, err := patched(found, raw)
		if err != nil {
			return err
		}
		a.putLock(lock)
		a.noteTenure(lock)
		lock.DeepCopyInto(object.(*v1alpha1.SyncObject))
		return nil
	})
}

// patched applies a merge patch as the API server does, on the conditions that it names.
func patched(before *v1alpha1.SyncObject, raw []byte) (*v1alpha1.SyncObject, error) {
	var patch struct {
		Metadata struct {
			UID             types.UID          `json:"uid"`
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			PodName *string `json:"podName"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	meta := patch.Metadata
	if meta.UID != "" && meta.UID != before.UID || meta.ResourceVersion != "" && meta.ResourceVersion != before.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{}, before.Name, errConflict)
	}
	after := before.DeepCopy()
	for key, value := range meta.Annotations {
		if value == nil {
			delete(after.Annotations, key)
			continue
		}
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[key] = *value
	}
	if patch.Spec.PodName != nil {
		after.Spec.PodName = *patch.Spec.PodName
	}
	return after, nil
}

// noteTenure notes who holds a lock now. Nobody is ever taken for dead without a reason.
func (a modelAPI) noteTenure(lock *v1alpha1.SyncObject) {
	c := a.cluster
	before := c.tenures[lock.Name]
	c.log("%d: %s writes lock %s: holder %q", c.revision, a.id, lock.Name, lock.Spec.PodName)
	if lock.Spec.PodName == "" {
		if before.holder != nil && before.holder != a.process {
			c.blame("one holder", "%s has given back the lock of %s", a.id, before.holder.id)
		}
		c.tenures[lock.Name] = tenure{}
		return
	}
	if before.holder != nil && before.holder != a.process && !before.holder.crashed {
		if !before.holder.excused && before.holder.pod != a.pod { // an older process of the pod may not know yet that it is followed
			c.blame("no wrong verdict", "%s has taken the lock of %s, which is alive and has always been", a.id, before.holder.id)
		}
		before.holder.robbed[before.id] = true
	}
	now := tenure{id: c.revision, holder: a.process}
	c.tenures[lock.Name] = now
	a.newest[lock.Name] = now.id
}
