package charts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// rights are what a ServiceAccount may do: its rules, by the namespace that they are for, empty for all.
type rights map[string][]rbacv1.PolicyRule

// rightsOf are those of a ServiceAccount by roles and bindings.
func rightsOf(account rbacv1.Subject, all objects) rights {
	found := rights{}
	give := func(subjects []rbacv1.Subject, namespace, kind, role string) {
		if !slices.Contains(subjects, account) {
			return
		}
		key := kind + " " + role
		if kind == "Role" {
			key = kind + " " + namespace + "/" + role
		}
		switch granted := all[key].(type) {
		case *rbacv1.Role:
			found[namespace] = append(found[namespace], granted.Rules...)
		case *rbacv1.ClusterRole:
			found[namespace] = append(found[namespace], granted.Rules...)
		}
	}
	for _, o := range all {
		switch binding := o.(type) {
		case *rbacv1.RoleBinding:
			give(binding.Subjects, binding.Namespace, binding.RoleRef.Kind, binding.RoleRef.Name)
		case *rbacv1.ClusterRoleBinding:
			give(binding.Subjects, "", binding.RoleRef.Kind, binding.RoleRef.Name)
		}
	}
	for _, rules := range found {
		slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int { return slices.Compare(ruleKey(a), ruleKey(b)) })
	}
	return found
}

func ruleKey(r rbacv1.PolicyRule) []string {
	return slices.Concat(r.APIGroups, r.Resources, r.ResourceNames, r.Verbs)
}

// documentedRights are the objects of the pages, with a file for the host.
func documentedRights(t *testing.T, ofHost string) objects {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for _, file := range []string{ofHost, testenv.ContainerRights} {
		documents, err := testenv.Objects(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			created, err := scheme.New(document.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			typed := created.(client.Object)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(document.Object, typed,
				true); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[keyOf(typed, document.GetKind())] = typed
		}
	}
	return all
}

// The chart gives host and container deployer what the pages say that they need, and nothing else.
// Rule (SECURITY.md#authors-of-items): By default the host has no right to tokens for Targets.
func TestRights(t *testing.T) {
	host := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "pergola-system", Name: "pergola"}
	container := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "pergola-pods", Name: "container"}
	want, got := documentedRights(t, testenv.HostRights), mustRender(t, "autoscaling: {enabled: true}", newest)
	for name, account := range map[string]rbacv1.Subject{"host": host, "container deployer": container} {
		wanted := rightsOf(account, want)
		if len(wanted) == 0 {
			t.Errorf("%s: the pages give no rights to %v", name, account)
		}
		if diff := cmp.Diff(wanted, rightsOf(account, got)); diff != "" {
			t.Errorf("%s (-documented +chart):\n%s", name, diff)
		}
	}
	tokens := mustRender(t, "rbac: {targetTokenNamespaces: [shop]}", newest)
	wanted := one[*rbacv1.ClusterRole](t, want, "ClusterRole pergola-target-tokens").Rules
	if diff := cmp.Diff(wanted, rightsOf(host, tokens)["shop"]); diff != "" {
		t.Errorf("tokens of Targets (-documented +chart):\n%s", diff)
	}
}

// A host for some namespaces has rights there alone, but to objects without a namespace.
// Rule (host-configuration.md#namespaces): The host has no rights to objects in namespaces other than its own.
func TestRightsInSomeNamespaces(t *testing.T) {
	host := rbacv1.Subject{Kind: "ServiceAccount", Namespace: releaseNamespace, Name: "pergola"}
	all := mustRender(t, "{namespaces: [shop], autoscaling: {enabled: true}}", newest)
	got, want := rightsOf(host, all), rightsOf(host, documentedRights(t, testenv.ScopedHostRights))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("host (-documented +chart):\n%s", diff)
	}
	if found := all.names("ClusterRole"); !slices.Contains(found, "pergola.pergola-system") {
		t.Errorf("expected rights to objects without a namespace, but found %v", found)
	}
	several := mustRender(t, "{namespaces: [shop, tools], rbac: {targetTokenNamespaces: [tools]}}", newest)
	for _, namespace := range []string{"shop", "tools"} {
		rules := rightsOf(host, several)[namespace]
		tokens := slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "serviceaccounts/token")
		})
		if len(rules) == 0 || tokens != (namespace == "tools") {
			t.Errorf("rights in %s: %v", namespace, rules)
		}
	}
}

// Rule (operators-guide.md#uninstall): A namespace of the host that has gone does not hold up `helm uninstall`, which
// removes the finalizers in the others.
func TestCleanupNeedsNoNamespace(t *testing.T) {
	for key, object := range mustRender(t, "namespaces: [shop, tools]", newest) {
		isHook := object.GetAnnotations()["helm.sh/hook"] != ""
		if in := object.GetNamespace(); isHook && in != "" && in != releaseNamespace {
			t.Errorf("%s: Helm cannot create it when the namespace %s has gone", key, in)
		}
	}
}

// Deployments of single plugins have the same rights, but for the cluster of the Pods, where only the hosts of plugins
// that need it act.
func TestRightsPerPlugin(t *testing.T) {
	of := func(all objects, plugin string) rights {
		return rightsOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: releaseNamespace, Name: "pergola-" + plugin}, all)
	}
	all := mustRender(t, `
deploymentPerPlugin: true
rbac: {targetTokenNamespaces: [shop]}
extraPlugins:
  roses: {mode: inImage, hostCluster: {serviceAccount: {namespace: garden, name: gardener}}}
  lilies: {mode: inImage, hostCluster: {serviceAccount: {namespace: garden, name: gardener}}}
`, newest)
	common := of(all, "manifest")
	for plugin, namespace := range map[string]string{"helm": "", "container": "pergola-pods", "roses": "garden",
		"lilies": "garden"} {
		got := of(all, plugin)
		if namespace != "" {
			if len(got[namespace]) != 1 {
				t.Errorf("%s: expected the right to one token in namespace %s, but found %v", plugin, namespace, got[namespace])
			}
			delete(got, namespace)
		}
		if diff := cmp.Diff(common, got); diff != "" {
			t.Errorf("other rights of %s (-want +got):\n%s", plugin, diff)
		}
	}
	if len(common["shop"]) == 0 || len(common["garden"]) > 0 || len(common["pergola-pods"]) > 0 {
		t.Errorf("expected rights to tokens of Targets alone, but found %v", common)
	}
}

// Without rbac.create there are no rights, neither of the release nor of users.
func TestNoRights(t *testing.T) {
	all := mustRender(t, "rbac: {create: false}", newest)
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		if found := all.names(kind); len(found) > 0 {
			t.Errorf("expected no %s, but found %v", kind, found)
		}
	}
}

// Rights that nobody needs are not given.
// Rule (host-configuration.md#permissions): The host has no unused rights.
func TestLeastRights(t *testing.T) {
	for name, test := range map[string]struct {
		reason, values string
		account        string
		// without are resources that the account may do nothing about, and with such that it may.
		without, with []string
	}{
		"no container deployer": {
			reason: "nothing runs in the cluster of the Pods", values: "plugins: {container: {enabled: false}}",
			account: "pergola",
			without: []string{"serviceaccounts/token"}, with: []string{"deployitems", "leases", "namespaces"},
		},
		"no locks": {
			reason: "there is one replica", values: "locking: {enabled: false}", account: "pergola",
			without: []string{"syncobjects", "leases", "pods"}, with: []string{"deployitems"},
		},
		"no autoscaler": {
			reason: "there are no figures", account: "pergola",
			without: []string{"horizontalpodautoscalers"}, with: []string{"leases"},
		},
		"autoscaler": {
			reason: "its figures are measured", values: "autoscaling: {enabled: true}", account: "pergola",
			with: []string{"horizontalpodautoscalers", "leases"},
		},
		"the host of another plugin": {
			reason: "it is not the container deployer", values: "deploymentPerPlugin: true", account: "pergola-helm",
			without: []string{"serviceaccounts/token"}, with: []string{"deployitems"},
		},
		"the host of the container deployer": {
			reason: "it acts for the deployer", values: "deploymentPerPlugin: true", account: "pergola-container",
			with: []string{"serviceaccounts/token"},
		},
		"some namespaces without locks": {
			reason: "a second host is found by a Lease", values: "{standalone: true, namespaces: [shop, b], " +
				"locking: {enabled: false}, autoscaling: {enabled: false}}", account: "pergola",
			without: []string{"syncobjects", "pods"}, with: []string{"leases"},
		},
		"DeployItems elsewhere": {
			reason: "the rights are those of the kubeconfig", values: "landscaperCluster: {kubeconfig: k}", account: "pergola",
			without: []string{"deployitems", "secrets"}, with: []string{"leases", "serviceaccounts/token", "events"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: releaseNamespace, Name: test.account}
			var granted []string
			for _, rules := range rightsOf(account, mustRender(t, test.values, newest)) {
				for _, rule := range rules {
					granted = append(granted, rule.Resources...)
				}
			}
			for _, resource := range test.without {
				if slices.Contains(granted, resource) {
					t.Errorf("%s: expected no right to %s, but found %v", test.reason, resource, granted)
				}
			}
			for _, resource := range test.with {
				if !slices.Contains(granted, resource) {
					t.Errorf("%s: expected a right to %s, but found %v", test.reason, resource, granted)
				}
			}
		})
	}
}
