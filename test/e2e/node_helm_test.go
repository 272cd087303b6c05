package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// abortTime is how long an item may take to be idle after an abort was asked for, whatever Helm was waiting for.
const abortTime = 5 * time.Second

// deployChart creates an item with a chart and sets its job.
func (w *nodeWorld) deployChart(t *testing.T, chart string, values object, options ...object) (s *stage, jobID string) {
	t.Helper()
	s = w.newStage(t)
	return s, s.begin(t, newItem(s.namespace, "item", string(helmv1alpha1.Type), s.chartConfig(t, chart, values, options...)))
}

// updateChart gives the item other values or another chart, and sets a new job.
func (s *stage) updateChart(t *testing.T, chart string, values object, options ...object) (jobID string) {
	t.Helper()
	return s.reconfigure(t, s.chartConfig(t, chart, values, options...))
}

// chartConfig is the configuration of an item whose release is called shop. The options are those of installation and upgrade.
func (s *stage) chartConfig(t *testing.T, chart string, values object, options ...object) string {
	t.Helper()
	all := object{}
	for _, o := range options {
		maps.Copy(all, o)
	}
	return string(marshal(t, object{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
		"chart": object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Pack(chart))}},
		"name":  "shop", "namespace": s.namespace, "values": values,
		"helmDeploymentConfig": object{"install": all, "upgrade": all},
	}))
}

var (
	atomically  = object{"atomic": true}
	waitsItself = object{"wait": true}
)

// workloadValues are those of the chart workload, whose Deployment runs the workload with these arguments.
func workloadValues(args ...string) object {
	return object{
		"image": testenv.Workload, "imagePullPolicy": "Never", "args": args, "service": object{"port": workloadPort},
		"readinessProbe": object{"httpGet": object{"path": "/ready", "port": workloadPort}, "periodSeconds": 1},
	}
}

// hookValues are those of the chart failinghook, whose hook after installation and upgrade fails in a certain way.
func hookValues(fails, greeting string) object {
	return object{"greeting": greeting, "hook": object{
		"fails": fails, "image": testenv.Workload, "command": []string{"/workload", "-exit=3"},
	}}
}

// revisions returns those of the release as "1 superseded", oldest first. There are never ten.
func (s *stage) revisions(t *testing.T) []string {
	t.Helper()
	list := &corev1.SecretList{}
	if err := s.client.List(t.Context(), list, client.InNamespace(s.namespace), client.MatchingLabels{"owner": "helm"}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, secret := range list.Items {
		all = append(all, secret.Labels["version"]+" "+secret.Labels["status"])
	}
	slices.Sort(all)
	return all
}

func (s *stage) expectRevisions(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.revisions(t)); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// expectGreeting checks what the ConfigMap of the chart failinghook says; "" if there must be none.
func (s *stage) expectGreeting(t *testing.T, want string) {
	t.Helper()
	found := &corev1.ConfigMap{ObjectMeta: s.meta("shop-failinghook")}
	err := s.client.Get(t.Context(), client.ObjectKeyFromObject(found), found)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if got := found.Data["greeting"]; got != want {
		t.Errorf("expected the greeting %q, but found %q", want, got)
	}
}

// The job waits for the Deployment of a chart as for any other, says so, and goes on when a watch tells that it is available.
func chartBecomesReadyLate(t *testing.T, w *nodeWorld) {
	s, jobID := w.deployChart(t, "workload", workloadValues(waiting))
	s.story.await(t, progressing, "Deployment "+s.namespace+"/shop-workload: Available: 0/1")
	s.expectRevisions(t, "1 deployed")
	available := notice(t, w.client, &appsv1.DeploymentList{}, &appsv1.Deployment{ObjectMeta: s.meta("shop-workload")}, func(d *appsv1.Deployment) bool {
		return d.Status.AvailableReplicas > 0
	})
	backdate(t, s.item)
	time.Sleep(promptly) // as in deploymentBecomesReadyLate
	if item := read(t, s.item); item.Status.Phase != progressing {
		t.Errorf("expected the job to wait for the Deployment, but found %s", describe(item))
	}

	s.release(t)
	s.finish(t, jobID, succeeded)

	expectSoon(t, "Succeeded", s.story.await(t, succeeded, ""), available.await(t, "the Deployment to be available"))
	s.expectRevisions(t, "1 deployed")
}

// A hook that fails fails the job with its name and what has happened to it. The next job goes on from there.
func hookFails(t *testing.T, w *nodeWorld) {
	s, jobID := w.deployChart(t, "failinghook", hookValues("job", "one"))
	expectHookError(t, s.finish(t, jobID, failed), "install")
	s.expectRevisions(t, "1 failed")

	s.finish(t, s.updateChart(t, "failinghook", hookValues("none", "two")), succeeded)
	s.expectRevisions(t, "1 failed", "2 deployed")
	s.expectGreeting(t, "two")
}

// With atomic nothing is left of an installation whose hook fails, and an upgrade is rolled back.
func atomicHookFails(t *testing.T, w *nodeWorld) {
	s, jobID := w.deployChart(t, "failinghook", hookValues("job", "one"), atomically)
	expectHookError(t, s.finish(t, jobID, failed), "install")
	s.expectRevisions(t)
	s.expectGreeting(t, "")

	s.finish(t, s.updateChart(t, "failinghook", hookValues("none", "two"), atomically), succeeded)
	s.expectRevisions(t, "1 deployed")

	expectHookError(t, s.finish(t, s.updateChart(t, "failinghook", hookValues("job", "three"), atomically), failed), "upgrade")
	s.expectRevisions(t, "1 superseded", "2 failed", "3 deployed")
	s.expectGreeting(t, "two")

	s.finish(t, s.updateChart(t, "failinghook", hookValues("none", "four"), atomically), succeeded)
	s.expectRevisions(t, "1 superseded", "2 failed", "3 superseded", "4 deployed")
	s.expectGreeting(t, "four")
}

func expectHookError(t *testing.T, item *v1alpha1.DeployItem, operation string) {
	t.Helper()
	step := map[string]string{"install": "Install", "upgrade": "Upgrade"}[operation]
	expectError(t, item, lastError{step, "HookFailed", []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}},
		fmt.Sprintf("post-%s hook Job %q of failinghook/templates/hook.yaml has failed: the Job has failed: BackoffLimitExceeded",
			operation, "shop-failinghook-hook"))
}

func chartIsAborted(t *testing.T, w *nodeWorld) {
	s, jobID := w.deployChart(t, "workload", workloadValues(waiting))
	s.story.await(t, progressing, "Deployment "+s.namespace+"/shop-workload: Available: 0/1")
	s.abort(t, jobID)
	s.expectRevisions(t, "1 deployed") // Helm was done

	s.finish(t, s.updateChart(t, "workload", workloadValues()), succeeded)
	s.expectRevisions(t, "1 superseded", "2 deployed")
}

func waitingChartIsAborted(t *testing.T, w *nodeWorld) {
	s, jobID := w.deployChart(t, "workload", workloadValues(waiting), waitsItself)
	s.story.await(t, progressing, "Waiting until these are ready: Service shop-workload, Deployment shop-workload")
	s.abort(t, jobID)
	s.expectRevisions(t, "1 failed")

	s.finish(t, s.updateChart(t, "workload", workloadValues(), waitsItself), succeeded)
	s.expectRevisions(t, "1 failed", "2 deployed")
}

func hookIsAborted(t *testing.T, w *nodeWorld) {
	s, jobID := w.deployChart(t, "failinghook", hookValues("hang", "one"))
	s.story.await(t, progressing, `post-install hook Job "shop-failinghook-hook"`)
	eventually(t, "the hook to be there", func(ctx context.Context) (string, error) {
		if pods := s.pods(t); len(pods) == 0 {
			return "it has no pod", nil
		}
		return "", nil
	})
	s.abort(t, jobID)
	s.expectRevisions(t, "1 failed")

	s.finish(t, s.updateChart(t, "failinghook", hookValues("none", "two")), succeeded)
	s.expectRevisions(t, "1 failed", "2 deployed")
}

// abort aborts a job, which must be over soon, with all that the plugin does for it.
func (s *stage) abort(t *testing.T, jobID string) {
	t.Helper()
	began := time.Now()
	ask(t, s.item, v1alpha1.OperationAbort)
	waitAborted(t, s.item, jobID, failed)
	took := s.story.await(t, failed, "").Sub(began)
	t.Logf("idle %d ms after it was to be aborted", took.Milliseconds())
	if took > abortTime {
		t.Errorf("expected the item to be idle within %s of an abort, but it took %s", abortTime, took)
	}
	eventually(t, "Helm to have ended with the job", func(context.Context) (string, error) {
		workers, err := testenv.Children(pid(t, s.host, "helm"))
		if len(workers) > 0 {
			return fmt.Sprintf("there is %v", workers), err
		}
		return "", err
	})
	if took := time.Since(began); took > abortTime {
		t.Errorf("expected that nobody works for the item %s after an abort, but it took %s", abortTime, took)
	}
}
