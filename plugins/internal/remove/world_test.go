package remove_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/remove"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cluster is the API server that all tests of this package share.
var cluster *rest.Config

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { cluster = e.Config }))
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	policies    = schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies",
	}
	policyBindings = schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings",
	}
	kinds = map[schema.GroupVersionResource]string{
		configMaps: "ConfigMap", secrets: "Secret", namespaces: "Namespace", roles: "ClusterRole", crds: "CustomResourceDefinition",
		apiServices: "APIService", policies: "ValidatingAdmissionPolicy", policyBindings: "ValidatingAdmissionPolicyBinding",
	}
)

const upstreamLabel = "example.org/deployitem"

// world is what one test plays in: a namespace on the shared cluster, and a client with a log of its requests.
type world struct {
	*testing.T

	admin     dynamic.Interface
	client    *targetclient.Client
	requests  *requestLog
	namespace string
	owner     owner.Owner
	lookup    targetclient.Lookup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, requests: &requestLog{}, namespace: names.next("test")}
	w.admin = dynamic.NewForConfigOrDie(cluster)
	w.client = w.newClient("test")
	w.owner = owner.Owner{Namespace: w.namespace, Name: "item", UpstreamLabel: upstreamLabel}
	w.createNamespace(w.namespace)
	return w
}

// newClient returns a client that remembers nothing. Clients with different users are different targets.
func (w *world) newClient(user string) *targetclient.Client { return w.newClientOf(cluster.Host, user) }

// newClientOf is newClient with the address by which the API server is called.
func (w *world) newClientOf(server, user string) *targetclient.Client {
	w.Helper()
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: user}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: server, CertificateAuthorityData: cluster.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{user: {
			ClientCertificateData: cluster.CertData, ClientKeyData: cluster.KeyData, Token: cluster.BearerToken,
		}},
	})
	if err != nil {
		w.Fatal(err)
	}
	client, err := targetclient.NewCache("pergola/test", targetclient.WrapTransport(w.requests.wrap), targetclient.RateLimit(1000, 1000)).Get(kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// nameSource makes names that are unique on the shared cluster.
type nameSource struct {
	mu   sync.Mutex
	last int
}

var names nameSource

func (s *nameSource) next(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return fmt.Sprintf("%s-%d", prefix, s.last)
}

func (w *world) in(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return w.admin.Resource(resource)
	}
	return w.admin.Resource(resource).Namespace(namespace)
}

func (w *world) createNamespace(name string) entry {
	w.Helper()
	return w.create(namespaces, "", name, nil)
}

// entry is what is managed.
type entry = managedresource.ManagedResourceStatus

// object returns an object of the deploy item with further fields. A kind that is not among kinds is one of these.
func (w *world) object(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		o.Object[key] = value
	}
	o.SetAPIVersion(resource.GroupVersion().String())
	if kind, ok := kinds[resource]; ok {
		o.SetKind(kind)
	}
	o.SetNamespace(namespace)
	o.SetName(name)
	if o.GetLabels() == nil {
		o.SetLabels(w.owner.Labels())
	}
	return o
}

// create creates an object as it is made by object, and returns its entry.
func (w *world) create(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) entry {
	w.Helper()
	created, err := w.in(resource, namespace).Create(w.Context(), w.object(resource, namespace, name, fields), metav1.CreateOptions{})
	if err != nil {
		w.Fatalf("create %s %s: %v", resource.Resource, name, err)
	}
	return entry{Policy: managedresource.PolicyManage, Resource: managedresource.ObjectReference{
		APIVersion: created.GetAPIVersion(), Kind: created.GetKind(), Namespace: namespace, Name: name, UID: created.GetUID(),
	}}
}

func (w *world) configMap(name string, finalizers ...string) entry {
	w.Helper()
	return w.create(configMaps, w.namespace, name, withFinalizers(finalizers...))
}

func (w *world) role(name string, finalizers ...string) entry {
	w.Helper()
	return w.create(roles, "", w.namespace+"-"+name, withFinalizers(finalizers...))
}

func withFinalizers(finalizers ...string) map[string]any {
	list := make([]any, 0, len(finalizers))
	for _, f := range finalizers {
		list = append(list, f)
	}
	return map[string]any{"metadata": map[string]any{"finalizers": list}}
}

const hold = "example.org/hold"

// crd defines a kind and returns the entry and how to get at its objects.
func (w *world) crd(kind string) (entry, schema.GroupVersionResource) {
	w.Helper()
	group, plural := w.namespace+".example.org", strings.ToLower(kind)+"s"
	e := w.create(crds, "", plural+"."+group, map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced",
		"names":    map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "listKind": kind + "List"},
		"versions": []any{version("v1", true), version("v2", false)},
	}})
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
	w.eventually("the kind to be served", func(ctx context.Context) bool {
		_, err := w.in(gvr, w.namespace).List(ctx, metav1.ListOptions{})
		return err == nil
	})
	return e, gvr
}

func version(name string, stored bool) map[string]any {
	return map[string]any{
		"name": name, "served": true, "storage": stored,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
	}
}

func (w *world) eventually(what string, met func(ctx context.Context) bool) {
	w.Helper()
	await.That(w, 30*time.Second, what, func() bool { return met(w.Context()) })
}

// patch changes an object as somebody else.
func (w *world) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) {
	w.Helper()
	_, err := w.in(resource, namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	if err != nil {
		w.Fatalf("patch %s %s: %v", resource.Resource, name, err)
	}
}

// delete deletes an object as somebody else and waits until it is gone.
func (w *world) delete(resource schema.GroupVersionResource, namespace, name string) {
	w.Helper()
	if err := w.in(resource, namespace).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("delete %s %s: %v", resource.Resource, name, err)
	}
	w.eventually(name+" to be gone", func(ctx context.Context) bool {
		_, err := w.in(resource, namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// state tells what has become of an object: "there", "deleted" if it is being deleted, or "gone".
func (w *world) state(e entry) string {
	w.Helper()
	live := w.get(e)
	switch {
	case live == nil:
		return "gone"
	case live.GetDeletionTimestamp() != nil:
		return "deleted"
	default:
		return "there"
	}
}

// get returns the object of an entry; nil if there is none.
func (w *world) get(e entry) *unstructured.Unstructured {
	w.Helper()
	for resource, kind := range kinds {
		if kind != e.Resource.Kind {
			continue
		}
		live, err := w.in(resource, e.Resource.Namespace).Get(w.Context(), e.Resource.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			w.Fatal(err)
		}
		return live
	}
	w.Fatalf("do not know the kind %s", e.Resource.Kind)
	return nil
}

func (w *world) mustBe(state string, entries ...entry) {
	w.Helper()
	for _, e := range entries {
		if got := w.state(e); got != state {
			w.Errorf("expected %s %s to be %s, but it is %s", e.Resource.Kind, e.Resource.Name, state, got)
		}
	}
}

// groups parses groups from JSON; the empty text stands for none.
func (w *world) groups(document string) remove.Groups {
	w.Helper()
	var list []managedresource.DeletionGroup
	if document != "" {
		if err := json.Unmarshal([]byte(document), &list); err != nil {
			w.Fatal(err)
		}
	}
	groups, problems := remove.ParseGroups(list, field.NewPath("deletionGroups"))
	if len(problems) > 0 {
		w.Fatal(problems.ToAggregate())
	}
	return groups
}

func (w *world) deletion(groups string, entries ...entry) remove.Deletion {
	w.Helper()
	return remove.Deletion{
		Groups: w.groups(groups), Entries: entries, Owner: w.owner, Lookup: w.lookup, AsOf: time.Now(),
	}
}

func (w *world) run(d remove.Deletion) (remove.Result, error) {
	w.Helper()
	return remove.Run(w.Context(), w.client, d)
}

// mustRun is like run for a deletion without errors.
func (w *world) mustRun(d remove.Deletion) remove.Result {
	w.Helper()
	result, err := w.run(d)
	if err != nil {
		w.Fatalf("expected no error, but found: %v", err)
	}
	return result
}

// mustFinish is like mustRun for a deletion that is complete with this call.
func (w *world) mustFinish(d remove.Deletion) remove.Result {
	w.Helper()
	result := w.mustRun(d)
	if len(result.Waiting) > 0 {
		w.Fatalf("expected the deletion to be complete, but it waits for %q", result.Waiting)
	}
	if got := len(result.Gone) + len(result.Left); got != len(d.Entries) {
		w.Errorf("expected all %d entries to be gone or left, but found %+v", len(d.Entries), result)
	}
	return result
}

// mustWaitFor checks that there is one text about what is waited for, with these parts.
func (w *world) mustWaitFor(result remove.Result, parts ...string) {
	w.Helper()
	if len(result.Waiting) != 1 {
		w.Fatalf("expected one object to be waited for, but found %q", result.Waiting)
	}
	for _, part := range parts {
		if !strings.Contains(result.Waiting[0], part) {
			w.Errorf("expected to wait for %q, but found %q", part, result.Waiting[0])
		}
	}
}

func gone(result remove.Result) []string {
	var keys []string
	for _, key := range result.Gone {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}

func left(result remove.Result) []string {
	var texts []string
	for _, l := range result.Left {
		texts = append(texts, l.Key.String()+": "+l.Why)
	}
	slices.Sort(texts)
	return texts
}

// requestLog notes the requests about objects, as "METHOD name?query", and can disturb them.
type requestLog struct {
	mu  sync.Mutex
	all []string
	// before is called with each request; an error stands for an answer that never came. May be nil.
	before func(*http.Request) error
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		if len(strings.Split(r.URL.Path, "/")) > 4 {
			l.all = append(l.all, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		}
		before := l.before
		l.mu.Unlock()
		if before != nil {
			if err := before(r); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(r)
	})
}

// take returns the requests since it was called last.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

func (l *requestLog) disturb(before func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = before
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
