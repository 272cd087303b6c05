package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
)

func TestServers(t *testing.T) {
	t.Parallel()
	selector := fields{"app": "a"}
	more := fields{"app": "a", "more": "b"}
	pod := planned(of("v1", "Pod", fields{"metadata": fields{"labels": more}}), "ns", "pod")
	template := fields{"template": fields{"metadata": fields{"labels": more}}}
	job := planned(of("batch/v1", "Job", fields{"spec": template}), "ns", "job")
	api := planned(of("apiregistration.k8s.io/v1", "APIService", fields{"spec": calling("s")}), "", "api")
	far := deployment("far", more)
	far.Key.Namespace = "elsewhere"
	all := []*desired.Object{
		service("s", selector), deployment("d", more), deployment("other", fields{"app": "b"}), pod, job, far,
		service("empty", nil),
	}
	for name, c := range map[string]struct {
		of   *desired.Object
		want []string
	}{
		"webhooks":            {webhooks("s"), []string{"s", "d", "pod"}},
		"no selector":         {webhooks("empty"), []string{"empty"}},
		"of nobody here":      {webhooks("unknown"), nil},
		"definition":          {definition("Webhook", "s"), []string{"s", "d", "pod"}},
		"webhook not used":    {definition("None", "s"), nil},
		"served by a Service": {api, []string{"s", "d", "pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var applied []Applied
			for _, i := range all {
				applied = append(applied, Applied{Object: i})
			}
			var got []string
			for _, a := range servers(c.of.Desired, applied) {
				got = append(got, a.Key.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Rule (manifest.md#order): A definition with a new version does not wait for its server.
func TestBringsVersion(t *testing.T) {
	t.Parallel()
	one, two := definition("Webhook", "s", "v1").Desired, definition("Webhook", "s", "v1", "v2").Desired
	for name, c := range map[string]struct {
		wanted, live *unstructured.Unstructured
		want         bool
	}{
		"new": {one, nil, true}, "one more": {two, one, true},
		"the same": {two, two, false}, "one less": {one, two, false},
	} {
		if got := bringsVersion(c.wanted, c.live); got != c.want {
			t.Errorf("%s: expected %t, but found %t", name, c.want, got)
		}
	}
}
