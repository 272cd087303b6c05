package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestKillAtEachWrite kills the plugin, and then the host, at each write to the target in turn, before the target gets it or after it has
// carried it out, and checks against a life in which nothing happens that the end is the same and nothing was created twice or forgotten.
func TestKillAtEachWrite(t *testing.T) {
	var undisturbed []lifeStage
	t.Run("undisturbed", func(t *testing.T) { undisturbed = liveThrough(t, nil) })
	if t.Failed() {
		t.FailNow()
	}
	var writes []int
	for _, s := range undisturbed {
		writes = append(writes, s.writes)
	}
	t.Logf("writes of the stages: %v", writes)
	for _, victim := range []string{"plugin", "host"} {
		// Each stage of a life is struck once, at the write of this number.
		for number := 1; number <= slices.Max(writes); number++ {
			t.Run(fmt.Sprintf("%s at write %d", victim, number), func(t *testing.T) {
				b := &blow{victim: victim, number: number, carryOut: (number%2 == 0) == (victim == "host"), writes: writes}
				for i, disturbed := range liveThrough(t, b) {
					if diff := cmp.Diff(undisturbed[i].created, disturbed.created, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("stage %d: how often objects were created: -undisturbed +disturbed:\n%s", i, diff)
					}
					if diff := cmp.Diff(undisturbed[i].objects, disturbed.objects, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("stage %d: objects on the target: -undisturbed +disturbed:\n%s", i, diff)
					}
				}
			})
		}
	}
}

// blow is the end of a process in the middle of a write.
type blow struct {
	victim string
	// number is that of the write since the stage began, from 1.
	number int
	// carryOut says that the target carries the write out all the same.
	carryOut bool
	// writes are those of each stage. One with fewer than number is spared.
	writes []int
}

// lifeStage is what came of a job.
type lifeStage struct {
	// objects are those on the target, by kind and name, as they would be in any namespace.
	objects map[string]any
	created map[string]int
	writes  int
}

// struckLife is that of a deploy item whose Target is behind a proxy.
type struckLife struct {
	*testing.T

	plugins string
	host    *testenv.Host
	proxy   *killingProxy
	item    *v1alpha1.DeployItem
	// namespace is that of the objects.
	namespace string
	blow      *blow
	stages    []lifeStage
}

// liveThrough creates, updates and deletes an item and returns what came of each job. The blow, unless nil, strikes each of them.
func liveThrough(t *testing.T, b *blow) []lifeStage {
	t.Helper()
	own := newNamespace(t)
	l := &struckLife{T: t, plugins: pluginDir(t, "manifest"), proxy: newKillingProxy(t), namespace: newNamespace(t), blow: b}
	createProxiedTarget(t, own, l.proxy)
	l.host = startReadyHost(t, testenv.HostOptions{PluginDir: l.plugins})

	l.item = withTarget(newItem(own, "item", manifestType, l.config(80, configMap(l.namespace, "goes", "1"))), "proxied")
	create(t, l.item)
	l.goThrough(l.waitSucceeded)

	edit(t, l.item, func() {
		l.item.Spec.Config = &runtime.RawExtension{Raw: []byte(l.config(81, configMap(l.namespace, "comes", "1")))}
	})
	l.goThrough(l.waitSucceeded)

	if err := admin.Delete(t.Context(), l.item); err != nil {
		t.Fatal(err)
	}
	l.goThrough(func(string) { waitGone(t, l.item) })
	return l.stages
}

// config is that of an item with eight objects, two of which depend on the port.
func (l *struckLife) config(port int, more string) string {
	group := l.namespace + ".example.org"
	return manifestConfig(
		fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"roses.%[1]s"},"spec":{
			"group":%[1]q,"scope":"Namespaced","names":{"kind":"Rose","plural":"roses","singular":"rose","listKind":"RoseList"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, group),
		fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Rose","metadata":{"name":"climbing","namespace":%q}}`, group, l.namespace),
		fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q}}`, l.namespace),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"secret","namespace":%q},"data":{"key":"MQ=="}}`, l.namespace),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"service","namespace":%q},
			"spec":{"selector":{"app":"none"},"ports":[{"port":%d}]}}`, l.namespace, port),
		configMap(l.namespace, "changes", strconv.Itoa(port)),
		configMap(l.namespace, "stays", "1"),
		more,
	)
}

// goThrough sets a job and survives the blow that may strike it.
func (l *struckLife) goThrough(wait func(jobID string)) {
	l.Helper()
	strikes := l.blow != nil && l.blow.number <= l.blow.writes[len(l.stages)]
	if strikes {
		l.proxy.begin(l.blow.number, l.blow.carryOut, l.kill)
	} else {
		l.proxy.begin(0, false, nil)
	}
	jobID := setJob(l.T, l.item)
	if strikes {
		l.survive()
	}
	wait(jobID)
	created, writes := l.proxy.counts(l.anywhere)
	l.stages = append(l.stages, lifeStage{objects: l.objects(), created: created, writes: writes})
}

func (l *struckLife) waitSucceeded(jobID string) {
	l.Helper()
	if l.item = waitFinished(l.T, l.item, jobID); l.item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		l.Fatalf("expected the job to succeed, but found %s", describe(l.item))
	}
}

// kill kills the victim.
func (l *struckLife) kill() error {
	if l.blow.victim == "host" {
		return l.host.Kill()
	}
	children, err := l.host.Children()
	if err != nil {
		return err
	}
	if len(children["manifest"]) != 1 {
		return fmt.Errorf("expected one plugin to kill, but found %v", children)
	}
	return syscall.Kill(children["manifest"][0], syscall.SIGKILL)
}

// survive waits for the blow, checks that nothing is forgotten at that moment, and lets life go on.
func (l *struckLife) survive() {
	l.Helper()
	l.proxy.waitBlow()
	l.checkNoOrphans()
	l.proxy.goOn()
	if l.blow.victim == "host" {
		l.host = startReadyHost(l.T, testenv.HostOptions{PluginDir: l.plugins})
	}
}

// checkNoOrphans checks that the provider status has each object that is labelled for the item.
func (l *struckLife) checkNoOrphans() {
	l.Helper()
	labelled := l.list(l.labels())
	var status v1alpha2.ProviderStatus
	if document := read(l.T, l.item).Status.ProviderStatus; document != nil {
		if err := json.Unmarshal(document.Raw, &status); err != nil {
			l.Fatal(err)
		}
	}
	var managed []string
	for _, m := range status.ManagedResources {
		managed = append(managed, m.Resource.Kind+" "+m.Resource.Name)
	}
	for _, o := range labelled {
		if name := o.GetKind() + " " + o.GetName(); !slices.Contains(managed, name) {
			l.Errorf("%s is an orphan: the status has only %v", name, managed)
		}
	}
}

func (l *struckLife) labels() client.MatchingLabels {
	return client.MatchingLabels{"pergola.dev/deployitem": l.item.Namespace + "." + l.item.Name}
}

// list returns the objects on the target that a selector selects. A kind that is not served has none.
func (l *struckLife) list(o ...client.ListOption) []unstructured.Unstructured {
	l.Helper()
	var all []unstructured.Unstructured
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "Service"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: l.namespace + ".example.org", Version: "v1", Kind: "Rose"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := admin.List(l.Context(), list, o...)
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			l.Fatalf("list %s: %v", kind.Kind, err)
		}
		all = append(all, list.Items...)
	}
	return all
}

// objects returns those of the item, without what differs between any two.
func (l *struckLife) objects() map[string]any {
	l.Helper()
	objects := map[string]any{}
	for _, o := range l.list(l.labels()) {
		o.SetManagedFields(nil)
		for _, path := range [][]string{
			{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"},
			{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"status"},
		} {
			unstructured.RemoveNestedField(o.Object, path...)
		}
		var anywhere any
		if err := json.Unmarshal([]byte(l.anywhere(string(marshal(l.T, o.Object)))), &anywhere); err != nil {
			l.Fatal(err)
		}
		objects[l.anywhere(o.GetKind()+" "+o.GetName())] = anywhere
	}
	return objects
}

// anywhere replaces the names of the life in a text.
func (l *struckLife) anywhere(text string) string {
	return strings.NewReplacer(l.namespace, "TARGET", l.item.Namespace, "NAMESPACE").Replace(text)
}
