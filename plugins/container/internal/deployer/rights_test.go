package deployer_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// rights are those that the deployer has used, as "verb resource.group", and the requests that were refused for the
// lack of one.
type rights struct {
	mu      sync.Mutex
	used    map[string]bool
	refused []string
}

func (l *rights) wrap(next http.RoundTripper) http.RoundTripper {
	return plugintest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if response.StatusCode == http.StatusForbidden {
			l.refused = append(l.refused, r.Method+" "+r.URL.Path)
		}
		verb, resource := rightFor(r)
		l.used[verb+" "+resource] = true
		if verb == "patch" && response.StatusCode == http.StatusCreated { // server-side apply
			l.used["create "+resource] = true
		}
		return response, nil
	})
}

// rightFor returns the right that a request needs. A path is /api/VERSION or /apis/GROUP/VERSION, and then
// [/namespaces/NAME]/RESOURCE[/NAME [/SUBRESOURCE]].
func rightFor(r *http.Request) (verb, resource string) {
	group, path := "", strings.Split(r.URL.Path, "/")[2:]
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		group, path = path[0], path[1:]
	}
	path = path[min(1, len(path)):]
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	named := len(path) > 1
	switch {
	case r.URL.Query().Has("watch"):
		verb = "watch"
	case r.Method == http.MethodGet && !named:
		verb = "list"
	case r.Method == http.MethodDelete && !named:
		verb = "deletecollection"
	default:
		verb = map[string]string{
			http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
			http.MethodDelete: "delete",
		}[r.Method]
	}
	if len(path) > 2 {
		return verb, path[0] + "/" + path[2] + "." + group
	}
	return verb, strings.Join(path[:min(1, len(path))], "") + "." + group
}

// documented are the rights of the documentation, as those of rights.
func documented(t *testing.T) (all []string) {
	t.Helper()
	objects, err := testenv.Objects(testenv.ContainerRights)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{}
	for _, o := range objects {
		if o.GetKind() == "Role" && o.GetName() == "container" {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, verb+" "+resource+"."+rule.APIGroups[0])
			}
		}
	}
	return all
}

// TestRights: a deployer that does all that it can do is refused nothing, and uses each right of the documentation:
// one that it does not use is one too many.
// Rule (container.md#for-operators): The deployer needs the rights of the page, and uses each of them.
func TestRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tour()
	await.For(t.Context(), t, plugintest.Patience,
		"each right to be used; take one that is not out of "+testenv.ContainerRights+" and of the chart",
		func(context.Context) (string, error) {
			w.rights.mu.Lock()
			defer w.rights.mu.Unlock()
			unused := slices.DeleteFunc(documented(t), func(right string) bool { return w.rights.used[right] })
			if len(unused) == 0 {
				return "", nil
			}
			return fmt.Sprintf("%q are not used, but %q", unused, slices.Sorted(maps.Keys(w.rights.used))), nil
		})
	w.rights.mu.Lock()
	defer w.rights.mu.Unlock()
	if len(w.rights.refused) > 0 {
		t.Errorf("the rights of %s do not suffice: %q", testenv.ContainerRights, w.rights.refused)
	}
}

// tour has the deployer do what it can do: run, run again with a state, run on a target, watch, and delete.
func (w *world) tour() {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var watching sync.WaitGroup
	watching.Go(func() { _ = w.Plugin.Watch(ctx, func(string, string) {}) }) // it ends with its context
	w.Cleanup(func() { cancel(); watching.Wait() })

	here, there := w.item("count"), w.item("count")
	w.SetConfig(there, w.onTarget("count"))
	for _, end := range []*sdktest.Result{
		w.end(plugintest.Reconcile, here), w.end(plugintest.Reconcile, here), w.end(plugintest.Reconcile, there),
		w.end(plugintest.Delete, here), w.end(plugintest.Delete, there),
	} {
		if end.Succeeded == nil {
			w.Fatalf("expected success, but found: %s", end)
		}
	}
}
