package apply_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// TestManyObjectsAreListed: what is done about objects does not depend on how they are read.
func TestManyObjectsAreListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		count  int
		before func(*world)
		want   string
	}{
		"few":   {"a list is no better than three requests", 3, nil, "GET GET GET"},
		"many":  {"one request shows them all", 4, nil, "GET"},
		"pages": {"a list that is cut is read to its end", 501, nil, "GET GET"},
		"one was changed": {"only that one is written", 4, func(w *world) {
			w.Patch(configMaps, "a-0", `{"data":{"key":"other"}}`)
		}, "GET PUT"},
		"one has lost its label": {"it is not in the list, but is there", 4, func(w *world) {
			w.Patch(configMaps, "a-0", `{"metadata":{"labels":{"`+owner.Label+`":null}}}`)
		}, "GET GET PUT"},
		"one is gone": {"it is not in the list, and is not there", 4, func(w *world) {
			w.Delete(configMaps, "a-0")
		}, "GET GET POST"},
		"lists are forbidden": {"the objects can be read one by one", 4, func(w *world) {
			w.forbid("", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/configmaps") })
		}, "GET GET GET GET GET"},
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
			w.mustRequest(strings.Fields(c.want)...)
			w.Requests.Undisturbed()
			w.mustHave("a-0", fields{"key": "value"})
		})
	}
}
