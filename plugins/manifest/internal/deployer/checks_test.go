package deployer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var (
	daemonSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
	claims     = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// check is a custom readiness check of ConfigMaps of the test's namespace.
func (w *world) check(requirement object, names ...string) object {
	var selected []any
	for _, name := range names {
		selected = append(selected, object{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": w.namespace})
	}
	return object{"custom": []any{object{"name": "check", "resourceSelector": selected, "requirements": []any{requirement}}}}
}

// TestCustomChecks has each operator wait, and then go on when somebody changes the object, which the item does not manage.
func TestCustomChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	values := func(all ...string) []any {
		var list []any
		for _, v := range all {
			list = append(list, object{"value": v})
		}
		return list
	}
	for name, c := range map[string]struct {
		reason        string
		operator      string
		values        []any
		before, after string // patches of the data
	}{
		"equal":     {reason: "a value that is not there yet is waited for", operator: "=", values: values("done"), before: `{}`, after: `{"state":"done"}`},
		"equals":    {reason: "so is one that is different", operator: "==", values: values("done"), before: `{"state":"begun"}`, after: `{"state":"done"}`},
		"not-equal": {reason: "a value that is not there is not unequal", operator: "!=", values: values("begun"), before: `{}`, after: `{"state":"done"}`},
		"in":        {reason: "one of several", operator: "in", values: values("done", "over"), before: `{"state":"begun"}`, after: `{"state":"over"}`},
		"not-in":    {reason: "none of several", operator: "notin", values: values("begun", "new"), before: `{"state":"new"}`, after: `{"state":"over"}`},
		"exists":    {reason: "any value", operator: "exists", before: `{}`, after: `{"state":""}`},
		"missing":   {reason: "a value that is there does not fulfil it", operator: "!", before: `{"state":"x"}`, after: `{"state":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			w.create(configMaps, w.configMap(name, nil))
			w.patch(configMaps, name, `{"data":`+c.before+`}`)
			requirement := object{"jsonPath": ".data.state", "operator": c.operator, "values": c.values}
			item := w.itemOf(name, with(config(w.configMap(name+"-managed", nil)), "readinessChecks", w.check(requirement, name)))
			w.mustWaitFor(w.reconcile(item), `readiness check "check"`, "ConfigMap "+w.namespace+"/"+name, ".data.state")
			w.patch(configMaps, name, `{"data":`+c.after+`}`)
			if result := w.reconcile(item); result.Succeeded == nil {
				t.Errorf("%s: expected success, but found: %s", c.reason, result)
			}
		})
	}
}

// TestChecksOfManagedObjects judges what the item itself has applied, as it was just read.
func TestChecksOfManagedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	done := object{"jsonPath": ".metadata.annotations.state", "operator": "==", "values": []any{object{"value": "done"}}}
	item := w.item(with(config(w.configMap("a", nil)), "readinessChecks", w.check(done, "a")))
	w.mustWaitFor(w.reconcile(item), "ConfigMap "+w.namespace+"/a")
	w.requests.take()
	// The list of objects must not grow from one look to the next.
	for range 3 {
		w.mustWaitFor(w.reconcile(item), "ConfigMap "+w.namespace+"/a")
		if got := w.requests.take(); len(got) != 1 {
			t.Errorf("expected a look to cost one request, but found %v", got)
		}
	}
	w.patch(configMaps, "a", `{"metadata":{"annotations":{"state":"done"}}}`)
	w.mustSucceed(item)
}

// TestChecksByLabel: all objects with the labels must meet the requirements, and there must be one at least.
func TestChecksByLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Labels are looked for in all namespaces, so that the value has to be the test's own.
	check := object{
		"name": "roses", "labelSelector": object{"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": object{"bed": w.namespace}},
		"requirements": []any{object{"jsonPath": ".data.state", "operator": "==", "values": []any{object{"value": "blooming"}}}},
	}
	item := w.item(with(config(w.configMap("a", nil)), "readinessChecks", object{"custom": []any{check}}))
	w.mustWaitFor(w.reconcile(item), `readiness check "roses"`, "bed="+w.namespace)
	for _, name := range []string{"climbing", "wild"} {
		rose := w.configMap(name, object{"state": "blooming"})
		rose["metadata"].(object)["labels"] = object{"bed": w.namespace}
		w.create(configMaps, rose)
	}
	w.patch(configMaps, "wild", `{"data":{"state":"budding"}}`)
	w.mustWaitFor(w.reconcile(item), "ConfigMap "+w.namespace+"/wild", `"budding"`)
	w.patch(configMaps, "wild", `{"data":{"state":"blooming"}}`)
	w.mustSucceed(item)
}

// TestReadinessByKind: kinds that Landscaper does not check, or checks wrongly. There are no controllers; status says what they would.
func TestReadinessByKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := object{
		"metadata": object{"labels": object{"app": "a"}},
		"spec":     object{"containers": []any{object{"name": "main", "image": "busybox"}}},
	}
	daemonSet := object{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": object{"name": "daemon", "namespace": w.namespace},
		"spec": object{"selector": object{"matchLabels": object{"app": "a"}}, "template": pods},
	}
	running := w.running(nil)
	claim := object{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": "claim", "namespace": w.namespace},
		"spec": object{"accessModes": []any{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1Gi"}}},
	}
	balancer := w.service(nil)
	balancer["spec"].(object)["type"] = "LoadBalancer"
	for name, c := range map[string]struct {
		reason         string
		resource       schema.GroupVersionResource
		object         object
		waiting, ready object // status
	}{
		"daemon": {
			reason: "pods that run are not pods that are available", resource: daemonSets, object: daemonSet,
			waiting: object{
				"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2,
				"numberMisscheduled": 0, "numberReady": 1, "numberAvailable": 1,
			},
			ready: object{"numberReady": 2, "numberAvailable": 2},
		},
		"job": {
			reason: "a Job is ready when it is done", resource: jobs, object: running,
			waiting: object{"active": 1, "startTime": "2026-01-01T00:00:00Z"},
			ready:   jobSucceeded,
		},
		"claim": {
			reason: "a claim is ready when it is bound", resource: claims, object: claim,
			waiting: object{"phase": "Pending"}, ready: object{"phase": "Bound"},
		},
		"service": {
			reason: "a Service is ready when it has its addresses", resource: services, object: balancer,
			waiting: object{}, ready: object{"loadBalancer": object{"ingress": []any{object{"ip": "192.0.2.1"}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			item := w.itemOf(name, config(c.object))
			w.mustWaitFor(w.reconcile(item), "/"+name)
			w.setStatus(c.resource, name, c.waiting)
			w.mustWaitFor(w.reconcile(item), "/"+name)
			w.setStatus(c.resource, name, c.ready)
			if result := w.reconcile(item); result.Succeeded == nil {
				t.Errorf("%s: expected success, but found: %s", c.reason, result)
			}
			w.setConfig(item, with(config(c.object), "readinessChecks", object{"disableDefault": true}))
			w.mustSucceed(item)
		})
	}
}

func (w *world) setStatus(resource schema.GroupVersionResource, name string, status object) {
	w.Helper()
	patch, err := json.Marshal(object{"status": status})
	if err != nil {
		w.Fatal(err)
	}
	w.patch(resource, name, string(patch), "status")
}

// TestFailedJobFailsEarly: what has given up is not waited for.
func TestFailedJobFailsEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running := w.running(nil)
	item := w.item(config(running, w.deployment("web", "nginx")))
	w.mustWaitFor(w.reconcile(item), "Job "+w.namespace+"/job", "Deployment "+w.namespace+"/web")
	w.setStatus(jobs, "job", jobFailed)
	result := w.reconcile(item)
	w.mustFail(result, []landscaper.ErrorCode{landscaper.ErrorNoRetry}, "Readiness", "ObjectFailed", "Job "+w.namespace+"/job", "it has tried often enough")
	if strings.Contains(result.String(), "/web") {
		t.Errorf("expected only what has failed, but found: %s", result)
	}
}
