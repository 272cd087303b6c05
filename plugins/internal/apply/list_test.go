package apply_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestManyObjectsAreListed: what is done about objects does not depend on how they are read.
func TestManyObjectsAreListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		count  int
		before func(*world)
		want   []string
	}{
		"few":  {reason: "a list is no better than three requests", count: 3, want: []string{"GET", "GET", "GET"}},
		"many": {reason: "one request shows them all", count: 4, want: []string{"GET"}},
		"pages": {
			reason: "a list that is cut is read to its end", count: 501, want: []string{"GET", "GET"},
		},
		"one was changed": {
			reason: "only that one is written", count: 4, want: []string{"GET", "PUT"},
			before: func(w *world) { w.Patch(configMaps, "a-0", `{"data":{"key":"other"}}`) },
		},
		"one has lost its label": {
			reason: "it is not in the list, but is there", count: 4, want: []string{"GET", "GET", "PUT"},
			before: func(w *world) { w.Patch(configMaps, "a-0", `{"metadata":{"labels":{"`+owner.Label+`":null}}}`) },
		},
		"one is gone": {
			reason: "it is not in the list, and is not there", count: 4, want: []string{"GET", "GET", "POST"},
			before: func(w *world) { w.Delete(configMaps, "a-0") },
		},
		"lists are forbidden": {
			reason: "the objects can be read one by one", count: 4, want: []string{"GET", "GET", "GET", "GET", "GET"},
			before: func(w *world) {
				w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
					if !strings.HasSuffix(r.URL.Path, "/configmaps") {
						return nil, nil
					}
					return plugintest.Forbidden(r, ""), nil
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var manifests []desired.Manifest
			for i := range c.count {
				manifests = append(manifests, manifest(w.ConfigMap(fmt.Sprintf("a-%d", i), fields{"key": "value"})))
			}
			w.mustRun(manifests...)
			if c.before != nil {
				c.before(w)
			}
			w.Requests.Verbs()
			if result := w.mustRun(manifests...); len(result.Applied) != c.count {
				t.Errorf("%s: expected %d applied objects, but found %d", c.reason, c.count, len(result.Applied))
			}
			w.mustRequest(c.want...)
			w.Requests.Undisturbed()
			if data := dataOf(w.MustGet(configMaps, "a-0")); data["key"] != "value" {
				t.Errorf("%s: expected the object as its manifest says, but found %v", c.reason, data)
			}
		})
	}
}
