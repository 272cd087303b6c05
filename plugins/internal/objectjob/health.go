package objectjob

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// CheckHealth judges the objects of the inventory as they are now. Their manifests are unknown here, so that a pause
// or suspension is no lack, whichever client has set it. group is that of missing objects.
func (j *Job) CheckHealth(ctx context.Context, checks readiness.Checks, group watch.Group) (*sdk.Response, error) {
	read := reader.New(j.Lookup, nil, j.Began)
	var objects []readiness.Object
	var seen []watch.Seen
	var lacks []string
	for _, e := range j.Status.Inventory.Entries() {
		o, err := read.Get(ctx, "", managedresource.TypedObjectReference{
			APIVersion: e.Resource.APIVersion, Kind: e.Resource.Kind,
			Namespace: e.Resource.Namespace, Name: e.Resource.Name,
		})
		switch {
		case err != nil:
			return nil, job.During(StepReadiness, err)
		case o.Live == nil && e.DoneIn != "":
			j.done = append(j.done, named(e.Resource))
			continue
		case o.Live == nil:
			lacks = append(lacks, o.Name+" is gone")
		default:
			objects = append(objects, readiness.Object{Live: o.Live, Wanted: []map[string]any{o.Live.Object}})
		}
		if o.Seen != nil && (o.Live == nil || !completion.NeedNotStay(o.Live)) {
			if o.Live == nil {
				o.Seen.Group = group
			}
			seen = append(seen, *o.Seen)
		}
	}
	verdict, err := checks.Run(ctx, objects, j.done, j.Lookup, j.Began)
	if err != nil {
		return nil, job.During(StepReadiness, err)
	}
	lacks = slices.Concat(lacks, verdict.Failed, verdict.Waiting)
	return j.Health(object.Enumerate(lacks, "; ", job.MaxListed), seen), nil
}

// named is an object of which nothing but the name is known.
func named(r managedresource.ObjectReference) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(r.APIVersion)
	o.SetKind(r.Kind)
	o.SetNamespace(r.Namespace)
	o.SetName(r.Name)
	return o
}
