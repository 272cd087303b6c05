package prune_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestDeleteAllResourcesOnAnotherTarget: the policy of a managed object counts on the own cluster, by whatever name.
// Rule (manifest.md#deletion): `deleteAllResources` works on another Target.
func TestDeleteAllResourcesOnAnotherTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unknown := errors.New("there is no Target of this name")
	byAnotherName := rest.CopyConfig(plugintest.Config())
	byAnotherName.Host = strings.Replace(byAnotherName.Host, "127.0.0.1", "localhost", 1)
	clients := map[string]*target.Client{"alias": w.Client(plugintest.Config()), "other": w.Client(byAnotherName)}
	w.lookup = func(_ context.Context, name string) (*target.Client, error) {
		if client := clients[name]; client != nil {
			return client, nil
		}
		return nil, unknown
	}
	kept := w.create("ConfigMap", "kept", "")
	kept.Policy = managedresource.PolicyKeep
	result, err := w.run(w.deletion(all("ConfigMap", ", targetName: missing"), kept))
	const at = "deletionGroups[0].customResourceGroup.targetName"
	if !errors.Is(err, unknown) || !strings.Contains(err.Error(), at) || len(result.Left) > 0 {
		t.Errorf("expected an error about the Target, but found %v and %+v", err, result)
	}
	w.mustFinish(w.deletion(all("ConfigMap", ", targetName: alias"), kept))
	w.mustBe("there", kept)
	w.mustFinish(w.deletion(all("ConfigMap", ", targetName: other"), kept))
	w.mustBe("gone", kept)
}

// TestManyObjects: a call takes a page of the objects, and shows the first few.
// Rule (manifest.md#deletion): The condition of a deletion shows the remaining objects.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count, parallel = 703, 8
	managed := w.create("ClusterRole", "NS-managed", "")
	var creators sync.WaitGroup
	for first := range parallel {
		creators.Go(func() {
			for i := first; i < count; i += parallel {
				w.create("ConfigMap", fmt.Sprint("a", i), "metadata: {finalizers: ["+hold+"]}")
			}
		})
	}
	creators.Wait()
	groups := all("configmaps", "")
	const more = "more objects of deletionGroups[0].customResourceGroup"
	changes := (&scenario{world: w, groups: groups, managed: []string{""}, entries: map[string]*entry{"": managed}}).diff()
	if len(changes) != 502 || !strings.HasPrefix(changes[500], "delete "+more+": ") {
		t.Errorf("expected a page of the objects and a sign of others, but found %d changes", len(changes))
	}
	for _, call := range []struct {
		deletions int
		rest      string
	}{{500, "at least 490 " + more}, {count - 500, "693 " + more}} {
		w.requested()
		result := w.mustRun(w.deletion(groups, managed))
		if sent := strings.Count(strings.Join(w.requested(), " "), http.MethodDelete); sent != call.deletions {
			t.Errorf("expected %d deletions, but found %d", call.deletions, sent)
		}
		if len(result.Waiting) != 11 || result.Waiting[10] != call.rest || len(result.Seen) != 10 {
			t.Errorf("expected ten objects and %q, but found %q", call.rest, result.Waiting)
		}
	}
	force := all("configmaps", ", forceDelete: true")
	if result := w.mustRun(w.deletion(force, managed)); len(result.Waiting) == 0 {
		t.Error("expected that not all finalizers are removed in one call")
	}
	w.mustFinish(w.deletion(force, managed))
	if names := w.Names(plugintest.ConfigMaps, ""); len(names) > 0 {
		t.Errorf("expected all objects to be gone, but found %d", len(names))
	}
}

// TestKindGoesWhileAllOfItAreDeleted: the client has known the kind.
func TestKindGoesWhileAllOfItAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition := w.define("Thing", "")
	w.create("Thing", "a", "")
	managed := w.held(w.create("ConfigMap", "managed", ""))
	const groups = `[{customResourceGroup: {deleteAllResources: true, resources: [
    {apiVersion: NS.example.org/v1, kind: thing}, {apiVersion: v1, kind: configmaps, namespaces: [NS]}]}}]`
	w.mustRun(w.deletion(groups, managed))
	w.remove(definition)
	w.release(managed)
	w.Eventually("the deletion to be complete", func() bool {
		result, err := w.run(w.deletion(groups, managed))
		return err == nil && len(result.Waiting) == 0
	})
}

// TestDiscoveryIsNoProof: an API server may not list a kind because it has just started, or refuse the list.
// Rule (manifest.md#deletion): A kind missing in the discovery is no proof of the end of its objects.
func TestDiscoveryIsNoProof(t *testing.T) {
	t.Parallel()
	empty := http.Response{StatusCode: http.StatusOK, Header: http.Header{
		"Content-Type": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
	}}
	const noGroups = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}`
	for name, c := range map[string]struct {
		answer func(r *http.Request) *http.Response
		all    bool // the objects are not managed, but those of a group that deletes all
	}{
		"group is missing":       {nil, false},
		"group that deletes all": {nil, true},
		"refused":                {func(r *http.Request) *http.Response { return plugintest.Forbidden(r, "no") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.define("Relic", "")
			relic, groups := w.create("Relic", "data", ""), ""
			managed := relic
			if c.all {
				managed = w.create("ConfigMap", "managed", "")
				groups = `[{customResourceGroup: {deleteAllResources: true, resources: [
    {apiVersion: NS.example.org/v1, kind: Relic}, {apiVersion: v1, kind: ConfigMap, namespaces: [NS]}]}}]`
			}
			var once sync.Once
			targets := target.NewCache("test", target.WrapTransport(func(next http.RoundTripper) http.RoundTripper {
				return plugintest.RoundTripper(func(r *http.Request) (answer *http.Response, err error) {
					if r.URL.Path == "/apis" {
						once.Do(func() {
							if c.answer != nil {
								answer = c.answer(r) //nolint:bodyclose // the client closes it
								return
							}
							first := empty
							first.Request, first.Body = r, io.NopCloser(strings.NewReader(noGroups))
							answer = &first
						})
					}
					if answer != nil {
						return answer, nil
					}
					return next.RoundTrip(r)
				})
			}))
			var err error
			if w.client, err = targets.Get(w.Kubeconfig(plugintest.Config())); err != nil {
				t.Fatal(err)
			}
			first, err := w.run(w.deletion(groups, managed))
			if told := err != nil || len(first.Waiting) == 1; !told || len(first.Gone) > 0 && !c.all {
				t.Errorf("expected the deletion to wait, but found %+v, error %v", first, err)
			}
			w.mustFinish(w.deletion(groups, managed))
			w.mustBe("gone", relic)
		})
	}
}
