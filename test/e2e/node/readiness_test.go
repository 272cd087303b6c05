package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/test/charts"
)

// servePort is where the image of the tests serves. It is not ready before it is released.
const servePort = 8080

// An item waits for its Deployment and says so. Of an update it waits until nothing of the old revision is left,
// although something is available all the time. It goes when its Deployment has gone.
func deploymentLives(w *world) {
	web := func(says string) object {
		return w.manifests(workload("Deployment", "web", object{
			"replicas": 2, "strategy": object{"rollingUpdate": object{"maxSurge": 1, "maxUnavailable": 0}},
		}, "say", says, "--"))
	}
	job := w.put("item", web("one"))
	w.awaitWord("item", "Deployment "+w.namespace+"/web: Available: 0/2")
	w.release(2)
	w.finish("item", job, succeeded)

	job = w.put("item", web("two")) // another revision
	w.awaitWord("item", "Deployment "+w.namespace+"/web: Updated: 1/2")
	w.release(1)
	w.awaitWord("item", "Deployment "+w.namespace+"/web: Pending termination: 1")
	w.release(1)
	w.finish("item", job, succeeded)
	deployment := &appsv1.Deployment{ObjectMeta: w.meta("web")}
	w.get(deployment)
	if got := deployment.Status; got.Replicas != 2 || got.UpdatedReplicas != 2 || got.AvailableReplicas != 2 {
		w.Errorf("expected 2 replicas, updated and available, but found %+v", got)
	}

	w.remove("item")
	w.awaitGone("item")
	if err := admin.Get(w.Context(), client.ObjectKeyFromObject(deployment), deployment); !apierrors.IsNotFound(err) {
		w.Errorf("expected the Deployment to be gone with the item, but found the error %v", err)
	}
}

// Each controller has its own way to count what is there. The Job is done when the Service has a Pod that answers for
// it.
func controllersBecomeReady(w *world) {
	service := &corev1.Service{ObjectMeta: w.meta("daemon"), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "daemon"},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(servePort)}},
	}}
	w.create(service)
	job := w.put("item", w.manifests(
		workload("StatefulSet", "set", object{"serviceName": "set", "replicas": 2}),
		workload("DaemonSet", "daemon", object{}),
		task("asks", "get", "http://"+service.Spec.ClusterIP+"/ready"),
	))
	// The second replica comes when the first is ready.
	w.awaitWord("item", fmt.Sprintf("StatefulSet %[1]s/set: Replicas: 1/2; DaemonSet %[1]s/daemon: Available: 0/1; "+
		"Job %[1]s/asks: the Job is running", w.namespace))
	w.release(2)
	w.awaitWord("item", "StatefulSet "+w.namespace+"/set: Ready: 1/2")
	w.release(1)
	w.finish("item", job, succeeded)

	set, daemon := &appsv1.StatefulSet{ObjectMeta: w.meta("set")}, &appsv1.DaemonSet{ObjectMeta: w.meta("daemon")}
	asks := &batchv1.Job{ObjectMeta: w.meta("asks")}
	w.get(set)
	w.get(daemon)
	w.get(asks)
	if set.Status.ReadyReplicas != 2 || daemon.Status.NumberAvailable != 1 || asks.Status.Succeeded != 1 {
		w.Errorf("the item succeeded too early: %+v, %+v, %+v", set.Status, daemon.Status, asks.Status)
	}
}

// A Job that deletes itself when it is done runs once, however long the item waits for something else.
func jobDeletesItself(w *world) {
	once := task("once", "say", "done")
	once["spec"].(object)["ttlSecondsAfterFinished"] = 0
	job := w.put("item", w.manifests(once, workload("Deployment", "web", object{})))
	runs := func(reason string) map[types.UID]bool {
		events, seen := &corev1.EventList{}, map[types.UID]bool{}
		if err := admin.List(w.Context(), events, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Job" && e.Reason == reason {
				seen[e.InvolvedObject.UID] = true
			}
		}
		return seen
	}
	w.eventually("the Job to be done and gone", func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "once"}, &batchv1.Job{})
		if apierrors.IsNotFound(err) && len(runs("Completed")) > 0 {
			return "", nil
		}
		return "it is there, or was never", client.IgnoreNotFound(err)
	})
	w.release(1)
	w.finish("item", job, succeeded)
	if started := runs("SuccessfulCreate"); len(started) != 1 {
		w.Errorf("expected one Job to have started its Pod, but found %d", len(started))
	}
}

// What has failed for good fails the job of its item at once, with what Kubernetes says.
func objectsFail(w *world) {
	for name, c := range map[string]struct {
		manifest object
		says     string
	}{
		"deployment": {
			workload("Deployment", "never", object{"progressDeadlineSeconds": 5}),
			"Deployment " + w.namespace + `/never: progress deadline exceeded (0/1 available): ReplicaSet "never-`,
		},
		"job": {
			task("fails", "exit", "3"),
			"Job " + w.namespace + "/fails: the Job has failed, BackoffLimitExceeded: Job has reached the specified",
		},
	} {
		job := w.put(name, w.manifests(c.manifest))
		last := w.finish(name, job, failed).Status.LastError
		if last == nil || last.Reason != "ObjectFailed" || !slices.Contains(last.Codes, v1alpha1.ErrorNoRetry) ||
			!strings.Contains(last.Message, c.says) {
			w.Errorf("%s: expected %q, but found %+v", name, c.says, last)
		}
	}
}

// With atomic nothing is left of an installation whose hook fails, and an upgrade is rolled back. The next job goes
// on from there.
func atomicHookFails(w *world) {
	config := func(fails, greeting string) object {
		atomic := object{"atomic": true}
		return object{
			"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
			"chart": object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Pack("failinghook"))}},
			"name":  "shop", "namespace": w.namespace,
			"values": object{"greeting": greeting, "hook": object{
				"fails": fails, "image": stepImage, "command": []string{"/step", "exit", "3"},
			}},
			"helmDeploymentConfig": object{"install": atomic, "upgrade": atomic},
		}
	}
	mustFail := func(operation string, config object) {
		w.Helper()
		want := "post-" + operation + ` hook Job "shop-failinghook-hook" of failinghook/templates/hook.yaml has failed: ` +
			"1 error occurred: * job shop-failinghook-hook failed: BackoffLimitExceeded"
		if reason, message := w.fail("item", config); reason != "ChartHookFailed" || !strings.Contains(message, want) {
			w.Errorf("expected %q, but found %s: %s", want, reason, message)
		}
	}
	mustFail("install", config("job", "one"))
	w.mustHaveRevisions()
	w.succeed("item", config("none", "two"))
	mustFail("upgrade", config("job", "three"))
	w.mustHaveRevisions("1 superseded", "2 failed", "3 deployed")
	found := &corev1.ConfigMap{ObjectMeta: w.meta("shop-failinghook")}
	if w.get(found); found.Data["greeting"] != "two" {
		w.Errorf("expected the greeting of before, but found %q", found.Data["greeting"])
	}
	w.succeed("item", config("none", "four"))
	w.mustHaveRevisions("1 superseded", "2 failed", "3 superseded", "4 deployed")
}

// mustHaveRevisions checks those of the release, which never has ten.
func (w *world) mustHaveRevisions(want ...string) {
	w.Helper()
	list := &corev1.SecretList{}
	err := admin.List(w.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{"owner": "helm"})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, secret := range list.Items {
		all = append(all, secret.Labels["version"]+" "+secret.Labels["status"])
	}
	slices.Sort(all)
	if diff := cmp.Diff(want, all); diff != "" {
		w.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// meta names an object of the world.
func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// manifests is the configuration of an item with these manifests, which are in the world's namespace.
func (w *world) manifests(manifests ...object) object {
	var entries []object
	for _, m := range manifests {
		m["metadata"].(object)["namespace"] = w.namespace
		entries = append(entries, object{"policy": "manage", "manifest": m})
	}
	return object{"apiVersion": v1alpha2.GroupVersion.String(), "kind": "ProviderConfiguration", "manifests": entries}
}

// manifest is one with a spec.
func manifest(apiVersion, kind, name string, spec object) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}, "spec": spec}
}

// workload is a manifest of a controller of Pods that serve after other actions.
func workload(kind, name string, spec object, before ...string) object {
	spec["selector"] = object{"matchLabels": object{"app": name}}
	spec["template"] = object{
		"metadata": object{"labels": object{"app": name}},
		"spec": object{"containers": []any{object{
			"name": "workload", "image": stepImage, "imagePullPolicy": "Never", "args": append(before, "serve"),
			"readinessProbe": object{"httpGet": object{"path": "/ready", "port": servePort}, "periodSeconds": 1},
		}}},
	}
	return manifest("apps/v1", kind, name, spec)
}

// task is a manifest of a Job that does this once.
func task(name string, args ...string) object {
	return manifest("batch/v1", "Job", name, object{
		"backoffLimit": 0,
		"template": object{"spec": object{"restartPolicy": "Never", "containers": []any{object{
			"name": "workload", "image": stepImage, "imagePullPolicy": "Never", "args": args,
		}}}},
	})
}

// release makes so many Pods ready that wait for it.
func (w *world) release(n int) {
	w.Helper()
	clients, err := kubernetes.NewForConfig(node.Config)
	if err != nil {
		w.Fatal(err)
	}
	wanted := len(w.released) + n
	w.eventually(fmt.Sprintf("%d Pods to be released", n), func(ctx context.Context) (string, error) {
		list := &corev1.PodList{}
		if err := admin.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			return "", err
		}
		for _, pod := range list.Items {
			waits := slices.Contains(pod.Spec.Containers[0].Args, "serve")
			if pod.DeletionTimestamp != nil || !waits || !running(&pod) || w.released[pod.Name] {
				continue
			}
			err := clients.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").
				Name(fmt.Sprintf("%s:%d", pod.Name, servePort)).SubResource("proxy").Suffix("release").Do(ctx).Error()
			if err != nil {
				return err.Error(), nil //nolint:nilerr // it is not up yet
			}
			w.released[pod.Name] = true
		}
		if len(w.released) < wanted {
			return fmt.Sprintf("%d more are missing", wanted-len(w.released)), nil
		}
		return "", nil
	})
}
