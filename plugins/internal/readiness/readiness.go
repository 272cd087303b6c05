// Package readiness reports whether objects are ready: by their kinds, and by checks of values written by users.
//
// # By kind
//
// The rules are those of kstatus, with corrections for waiting users:
//
//   - Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet: all wanted replicas are up to date and
//     available, and their controller has seen the last change. A Deployment paused by its manifest is ready once it
//     was seen: it waits for its user. One paused by another client waits for its missing replicas. With the update
//     strategy OnDelete replicas need not be up to date, since users delete the old ones at any time. A Deployment
//     after its progress deadline has failed.
//   - Pod: it is Ready, or has completed. It has failed if its phase is Failed. A Pod with repeated crashes or
//     without a node is waited for: the cause may go away.
//   - Job: it is complete, or its manifest suspends it. It has failed if its condition Failed is True.
//   - CustomResourceDefinition: it is established. It has failed if its names are taken.
//   - PersistentVolumeClaim: it is bound. If its StorageClass binds it for its first consumer (WaitForFirstConsumer),
//     it is ready without a Pod asking for it; with such a Pod, both are waited for together. It has failed if it has
//     lost its volume.
//   - Service: one of type LoadBalancer has an ingress or external IPs, all others are ready.
//   - any other: none of the conditions Ready, Reconciling and Stalled contradicts, nor does one of them or
//     observedGeneration belong to an older generation. Stalled is a failure. An object without a status is ready at
//     once.
//
// An object under deletion is waited for, whatever its kind. An object gone after its completion, as by IsComplete
// and NeedNotStay, is ready.
//
// # Custom checks
//
// A custom check names objects, or selects those of a kind by labels in all namespaces. It waits for a missing
// object, and for the first one with the labels. Each object must meet all requirements; see ParseChecks.
package readiness

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// Checks are validated readiness checks; see ParseChecks. The zero value has only the checks by kind.
type Checks struct {
	disableDefault bool
	custom         []check
}

// Run judges the given objects, and those named by the custom checks. done are the manifests of objects gone after
// their completion: they meet every check. If some checks are impossible, all others are still made: the errors are
// returned at once, explained for their targets, together with the verdict of the others. lookup is also called for
// the own Target, with the empty name. asOf is for Client.Mapping.
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

// Judge returns the reason why an object other than a volume claim is not ready by its kind, and whether it has
// failed.
func Judge(o Object) (missing string, gaveUp bool) {
	s := judge(o, func() (bool, string) { return false, "" })
	if s.phase == ready {
		return "", false
	}
	return object.Cut(s.message, maxMessage), s.phase == failed
}
