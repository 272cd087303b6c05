package watch

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// streamKey identifies a watch.
type streamKey struct {
	client    *target.Client
	mapping   target.Mapping
	namespace string
	// name of the one object that is watched; empty for all objects with the label.
	name string
}

// stream is one watch and what it has told. The mutex of its Set guards it.
type stream struct {
	key streamKey
	// follows are the followers of each object, by its name.
	follows map[string]map[*follow]struct{}
	// versions are the resource versions of the objects that there are, as far as synced says so, and latest is the
	// last one that the stream has told of.
	versions map[string]string
	latest   string
	synced   bool
	// idleSince is when the last follower left.
	idleSince time.Time
	// cancel ends the watch; nil if it was not started.
	cancel context.CancelFunc
}

// keyOf returns the stream that tells about an object. One that is not there may come without the label, so it is
// watched by its name.
func keyOf(seen Seen) streamKey {
	key := streamKey{client: seen.Client, mapping: seen.Mapping}
	if seen.Mapping.Namespaced {
		key.namespace = seen.Key.Namespace
	}
	if !seen.Labelled || seen.ResourceVersion == "" {
		key.name = seen.Key.Name
	}
	return key
}

// attach finds the stream that tells about an object, or makes it.
func (s *Set) attach(f *follow) {
	key := keyOf(f.seen)
	st, ok := s.streams[key]
	if !ok {
		if s.perTarget[key.client] >= s.maxPerTarget {
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
	options := metav1.ListOptions{LabelSelector: labelSelector}
	if st.key.name != "" {
		options = metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, st.key.name).String()}
	}
	streams.Go(func() { reflect(ctx, st.key, options, told, s.logger) })
}

// stop waits for the goroutines of the streams, whose context has ended, and makes the streams ready to be started
// again.
func (s *Set) stop(streams *sync.WaitGroup) {
	streams.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		st.cancel, st.synced = nil, false
		clear(st.versions)
	}
}

// compare wakes the follower of an object if that is not as it was seen. One that a stream does not have is gone,
// unless the stream is behind and will tell of it.
func (s *Set) compare(f *follow) {
	version, exists := f.stream.versions[f.seen.Key.Name]
	switch {
	case exists && newer(version, f.seen.ResourceVersion):
		s.changedFor(f.item)
	case !exists && f.seen.ResourceVersion != "" && !newer(f.seen.ResourceVersion, f.stream.latest):
		s.changedFor(f.item)
	}
}

// newer tells whether a resource version is newer than the one that was seen. An API server that is behind tells older
// ones at first, which are no change. Versions that have no order are newer if they differ.
func newer(version, seen string) bool {
	order, err := resourceversion.CompareResourceVersion(version, seen)
	if err != nil {
		return version != seen
	}
	return order > 0
}
