package watch

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// streamKey identifies a watch.
type streamKey struct {
	client    *target.Client
	mapping   target.Mapping
	namespace string
	// name of the only watched object; empty for all objects of the group.
	name  string
	group Group
}

// stream is one watch and its reports. The mutex of its Set guards it.
type stream struct {
	key streamKey
	// follows are the followers of each object, by its name.
	follows map[string]map[*follow]struct{}
	// versions are the resource versions of the existing objects, complete if synced, and latest is the last reported
	// one.
	versions map[string]string
	latest   string
	synced   bool
	// idleSince is the time without followers.
	idleSince time.Time
	// cancel ends the watch; nil if it was not started.
	cancel context.CancelFunc
}

// keyOf returns the stream for an object. A missing one may come without the label, so it is watched by its name. For a
// finished item it is not: many can be gone at once.
func keyOf(f *follow) streamKey {
	seen := f.seen
	key := streamKey{client: seen.Client, mapping: seen.Mapping}
	if seen.Mapping.Namespaced {
		key.namespace = seen.Key.Namespace
	}
	if key.group = seen.Group; key.group == "" || seen.ResourceVersion == "" && !f.item.finished {
		key.name, key.group = seen.Key.Name, ""
	}
	return key
}

// attach finds the stream for an object, or makes it.
func (s *Set) attach(f *follow) {
	key := keyOf(f)
	st, ok := s.streams[key]
	if !ok {
		if used := s.perTarget[key.client]; used >= s.maxPerTarget || f.item.finished && used >= s.maxPerTarget/2 {
			return
		}
		s.perTarget[key.client]++
		st = &stream{key: key, follows: map[string]map[*follow]struct{}{}, versions: map[string]string{}}
		s.streams[key] = st
	}
	name := f.seen.Key.Name
	if st.follows[name] == nil {
		st.follows[name] = map[*follow]struct{}{}
	}
	st.follows[name][f] = struct{}{}
	f.stream = st
	if st.synced {
		s.compare(f)
	}
}

func (s *Set) detach(f *follow, now time.Time) {
	st := f.stream
	if st == nil {
		return
	}
	f.stream = nil
	name := f.seen.Key.Name
	delete(st.follows[name], f)
	if len(st.follows[name]) == 0 {
		delete(st.follows, name)
	}
	if len(st.follows) == 0 {
		st.idleSince = now
	}
}

// drop ends a stream.
func (s *Set) drop(st *stream) {
	if st.cancel != nil {
		st.cancel()
	}
	delete(s.streams, st.key)
	if s.perTarget[st.key.client]--; s.perTarget[st.key.client] == 0 {
		delete(s.perTarget, st.key.client)
	}
}

// start begins the watch of a stream.
func (s *Set) start(ctx context.Context, st *stream, streams *sync.WaitGroup) {
	ctx, st.cancel = context.WithCancel(ctx)
	told := &told{set: s, stream: st, ctx: ctx}
	options := metav1.ListOptions{LabelSelector: string(st.key.group)}
	if st.key.name != "" {
		options = metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, st.key.name).String()}
	}
	streams.Go(func() { reflect(ctx, st.key, options, told) })
}

// stop waits for the goroutines of the streams after the end of their context, and makes the streams ready for
// another start.
func (s *Set) stop(streams *sync.WaitGroup) {
	streams.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.cancel, st.synced = nil, false
		clear(st.versions)
	}
}

// compare wakes the follower of an object if it has changed since it was seen. An object missing in a stream is gone,
// unless the stream is behind and will report it.
func (s *Set) compare(f *follow) {
	version, exists := f.stream.versions[f.seen.Key.Name]
	switch {
	case exists && newer(version, f.seen.ResourceVersion):
		s.changedFor(f.item)
	case !exists && f.seen.ResourceVersion != "" && !newer(f.seen.ResourceVersion, f.stream.latest):
		s.changedFor(f.item)
	}
}

// refused wakes one finished item of a stream whose credentials the target does not take any more: its next Keep may
// bring others, for all of them.
func (s *Set) refused(st *stream) {
	for _, followers := range st.follows {
		for f := range followers {
			if f.item.finished {
				s.changedFor(f.item)
				return
			}
		}
	}
}

// newer reports whether a resource version is newer than the seen one. An API server behind reports older ones at
// first; they are no change. Versions without an order are newer if they differ.
func newer(version, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(version, seen)
	if err != nil {
		return version != seen
	}
	return order > 0
}
