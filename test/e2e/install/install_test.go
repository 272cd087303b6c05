package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	release, system = "pergola", "pergola-system"
	examples        = "pergola-demo"
	// deployer is the ServiceAccount that deploys in the namespace of the examples.
	deployer = "deployer"
)

// TestInstall is the life of an installation. Each step goes on from where the one before has come to.
func TestInstall(t *testing.T) {
	explain(t)
	prepareExamples(t)
	notes := mustHelm(t, "install", version, "autoscaling.enabled=false")
	if !strings.Contains(notes, "plugins container, counter, helm, manifest, mock") {
		t.Errorf("the notes do not tell which plugins there are:\n%s", notes)
	}
	createTarget(t)
	applyExamples(t)
	if trace := runs(t, "pergola", "items", "trace", "manifest", "-n", examples, "--replicas"); !strings.Contains(trace, "PickedUp") || !strings.Contains(trace, "Call") {
		t.Errorf("the replicas do not tell what the job went through:\n%s", trace)
	}

	runs(t, "kubectl", "scale", "deployment/pergola", "-n", system, "--replicas=3")
	awaitReplicas(t, 3)
	// The number of replicas is the autoscaler's from now on: without one of its own the Deployment goes back to one first.
	mustHelm(t, "upgrade", version, "autoscaling.minReplicas=2", "autoscaling.maxReplicas=3")
	awaitReplicas(t, 2)
	mustHelm(t, "upgrade", version, "autoscaling.minReplicas=3", "autoscaling.maxReplicas=3")
	awaitReplicas(t, 3)
	checkReplicas(t, version)

	upgradeAmidJobs(t)
	checkReplicas(t, nextVersion)

	runs(t, "helm", "uninstall", release, "--namespace", system, "--wait")
	checkUninstalled(t)
	mustHelm(t, "install", nextVersion, "autoscaling.enabled=false")
	runs(t, "kubectl", "annotate", "deployitem", "manifest", "-n", examples, v1alpha1.OperationAnnotation+"=reconcile")
	eventually(t, "the operation to be taken up", func(ctx context.Context) (string, error) {
		item := &v1alpha1.DeployItem{}
		err := admin.Get(ctx, client.ObjectKey{Namespace: examples, Name: "manifest"}, item)
		return item.Annotations[v1alpha1.OperationAnnotation], err
	})
	awaitSuccess(t, "manifest")
}

// awaitReplicas waits until there are so many ready Pods of the Deployment as it is now, and no others.
func awaitReplicas(t *testing.T, n int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d replicas", n), func(ctx context.Context) (string, error) {
		d := &appsv1.Deployment{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: system, Name: release}, d); err != nil {
			return "", err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.ReadyReplicas != n {
			return fmt.Sprintf("generation %d, %+v", d.Generation, s), nil
		}
		return "", nil
	})
}

// checkReplicas checks that each replica runs this version, with all plugins.
func checkReplicas(t *testing.T, version string) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := admin.List(t.Context(), pods, client.InNamespace(system)); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if out := runs(t, "kubectl", "exec", "-n", system, pod.Name, "--", "pergola", "--version"); !strings.Contains(out, version) {
			t.Errorf("expected version %s in Pod %s, but found %s", version, pod.Name, out)
		}
	}
	var list struct {
		Replicas []struct {
			Name    string
			Plugins []struct{ Name, State, Problem string }
		}
		Differences []string
	}
	if err := json.Unmarshal([]byte(runs(t, "pergola", "plugins", "list", "--replicas", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Replicas) != 3 || len(list.Differences) > 0 {
		t.Errorf("expected three replicas that are all the same, but found %+v", list)
	}
	for _, r := range list.Replicas {
		for _, p := range r.Plugins {
			if p.State != "Running" {
				t.Errorf("replica %s: plugin %s is %s: %s", r.Name, p.Name, p.State, p.Problem)
			}
		}
		if len(r.Plugins) != 5 {
			t.Errorf("replica %s: expected five plugins, but found %+v", r.Name, r.Plugins)
		}
	}
}

// upgradeAmidJobs upgrades to the next version while jobs are under way, some of which wait the whole time, some end and some begin.
func upgradeAmidJobs(t *testing.T) {
	t.Helper()
	closeGate(t)
	seen := watchJobs(t)
	if err := createJobs(t.Context(), 0, waitingJobs+countedJobs); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all jobs to be under way", func(context.Context) (string, error) {
		if n := seen.begun(); n < waitingJobs+countedJobs {
			return fmt.Sprintf("%d are", n), nil
		}
		return "", nil
	})
	t.Logf("%d jobs are under way when the upgrade begins", seen.count(v1alpha1.DeployItemPhaseProgressing))
	upgraded := make(chan error, 1)
	go func() {
		_, err := helm(t.Context(), "upgrade", nextVersion, "autoscaling.minReplicas=3", "autoscaling.maxReplicas=3")
		upgraded <- err
	}()
	eventually(t, "the first Pod of the next version", func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		if err := admin.List(ctx, pods, client.InNamespace(system)); err != nil {
			return "", err
		}
		for _, pod := range pods.Items {
			for _, s := range pod.Status.ContainerStatuses {
				if strings.HasSuffix(s.Image, nextVersion) && s.Ready {
					return "", nil
				}
			}
		}
		return "there is none that is ready", nil
	})
	if err := createJobs(t.Context(), waitingJobs+countedJobs, allJobs); err != nil {
		t.Fatal(err)
	}
	openGate(t)
	if err := <-upgraded; err != nil {
		t.Fatal(err)
	}
	awaitReplicas(t, 3)
	eventually(t, "all jobs to succeed", func(context.Context) (string, error) {
		if n := seen.count(v1alpha1.DeployItemPhaseSucceeded); n < allJobs {
			return fmt.Sprintf("%d have", n), nil
		}
		return "", nil
	})
	for _, what := range slices.Concat(seen.judge(), judgeEvidence(t)) {
		t.Error(what)
	}
}

// checkUninstalled checks that nothing runs any more, and that all DeployItems are there as they were.
func checkUninstalled(t *testing.T) {
	t.Helper()
	eventually(t, "the Pods to be gone", func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		err := admin.List(ctx, pods, client.InNamespace(system))
		if len(pods.Items) > 0 {
			return fmt.Sprintf("there are %d", len(pods.Items)), err
		}
		return "", err
	})
	items := &v1alpha1.DeployItemList{}
	if err := admin.List(t.Context(), items, client.InNamespace(examples)); err != nil {
		t.Fatal(err)
	}
	if want := 4 + allJobs; len(items.Items) != want {
		t.Errorf("expected %d items, but found %d", want, len(items.Items))
	}
	for _, item := range items.Items {
		if item.DeletionTimestamp != nil || item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
			t.Errorf("item %s is %s, deleted at %v", item.Name, item.Status.Phase, item.DeletionTimestamp)
		}
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := admin.List(t.Context(), definitions); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, d := range definitions.Items {
		if d.Spec.Group == v1alpha1.GroupVersion.Group && d.DeletionTimestamp == nil {
			kept++
		}
	}
	if kept != 5 {
		t.Errorf("expected five CustomResourceDefinitions, but found %d", kept)
	}
}
