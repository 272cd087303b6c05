package target

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What defines kinds, where every API server of today has it.
var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// Recorded is an object that is known to have existed. The zero value stands for any of its kind.
type Recorded struct{ Namespace, Name string }

// Doubt returns why a kind that Mapping does not find, and its objects, may exist all the same; empty if there is
// proof that they do not. A discovery answer is no proof: that of an API server which has just started lacks the kinds
// of CustomResourceDefinitions for some seconds, one of several API servers may lag behind, and without the right to
// read /apis only the core group is left of it.
//
// There is proof if no CustomResourceDefinition defines the kind and no APIService of its group is missing from the
// discovery: both are read from the store, which a restart does not change. Credentials that may not list them get
// proof from time: an API server that is ready has the kinds of all definitions, and one that lags behind catches up
// within seconds. So the kind counts as gone if an API server that was ready did not serve it, neither in its discovery
// nor for the recorded object, and does not do so a while later either. What the time began with is kept with the
// client; when it is lost, it begins anew.
func (c *Client) Doubt(ctx context.Context, kind schema.GroupVersionKind, of Recorded) (string, error) {
	definition, err := c.definitionOf(ctx, kind)
	if err == nil && definition != "" {
		return fmt.Sprintf("CustomResourceDefinition %s defines it", definition), nil
	}
	hidden := ""
	if err == nil {
		hidden, err = c.hiddenAPIService(ctx, kind.Group)
	}
	switch {
	case err == nil && hidden == "":
		return "", nil
	case err == nil:
		return fmt.Sprintf("APIService %s is registered for its group", hidden), nil
	case ConcernsAll(ctx, err):
		return "", err
	case apierrors.IsForbidden(err):
		return c.doubtOverTime(ctx, kind, of)
	default:
		return fmt.Sprintf("what defines it cannot be read: %v", err), nil
	}
}

// definitionOf returns the name of the CustomResourceDefinition of a kind; empty if there is none.
func (c *Client) definitionOf(ctx context.Context, kind schema.GroupVersionKind) (string, error) {
	names, err := c.namesOf(ctx, definitions, kind.Group)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		definition, err := c.dynamic.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		for _, field := range []string{"kind", "plural", "singular"} {
			called, _, _ := unstructured.NestedString(definition.Object, "spec", "names", field)
			if called != "" && strings.EqualFold(called, kind.Kind) {
				return name, nil
			}
		}
	}
	return "", nil
}

// hiddenAPIService returns the name of an APIService whose group the discovery lacks; empty if there is none. The
// server of a group that the discovery has, and that could be asked, has said itself that it does not serve the kind.
func (c *Client) hiddenAPIService(ctx context.Context, group string) (string, error) {
	known, err := c.kinds.get(ctx, time.Time{}, c.timeouts.answer, c.discover)
	if err != nil {
		return "", err
	}
	names, err := c.namesOf(ctx, apiServices, group)
	if err != nil || len(names) == 0 || known.groups[group] {
		return "", err
	}
	return names[0], nil
}

// namesOf returns the names of the objects that define something of a group: they end with it.
func (c *Client) namesOf(ctx context.Context, resource schema.GroupVersionResource, group string) ([]string, error) {
	var names []string
	options := metav1.ListOptions{Limit: 500}
	for {
		page, err := c.metadata.Resource(resource).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for _, o := range page.Items {
			if _, of, _ := strings.Cut(o.Name, "."); of == group {
				names = append(names, o.Name)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return names, nil
		}
	}
}

func (c *Client) doubtOverTime(ctx context.Context, kind schema.GroupVersionKind, of Recorded) (string, error) {
	key := absenceKey(kind)
	answer, err := c.ask(ctx, kind, of)
	if err == nil && answer == "" {
		if err = c.discovery.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			answer = fmt.Sprintf("the API server does not say that it is ready: %v", err)
		}
	}
	if ConcernsAll(ctx, err) {
		return "", err
	}
	if answer != "" {
		c.absent.Delete(key)
		return answer, nil
	}
	now := time.Now()
	since, _ := c.absent.LoadOrStore(key, now)
	if first, _ := since.(time.Time); now.Sub(first) >= c.timeouts.absence {
		return "", nil
	}
	return "these credentials may not list CustomResourceDefinitions and APIServices, so the target is asked again for " +
		c.timeouts.absence.String(), nil
}

// ask asks for a recorded object where the API server most likely serves it, and returns what speaks against its being
// gone with its kind.
func (c *Client) ask(ctx context.Context, kind schema.GroupVersionKind, of Recorded) (string, error) {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	objects := c.Objects(Mapping{Resource: resource, Namespaced: of.Namespace != ""}, of.Namespace)
	var err error
	if of.Name == "" {
		_, err = objects.List(ctx, metav1.ListOptions{Limit: 1})
	} else {
		_, err = objects.Get(ctx, of.Name, metav1.GetOptions{})
	}
	switch {
	case err == nil:
		return "the API server serves it as " + resource.String(), nil
	case ConcernsAll(ctx, err):
		return "", err
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return "", nil
	default:
		return fmt.Sprintf("ask for it as %s: %v", resource.GroupResource(), err), nil
	}
}

func absenceKey(kind schema.GroupVersionKind) schema.GroupKind {
	return schema.GroupKind{Group: kind.Group, Kind: strings.ToLower(kind.Kind)}
}
