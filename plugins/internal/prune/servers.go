package prune

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// callers returns the groups before the default ones. Configurations of webhooks and bindings of admission policies
// are first: when their server or parameters are gone, the deletion of other objects may be refused. Next are the
// resources served by APIServices or converted by webhooks, and then those APIServices and definitions, while their
// servers run: the end of a definition has all its resources converted.
func (d *deletion) callers(ctx context.Context) []group {
	if len(d.Groups.list) > 0 {
		return nil
	}
	served, converted := map[string]bool{}, map[schema.GroupKind]bool{}
	definitions := map[object.Key]bool{}
	keys := make([]object.Key, 0, len(d.Entries))
	for _, entry := range d.Entries {
		keys = append(keys, object.KeyOfReference(entry.Resource))
	}
	for i, key := range keys {
		switch {
		case object.IsAPIService(key.Group, key.Kind):
			_, group, _ := strings.Cut(key.Name, ".") // its name consists of the version and the group
			served[group] = true
		case object.IsCRD(key.Group, key.Kind) && slices.ContainsFunc(keys, isService):
			live := d.get(ctx, d.Entries[i])
			here := func(service object.Key) bool { return slices.Contains(keys, service) }
			if live != nil && slices.ContainsFunc(objects.Called(live), here) {
				definitions[key] = true
				converted[objects.DefinedKind(live)] = true
			}
		}
	}
	return []group{
		{only: func(k object.Key) bool { return object.Intercepts(k.Group, k.Kind) }},
		{only: func(k object.Key) bool {
			return served[k.Group] || converted[schema.GroupKind{Group: k.Group, Kind: k.Kind}]
		}},
		{only: func(k object.Key) bool { return object.IsAPIService(k.Group, k.Kind) || definitions[k] }},
	}
}

func isService(k object.Key) bool { return k.Group == "" && k.Kind == "Service" }

// get returns the object of an entry; nil if it cannot be read. The same error shows again at its deletion.
func (d *deletion) get(ctx context.Context, e managedresource.ManagedResourceStatus) *unstructured.Unstructured {
	mapping, err := d.client.MappingInAnyVersion(ctx, object.GVK(e.Resource.APIVersion, e.Resource.Kind), d.AsOf)
	if err != nil {
		return nil
	}
	live, err := d.client.Objects(mapping, e.Resource.Namespace).Get(ctx, e.Resource.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return live
}

// failedWebhook finds the name of the webhook in the API server's message about one that does not answer. The details
// of the error do not have it.
var failedWebhook = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

// IsBlocked reports whether an error is about a webhook that does not answer.
func IsBlocked(err error) bool { return err != nil && failedWebhook.MatchString(err.Error()) }

// unblock looks among the entries for the configurations of the webhooks that do not answer and thus prevent a
// deletion. It deletes those of later groups, and names all in the failures.
func (d *deletion) unblock(ctx context.Context, failures []failure, later []step) []failure {
	var configurations []*unstructured.Unstructured
	read := false
	for i, f := range failures {
		found := failedWebhook.FindStringSubmatch(f.err.Error())
		if found == nil {
			continue
		}
		if !read {
			configurations, read = d.webhooks(ctx), true
		}
		for _, c := range configurations {
			if hasWebhook(c, found[1]) {
				failures[i].err = d.unblockFrom(ctx, object.KeyOf(c), later, f.err)
			}
		}
	}
	return failures
}

func (d *deletion) webhooks(ctx context.Context) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, entry := range d.Entries {
		if key := object.KeyOfReference(entry.Resource); !object.Intercepts(key.Group, key.Kind) {
			continue
		}
		if live := d.get(ctx, entry); live != nil {
			found = append(found, live)
		}
	}
	return found
}

func hasWebhook(configuration *unstructured.Unstructured, name string) bool {
	webhooks := object.Maps(configuration.Object, "webhooks")
	return slices.ContainsFunc(webhooks, func(w map[string]any) bool { return w["name"] == name })
}

// unblockFrom deletes the configuration of a webhook in the way if a later group has it, and returns the failure with
// the configuration and its fate.
func (d *deletion) unblockFrom(ctx context.Context, configuration object.Key, later []step, failure error) error {
	for _, s := range later {
		i := slices.IndexFunc(s.items, func(it item) bool { return it.key == configuration })
		if i < 0 {
			continue
		}
		switch o := s.items[i].remove(ctx, d, nil); o.state {
		case stateFailed:
			return fmt.Errorf("%w; the webhook belongs to %s of this deploy item, and deleting it fails: %w",
				failure, configuration, target.Explain(d.client.Host, o.err))
		case stateGone, stateWaiting:
			return fmt.Errorf("%w; the webhook belonged to %s of this deploy item, deleted just now",
				failure, configuration)
		case stateLeft: // see below
		}
	}
	return fmt.Errorf("%w; the webhook belongs to %s of this deploy item: delete it, or let a deletion group take it",
		failure, configuration)
}
