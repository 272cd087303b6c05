// Package readiness tells whether objects are ready: by their kinds, and by checks of values that people write.
//
// # By kind
//
// The rules are those of kstatus, but for what they get wrong for somebody who waits:
//
//   - Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet: as many replicas are up to date and
//     available as are wanted, and their controller has seen the last change. A Deployment that its manifest pauses is
//     ready once it was seen: it waits for people. One that another client has paused waits for what it lacks. With
//     the update strategy OnDelete replicas need not be up to date, since people delete the old ones when they like. A
//     Deployment whose progress deadline is over has failed.
//   - Pod: it is Ready, or has completed. It has failed if its phase is Failed. One that crashes again and again or
//     cannot be scheduled is waited for: what it lacks may come.
//   - Job: it is complete, or its manifest suspends it. It has failed if its condition Failed says so.
//   - CustomResourceDefinition: it is established. It has failed if its names are taken.
//   - PersistentVolumeClaim: it is bound. One whose StorageClass binds it for its first consumer
//     (WaitForFirstConsumer) is ready as long as no Pod asks for it; a Pod that does is waited for together with it.
//     It has failed if it has lost its volume.
//   - Service: one of type LoadBalancer has an ingress or external IPs, all others are ready.
//   - any other: none of the conditions Ready, Reconciling and Stalled says otherwise, nor does one of them or
//     observedGeneration belong to an older generation. Stalled is a failure. An object without a status is ready at
//     once.
//
// An object that is being deleted is waited for, whatever its kind. One that is done and gone, as IsComplete and
// NeedNotStay have it, is ready.
//
// # Custom checks
//
// A custom check names objects, or selects those of a kind by labels in all namespaces. It waits for an object that
// does not exist, and for the first one that has the labels. Each object must meet all requirements; see ParseChecks.
package readiness

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
)

// Checks are validated readiness checks; see ParseChecks. The zero value has the checks by kind and no others.
type Checks struct {
	disableDefault bool
	custom         []check
}

// Verdict is what objects lack to be ready: first by their kinds, in the order of the objects, then by the custom
// checks in their order. All are ready if nothing is waited for and nothing has failed.
type Verdict struct {
	// Waiting are the objects that are on their way, each with what it lacks.
	Waiting []string
	// Failed are the objects that have given up, each with its reason. Waiting for them makes no sense.
	Failed []string
	// Seen are the objects to watch for what custom checks wait for, without those that were given. New objects that a
	// label selector would select are not among them, nor can they be: nobody knows their names.
	Seen []watch.Seen
}

// Object is one of the deploy item's own Target to judge.
type Object struct {
	// Live is the object as the API server returned it.
	Live *unstructured.Unstructured
	// Wanted is its manifest, and what the deploy item patches afterwards.
	Wanted []map[string]any
}

// Run judges objects, and those that the custom checks name. done are those, as their manifests have them, that are
// done and gone: they meet every check. All checks are made even if some cannot be: their errors are returned at once,
// explained for their targets, together with the verdict of the others. lookup is asked for the own Target, too, with
// the empty name. asOf is for Client.Mapping.
func (c Checks) Run(
	ctx context.Context, objects []Object, done []*unstructured.Unstructured, lookup target.Lookup, asOf time.Time,
) (Verdict, error) {
	live := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		live = append(live, o.Live)
	}
	r := reader.New(lookup, live, asOf)
	var v Verdict
	if !c.disableDefault {
		for _, o := range objects {
			if err := ctx.Err(); err != nil {
				return v, err
			}
			v.add(o.Live, judge(o, func() (bool, string) { return bindsLate(ctx, r, o.Live) }))
		}
	}
	var errs []error
	for _, check := range c.custom {
		if err := check.run(ctx, r, done, &v); err != nil {
			errs = append(errs, fmt.Errorf("readiness check %q: %w", check.name, err))
		}
		if err := ctx.Err(); err != nil {
			return v, err
		}
	}
	return v, target.Collect(errs)
}

// ByKind reports whether objects are judged by their kinds.
func (c Checks) ByKind() bool { return !c.disableDefault }

// Judge returns what an object that is no volume claim lacks to be ready by its kind, and whether it has given up.
func Judge(o Object) (missing string, gaveUp bool) {
	s := judge(o, func() (bool, string) { return false, "" })
	if s.phase == ready {
		return "", false
	}
	return object.Cut(s.message, maxMessage), s.phase == failed
}

func (v *Verdict) add(o *unstructured.Unstructured, s state) {
	text := fmt.Sprintf("%s: %s", object.KeyOf(o), object.Cut(s.message, maxMessage))
	switch s.phase {
	case waiting:
		v.Waiting = append(v.Waiting, text)
	case failed:
		v.Failed = append(v.Failed, text)
	case ready:
	}
}

const (
	// maxMessage is how many bytes of what controllers say about an object get into a message.
	maxMessage = 500
	// maxValue is how many bytes of a value get into a message.
	maxValue = 100
)
