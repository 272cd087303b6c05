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

// The definitions of kinds; every API server of today has them in these versions.
var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// Recorded is an object known to have existed. The zero value stands for any of its kind.
type Recorded struct{ Namespace, Name string }

// Doubt returns why a kind unknown to Mapping, and its objects, may exist all the same; empty if there is proof that
// they do not. A discovery answer is no proof: a just started API server lacks the kinds of CustomResourceDefinitions
// for some seconds, one of several API servers may lag behind, and without the right to read /apis the answer has
// only the core group.
//
// There is proof if no CustomResourceDefinition defines the kind and the discovery has the groups of all its
// APIServices: both are read from the store, unaffected by a restart. Credentials without the right to list them get
// proof from time: a ready API server has the kinds of all definitions, and a lagging one catches up within seconds.
// So the kind counts as gone if a ready API server did not serve it, neither in its discovery nor for the recorded
// object, and does not do so a while later either. The client keeps the start of that time; without it, the time
// starts anew.
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
		return fmt.Sprintf("its definition cannot be read: %v", err), nil
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

// hiddenAPIService returns the name of an APIService whose group the discovery lacks; empty if there is none. If the
// discovery has the group and its server answered, that server itself has denied the kind.
func (c *Client) hiddenAPIService(ctx context.Context, group string) (string, error) {
	known, err := c.kinds.get(ctx, time.Time{}, c.timeouts.Answer, c.discover)
	if err != nil {
		return "", err
	}
	names, err := c.namesOf(ctx, apiServices, group)
	if err != nil || len(names) == 0 || known.groups[group] {
		return "", err
	}
	return names[0], nil
}

// namesOf returns the names of the objects defining something of a group: they end with it.
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
			answer = fmt.Sprintf("the API server is not ready: %v", err)
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

// ask asks for a recorded object at its most likely resource, and returns the evidence against its absence.
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
