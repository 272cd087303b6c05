package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// planned returns an object of a plan.
func planned(o *unstructured.Unstructured, namespace, name string) *Item {
	o.SetName(name)
	o.SetNamespace(namespace)
	m := Manifest{Manifest: object.Manifest{Object: o}}
	return newItem(m, target.Mapping{Namespaced: namespace != ""}, false, owner.Owner{})
}

func service(name string, selector fields) *Item {
	return planned(of("v1", "Service", fields{"spec": fields{"selector": selector}}), "ns", name)
}

func deployment(name string, podLabels fields) *Item {
	template := fields{"metadata": fields{"labels": podLabels}}
	return planned(of("apps/v1", "Deployment", fields{"spec": fields{"template": template}}), "ns", name)
}

func calling(name string) fields { return fields{"service": fields{"namespace": "ns", "name": name}} }

func webhooks(service string) *Item {
	return planned(of("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", fields{
		"webhooks": []any{fields{"clientConfig": fields{"url": "https://x"}}, fields{"clientConfig": calling(service)}},
	}), "", "hook")
}

// definition returns that of the kind Lamp.
func definition(strategy, service string, versions ...string) *Item {
	var served []any
	for _, v := range versions {
		served = append(served, fields{"name": v, "served": true})
	}
	return planned(of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"spec": fields{
		"group": "example.org", "names": fields{"kind": "Lamp"}, "versions": served,
		"conversion": fields{"strategy": strategy, "webhook": fields{"clientConfig": calling(service)}},
	}}), "", "lamps")
}

// Rule (manifest.md#order): Definitions converted by a server come after it, and before their resources; its callers
// come last.
func TestOrder(t *testing.T) {
	t.Parallel()
	lamp := planned(of("example.org/v1", "Lamp", nil), "ns", "lamp")
	role := planned(of("rbac.authorization.k8s.io/v1", "ClusterRole", nil), "", "role")
	binding := planned(of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", nil), "", "binding")
	api := planned(of("apiregistration.k8s.io/v1", "APIService", nil), "", "v1.example.com")
	for name, c := range map[string]struct {
		reason string
		items  []*Item
		want   [][]string
	}{
		// Rule (manifest.md#order): Webhook configurations, APIServices and bindings of admission policies come last.
		"callers": {
			reason: "what needs a server or parameters comes last",
			items:  []*Item{webhooks("s"), api, binding, lamp, role, service("s", nil)},
			want:   [][]string{nil, {"role"}, {"lamp", "s"}, nil, nil, {"hook", "v1.example.com", "binding"}},
		},
		// Rule (manifest.md#order): A CustomResourceDefinition comes after its conversion webhook's Service, its
		// resources after it.
		"converted here": {
			reason: "the definition comes after its server, and its resources after the definition",
			items:  []*Item{lamp, definition("Webhook", "s", "v1"), service("s", nil), role},
			want:   [][]string{nil, {"role"}, {"s"}, {"lamps"}, {"lamp"}, nil},
		},
		"converted elsewhere": {
			reason: "nothing of the plan answers",
			items:  []*Item{lamp, definition("Webhook", "other", "v1"), service("s", nil)},
			want:   [][]string{{"lamps"}, nil, {"lamp", "s"}, nil, nil, nil},
		},
		"not converted": {
			reason: "a webhook that is not used is not called",
			items:  []*Item{lamp, definition("None", "s", "v1"), service("s", nil)},
			want:   [][]string{{"lamps"}, nil, {"lamp", "s"}, nil, nil, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make([][]string, stages)
			for stage, items := range order(c.items) {
				for _, i := range items {
					got[stage] = append(got[stage], i.Key.Name)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

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
	all := []*Item{
		service("s", selector), deployment("d", more), deployment("other", fields{"app": "b"}), pod, job, far,
		service("empty", nil),
	}
	for name, c := range map[string]struct {
		of   *Item
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
				applied = append(applied, Applied{Item: i})
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
