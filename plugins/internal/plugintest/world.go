// Package plugintest is the ground for the tests of deployers and of their shared packages: a namespace of an API
// server (World), the requests of the code under test to it (Requests), and a host with calls of a deployer (Host). A
// fault may strike at any visible step of a deployer (Fault): so the tests of each deployer can end it at each of its
// writes.
//
// One API server serves all tests of a package and, with those of other packages, all tests of a run: a test owns
// only its namespace. Its objects outside have the name of the namespace in their names, and are deleted by
// DeleteAfter.
package plugintest

import (
	"context"
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// Patience bounds the wait of tests for an expected change, even on slow machines.
const Patience = time.Minute

// cluster is the access of an administrator.
var cluster *rest.Config

// parallel is the number of tests at once: most of their time they wait for the API server.
const parallel = "8"

// Main runs the tests of a package with Worlds, and returns the exit code. TestMain calls it with its *testing.M.
func Main(tests interface{ Run() int }) (code int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel) // it is a flag of package testing, and a number
	}
	return testenv.RunTests(tests, func(c *testenv.ControlPlane) error {
		cluster = c.Config
		return nil
	})
}

// Config is the access of an administrator of the API server, without a limit of requests; nil while fuzzing.
func Config() *rest.Config { return cluster }

// World is a namespace of an API server, its administrator, and the requests of the code under test.
type World struct {
	testing.TB

	// Namespace is the test's own.
	Namespace string
	// Admin is the administrator.
	Admin dynamic.Interface
	// Requests are those of the code under test.
	Requests *Requests
}

// New returns a world with a new namespace.
func New(t testing.TB) *World {
	t.Helper()
	admin, err := dynamic.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	w := &World{TB: t, Admin: admin, Requests: &Requests{}}
	w.Namespace = w.Create(Namespaces, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"},
	}).GetName()
	return w
}

// In returns the same world for a subtest.
func (w *World) In(t testing.TB) *World {
	inner := *w
	inner.TB = t
	return &inner
}

// At returns a world with another, existing namespace.
func (w *World) At(namespace string) *World {
	other := *w
	other.Namespace = namespace
	return &other
}

// Kubeconfig returns a kubeconfig for an access.
func (w *World) Kubeconfig(access *rest.Config) []byte {
	w.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(access)
	if err != nil {
		w.Fatal(err)
	}
	return kubeconfig
}

// Target returns a Target with a kubeconfig for an access.
func (w *World) Target(name string, access *rest.Config) *sdk.Target {
	w.Helper()
	content, err := json.Marshal(map[string]any{"kubeconfig": string(w.Kubeconfig(access))})
	if err != nil {
		w.Fatal(err)
	}
	return &sdk.Target{Name: name, Type: landscaper.KubernetesClusterTargetType, Content: content}
}

// Client returns a new client. Its requests are among those of the code under test.
func (w *World) Client(access *rest.Config) *target.Client {
	w.Helper()
	targets := target.NewCache("test", target.WrapTransport(w.Requests.Wrap))
	client, err := targets.Get(w.Kubeconfig(access))
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// ServiceAccount returns the access of a new ServiceAccount of the namespace with the permissions of the rules, and
// its user name for the API server.
func (w *World) ServiceAccount(name string, rules ...rbacv1.PolicyRule) (access *rest.Config, user string) {
	w.Helper()
	clients, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		w.Fatal(err)
	}
	accounts := clients.CoreV1().ServiceAccounts(w.Namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(w.Context(), account, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	request, err := accounts.CreateToken(w.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.Allow(name, name, rules...)
	access = rest.AnonymousClientConfig(cluster)
	access.BearerToken, access.QPS = request.Status.Token, -1
	return access, userOf(w.Namespace, name)
}

// Allow gives a ServiceAccount of the namespace the permissions of the rules there, by a Role and a RoleBinding of
// the given name. It returns when the API server has taken notice. Without rules it does nothing.
func (w *World) Allow(serviceAccount, name string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	if len(rules) == 0 {
		return
	}
	clients, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		w.Fatal(err)
	}
	rbac := clients.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := rbac.Roles(w.Namespace).Create(w.Context(), role, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	_, err = rbac.RoleBindings(w.Namespace).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.Namespace, Name: serviceAccount}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	first := rules[0]
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: userOf(w.Namespace, serviceAccount),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: w.Namespace, Verb: first.Verbs[0], Group: first.APIGroups[0], Resource: first.Resources[0],
			Name: strings.Join(first.ResourceNames[:min(1, len(first.ResourceNames))], ""),
		},
	}}
	w.Eventually("the API server to take notice of a role", func() bool {
		reviews := clients.AuthorizationV1().SubjectAccessReviews()
		reviewed, err := reviews.Create(w.Context(), review, metav1.CreateOptions{})
		if err != nil {
			w.Fatal(err)
		}
		return reviewed.Status.Allowed
	})
}

func userOf(namespace, serviceAccount string) string {
	return "system:serviceaccount:" + namespace + ":" + serviceAccount
}

// Eventually waits for a condition.
func (w *World) Eventually(what string, done func() bool) {
	w.Helper()
	await.That(w, Patience, what, done)
}

// DeleteAfter deletes a cluster-scoped object, if it exists by then, at the end of the test.
func (w *World) DeleteAfter(resource Resource, name string) {
	w.Cleanup(func() {
		_ = w.Admin.Resource(resource).Delete(context.WithoutCancel(w.Context()), name, metav1.DeleteOptions{})
	})
}

// CRD returns the definition of a kind of namespaced objects without a schema, in the versions v1 and v2. It goes
// with the test. The group has the name of the namespace in it: no other test has it.
func (w *World) CRD(kind string) (definition map[string]any, resource Resource) {
	w.Helper()
	group, singular := w.Namespace+".example.org", strings.ToLower(kind)
	resource = Resource{Group: group, Version: "v1", Resource: singular + "s"}
	version := func(name string, stored bool) any {
		return map[string]any{
			"name": name, "served": true, "storage": stored,
			"schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			},
		}
	}
	name := resource.Resource + "." + group
	w.DeleteAfter(CRDs, name)
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "versions": []any{version("v1", true), version("v2", false)},
			"names": map[string]any{
				"kind": kind, "listKind": kind + "List", "singular": singular, "plural": resource.Resource,
			},
		},
	}, resource
}
