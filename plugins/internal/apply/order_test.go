package apply

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// planned returns an object of a plan.
func planned(document string) *desired.Object {
	o := plugintest.Object(document)
	m := desired.Manifest{Manifest: object.Manifest{Object: o}}
	return desired.New(m, target.Mapping{Namespaced: o.GetNamespace() != ""}, false, owner.Owner{})
}

func service(name, selector string) *desired.Object {
	return planned(`{apiVersion: v1, kind: Service, metadata: {namespace: ns, name: ` + name + `},
		spec: ` + selector + `}`)
}

// called is a reference to a Service.
func called(service string) string { return `{service: {namespace: ns, name: ` + service + `}}` }

func webhooks(service string) *desired.Object {
	return planned(`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration,
		metadata: {name: hook}, webhooks: [{clientConfig: {url: "https://x"}}, {clientConfig: ` + called(service) + `}]}`)
}

func apiService(spec string) *desired.Object {
	return planned(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: api}, spec: ` + spec + `}`)
}

// definition returns that of the kind Lamp with versions, such as "{name: v1, served: true}".
func definition(strategy, service, versions string) *desired.Object {
	return planned(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: lamps}, spec: {
		group: example.org, names: {kind: Lamp}, versions: [` + versions + `],
		conversion: {strategy: ` + strategy + `, webhook: {clientConfig: ` + called(service) + `}}}}`)
}

const v1 = `{name: v1, served: true}`

// Rule (manifest.md#order): Definitions converted by a server come after it, and before their resources; its callers
// come last.
func TestOrder(t *testing.T) {
	t.Parallel()
	lamp := planned(`{apiVersion: example.org/v1, kind: Lamp, metadata: {namespace: ns, name: lamp}}`)
	role := planned(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: role}}`)
	binding := planned(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
		metadata: {name: binding}}`)
	server := service("s", "{}")
	for name, c := range map[string]struct {
		reason string
		items  []*desired.Object
		want   [][]string
	}{
		// Rule (manifest.md#order): Webhook configurations, APIServices and bindings of admission policies come last.
		"callers": {
			"what needs a server or parameters comes last",
			[]*desired.Object{webhooks("s"), apiService("{}"), binding, lamp, role, server},
			[][]string{nil, {"role"}, {"lamp", "s"}, nil, nil, {"hook", "api", "binding"}},
		},
		// Rule (manifest.md#order): A CustomResourceDefinition comes after its conversion webhook's Service, its
		// resources after it.
		"converted here": {
			"the definition comes after its server, and its resources after the definition",
			[]*desired.Object{lamp, definition("Webhook", "s", v1), server, role},
			[][]string{nil, {"role"}, {"s"}, {"lamps"}, {"lamp"}, nil},
		},
		"converted elsewhere": {
			"nothing of the plan answers", []*desired.Object{lamp, definition("Webhook", "other", v1), server},
			[][]string{{"lamps"}, nil, {"lamp", "s"}, nil, nil, nil},
		},
		"not converted": {
			"a webhook that is not used is not called", []*desired.Object{lamp, definition("None", "s", v1), server},
			[][]string{{"lamps"}, nil, {"lamp", "s"}, nil, nil, nil},
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
	workload := func(kind, namespace, name, labels string) *desired.Object {
		return planned(`{` + kind + `, metadata: {namespace: ` + namespace + `, name: ` + name + `},
			spec: {template: {metadata: {labels: ` + labels + `}}}}`)
	}
	const deployment, both = `apiVersion: apps/v1, kind: Deployment`, `{app: a, more: b}`
	var applied []Applied
	for _, i := range []*desired.Object{
		service("s", "{selector: {app: a}}"), workload(deployment, "ns", "d", both),
		workload(deployment, "ns", "other", "{app: b}"), workload(deployment, "elsewhere", "far", both),
		workload(`apiVersion: batch/v1, kind: Job`, "ns", "job", both), service("empty", "{}"),
		planned(`{apiVersion: v1, kind: Pod, metadata: {namespace: ns, name: pod, labels: ` + both + `}}`),
	} {
		applied = append(applied, Applied{Object: i})
	}
	for name, c := range map[string]struct {
		of   *desired.Object
		want []string
	}{
		"webhooks":            {webhooks("s"), []string{"s", "d", "pod"}},
		"no selector":         {webhooks("empty"), []string{"empty"}},
		"of nobody here":      {webhooks("unknown"), nil},
		"definition":          {definition("Webhook", "s", ""), []string{"s", "d", "pod"}},
		"webhook not used":    {definition("None", "s", ""), nil},
		"served by a Service": {apiService(called("s")), []string{"s", "d", "pod"}},
	} {
		var got []string
		for _, a := range servers(c.of.Desired, applied) {
			got = append(got, a.Key.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// Rule (manifest.md#order): A definition with a new version does not wait for its server.
func TestBringsVersion(t *testing.T) {
	t.Parallel()
	one := definition("Webhook", "s", v1).Desired
	two := definition("Webhook", "s", v1+`, {name: v2, served: true}`).Desired
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

// TestEstablished: what is of a kind is applied when its definition is usable, and not at all if its names are taken.
func TestEstablished(t *testing.T) {
	t.Parallel()
	const accepted = `{type: NamesAccepted, status: "True"}`
	for name, c := range map[string]struct {
		conditions string
		usable     bool
		reason     string // of the error
	}{
		"new":         {},
		"accepted":    {conditions: accepted + `, {type: Established, status: "False"}`},
		"established": {conditions: accepted + `, {type: Established, status: "True"}`, usable: true},
		"taken":       {conditions: `{type: NamesAccepted, status: "False"}`, reason: ReasonNamesTaken},
	} {
		missing, err := established(plugintest.Object(`{apiVersion: apiextensions.k8s.io/v1,
			kind: CustomResourceDefinition, status: {conditions: [` + c.conditions + `]}}`))
		var problem *sdk.Error
		if errors.As(err, &problem) != (c.reason != "") || problem != nil && problem.Reason != c.reason {
			t.Errorf("%s: expected the reason %q, but found the error %v", name, c.reason, err)
		}
		if (missing == "" && err == nil) != c.usable {
			t.Errorf("%s: expected it to be usable: %t, but found %q and %v", name, c.usable, missing, err)
		}
	}
	if missing, err := established(service("s", "{}").Desired); missing != "" || err != nil {
		t.Errorf("expected nothing to be missing for another kind, but found %q and %v", missing, err)
	}
}
