package objectjob

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonNoStatus is the reason of the event about a deploy item with deployed objects but without provider status.
const ReasonNoStatus = "NoProviderStatus"

// maxLabelled bounds the listed objects of a kind with the label of a deploy item.
const maxLabelled = 500

// tellUnrecorded records an event if the first job of an item finds objects already applied by the item, as after a
// restore without its status: its other deployed objects are unknown then. before is the inventory at the start of
// the call.
func (j *Job) tellUnrecorded(ctx context.Context, plan *apply.Plan, before *Inventory, applied []apply.Applied) {
	known := slices.IndexFunc(applied, func(a apply.Applied) bool {
		entry, _ := before.Get(a.Key)
		return a.Recognized && entry.Resource.UID == "" && wasBefore(j.Request.DeployItem, a.Live)
	})
	if known >= 0 {
		j.Request.Warning(ReasonNoStatus, fmt.Sprintf("the deploy item has had no provider status, "+
			"but has deployed %s before; %s", applied[known].Key, j.unrecorded(ctx, plan)))
	}
}

// wasBefore reports whether an object of a deploy item is older than all records of the item. An object created by an
// interrupted call of the first job, before it was noted, is not.
func wasBefore(item *landscaper.DeployItem, o metav1.Object) bool {
	status, created := item.Status, o.GetCreationTimestamp()
	return status.ProviderStatus == nil || status.JobIDFinished == "" && status.TransitionTimes != nil &&
		!status.TransitionTimes.InitTime.IsZero() && created.Time.Before(status.TransitionTimes.InitTime.Time)
}

// unrecorded names the objects with the label of the deploy item outside a plan, as far as they are of its kinds, and
// the command to find the rest.
func (j *Job) unrecorded(ctx context.Context, plan *apply.Plan) string {
	var kinds []kindOf
	for _, i := range plan.Items() {
		kind := kindOf{schema.GroupKind{Group: i.Key.Group, Kind: i.Key.Kind}, i.Mapping}
		if !slices.ContainsFunc(kinds, func(k kindOf) bool { return k.kind == kind.kind }) {
			kinds = append(kinds, kind)
		}
	}
	type result struct {
		objects []metav1.PartialObjectMetadata
		err     error
	}
	options := metav1.ListOptions{LabelSelector: j.Owner.Selector().String(), Limit: maxLabelled}
	planned := plan.Keys()
	var others, unread []string
	for i, found := range objects.Each(kinds, func(k kindOf) result {
		list, err := j.Client.Metadata(k.mapping, "").List(ctx, options)
		switch {
		case apierrors.IsNotFound(err): // the kind is not served yet
			return result{}
		case err != nil:
			return result{err: err}
		default:
			return result{objects: list.Items}
		}
	}) {
		kind := kinds[i].kind
		if found.err != nil {
			unread = append(unread, kind.String())
		}
		for _, o := range found.objects {
			key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: o.Namespace, Name: o.Name}
			// An object of a controller, such as an EndpointSlice, has the labels of its owner, and goes with it.
			if !planned[key] && metav1.GetControllerOf(&o) == nil && j.Owner.Of(&o) == owner.Ours {
				others = append(others, key.String())
			}
		}
	}
	return describeUnrecorded(others, unread, j.Request.DeployItem)
}

// kindOf is a kind with its mapping.
type kindOf struct {
	kind    schema.GroupKind
	mapping target.Mapping
}

func describeUnrecorded(others, unread []string, item *landscaper.DeployItem) string {
	text := ""
	if len(others) > 0 {
		text = "these objects have its label but are not in its manifests; delete the unneeded ones: " +
			object.Enumerate(others, ", ", job.MaxListed) + "; "
	}
	if len(unread) > 0 {
		text += "objects of these kinds cannot be listed: " + object.Enumerate(unread, ", ", job.MaxListed) + "; "
	}
	return text + ListUnrecorded(item)
}

// ListUnrecorded returns the instruction for listing the deployed objects of a deploy item.
func ListUnrecorded(item *landscaper.DeployItem) string {
	label := owner.Owner{Namespace: item.Namespace, Name: item.Name}.Selector()
	return fmt.Sprintf("list its other objects with kubectl get KIND -A -l %s", label)
}
