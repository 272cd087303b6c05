package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
)

func service(name string, selector fields) *desired.Object {
	return planned(of("v1", "Service", fields{"spec": fields{"selector": selector}}), "ns", name)
}

func deployment(name string, podLabels fields) *desired.Object {
	template := fields{"metadata": fields{"labels": podLabels}}
	return planned(of("apps/v1", "Deployment", fields{"spec": fields{"template": template}}), "ns", name)
}

func calling(name string) fields {
	return fields{"service": fields{"namespace": "ns", "name": name}}
}

func webhooks(service string) *desired.Object {
	return planned(of("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", fields{
		"webhooks": []any{fields{"clientConfig": fields{"url": "https://x"}}, fields{"clientConfig": calling(service)}},
	}), "", "hook")
}

// definition returns that of the kind Lamp.
func definition(strategy, service string, versions ...string) *desired.Object {
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
		items  []*desired.Object
		want   [][]string
	}{
		// Rule (manifest.md#order): Webhook configurations, APIServices and bindings of admission policies come last.
		"callers": {
			reason: "what needs a server or parameters comes last",
			items:  []*desired.Object{webhooks("s"), api, binding, lamp, role, service("s", nil)},
			want:   [][]string{nil, {"role"}, {"lamp", "s"}, nil, nil, {"hook", "v1.example.com", "binding"}},
		},
		// Rule (manifest.md#order): A CustomResourceDefinition comes after its conversion webhook's Service, its
		// resources after it.
		"converted here": {
			reason: "the definition comes after its server, and its resources after the definition",
			items:  []*desired.Object{lamp, definition("Webhook", "s", "v1"), service("s", nil), role},
			want:   [][]string{nil, {"role"}, {"s"}, {"lamps"}, {"lamp"}, nil},
		},
		"converted elsewhere": {
			reason: "nothing of the plan answers",
			items:  []*desired.Object{lamp, definition("Webhook", "other", "v1"), service("s", nil)},
			want:   [][]string{{"lamps"}, nil, {"lamp", "s"}, nil, nil, nil},
		},
		"not converted": {
			reason: "a webhook that is not used is not called",
			items:  []*desired.Object{lamp, definition("None", "s", "v1"), service("s", nil)},
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
