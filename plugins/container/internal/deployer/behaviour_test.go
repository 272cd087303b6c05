package deployer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	sdktest.Conform(t, newWorld(t).Plugin)
}

// TestStateOfLandscaper: the first run goes on with the state of Landscaper, which goes with the deploy item, so that
// no other one of its name begins with it. An incomplete one is no state to begin with.
// Rule (container.md#for-operators): State of Landscaper is restored in the first run, and removed with the item.
func TestStateOfLandscaper(t *testing.T) {
	t.Parallel()
	const upstream = "container.deployer.landscaper.gardener.cloud/"
	w := newWorld(t)
	item := w.item("count")
	old := func(name, number, content string) {
		w.Create(plugintest.Secrets, object{"apiVersion": "v1", "kind": "Secret", "metadata": object{
			"name": name,
			"labels": object{
				upstream + "type": "state", "deployitem." + upstream + "name": item.Name,
				"deployitem." + upstream + "namespace": item.Namespace,
			},
			"annotations": object{upstream + "uuid": "one", upstream + "num": number},
		}, "stringData": object{"config": content}})
	}
	old("state-old-2", "1", "1")
	w.mustFail(w.end(plugintest.Reconcile, item), "StateLost",
		"annotation container.deployer.landscaper.gardener.cloud/uuid: one there is no Secret with the number 0")
	old("state-old-1", "0", "4")
	w.SetConfig(item, w.config("lose"))
	w.mustFail(w.end(plugintest.Reconcile, item), "ResultLost")
	item.Annotations = map[string]string{acceptLoss: w.status(item).Run.Name}
	w.SetConfig(item, w.config("count"))
	w.counts(item, 42)
	w.counts(item, 43)
	left := func() []string { return w.Names(plugintest.Secrets, "!container.pergola.dev/item") }
	if diff := cmp.Diff([]string{"state-old-1", "state-old-2"}, left()); diff != "" {
		t.Errorf("before the deletion: -want +got:\n%s", diff)
	}
	w.discard(item)
	if found := left(); len(found) > 0 {
		t.Errorf("after the deletion: found %v", found)
	}
}

// TestDeletion: the image of an item of Landscaper is run although this deployer has never run it before. Without any
// job, neither the image nor the host cluster is needed.
// Rule (container.md#deletion): The container deployer runs the image for a deletion.
func TestDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"container.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderStatus",` +
			`"lastOperation":"RECONCILE","podStatus":{"podName":"shop-x"}}`)}
	if result := w.end(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("found %s", result)
	}
	w.mustHaveRun(1)
	w.mustHave()
	// Rule (container.md#deletion): A deletion does not run the image if no job was ever started.
	t.Run("never begun", func(t *testing.T) {
		w.Call.HostCluster = nil
		if result := w.end(plugintest.Delete, w.item("count")); result.Succeeded == nil {
			t.Fatalf("found %s", result)
		}
	})
}

// TestKeptPod: it stays for a look at it, until the next run, and holds nothing up.
// Rule (container.md#for-operators): `debug.keepPod` keeps the last Pod until the next run.
func TestKeptPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Configure(object{"debug": object{"keepPod": true}})
	item := w.item("count")
	for n := 1; n <= 2; n++ {
		w.counts(item, n)
		w.mustHave("Pod kept-pod", "Secret result", "Secret state")
	}
	if pods := w.pods(); len(pods[0].Finalizers) > 0 || pods[0].Name != w.status(item).Run.Name {
		t.Errorf("found Pod %s with finalizers %v", pods[0].Name, pods[0].Finalizers)
	}
	w.discard(item)
}

// TestAnotherNamespace: an operator moves the Pods, and the state comes along.
// Rule (container.md#for-operators): An item takes its state along to another namespace for Pods.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	item := w.item("count")
	w.counts(item, 1)
	_, err := w.client.RbacV1().RoleBindings(other.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "moved"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "container"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "container", Namespace: w.Namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Configure(object{"namespace": other.Namespace})
	w.counts(item, 2)
	w.counts(item, 3)
	w.mustHave()
	other.mustHave("Secret result", "Secret state")
	w.discard(item)
	other.mustHave()
}

// TestRenewal: a Pod that runs for long gets another token before the first one ends.
// Rule (container.md#credentials-in-the-pod): The token of `wait` is renewed while a Pod runs.
func TestRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("hang")
	w.begin(item)
	token := func() string { return string(w.access(item)["token"]) }
	first, renewal := token(), w.status(item).Run.RenewAccess
	if renewal == nil || time.Until(renewal.Time) < 4*time.Hour {
		t.Fatalf("a day's token is to be renewed at %v", renewal)
	}
	w.Do(plugintest.Reconcile, item)
	if token() != first {
		t.Error("the token was renewed too early")
	}
	w.change(item, func(s *v1alpha1.ProviderStatus) { s.Run.RenewAccess.Time = time.Now().Add(-time.Second) })
	result := w.Do(plugintest.Reconcile, item)
	if result.InProgress == nil || token() == first || !w.status(item).Run.RenewAccess.After(time.Now()) {
		t.Errorf("expected another token, but found %s, and renewal at %v", result, w.status(item).Run.RenewAccess)
	}
	w.discard(item)
}

// TestNotGranted: the job waits for the operator, and goes on then.
// Rule (container.md#jobs-and-errors): A job waits for access to the host cluster.
func TestNotGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item, granted := w.item("count"), w.Call.HostCluster
	w.Call.HostCluster = nil
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "hostCluster.serviceAccount")
	w.Call.HostCluster = granted
	w.mustCount(w.Finish(plugintest.Reconcile, item), 1)
}

// TestResultDeleted: a job whose exports were lost after its end says so, and does not run the image again.
func TestResultDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.counts(item, 1)
	w.Delete(plugintest.Secrets, w.status(item).Run.Name+"-result")
	result := w.Finish(plugintest.Reconcile, item)
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), "start another job") {
		t.Errorf("found %s", result)
	}
	w.mustHaveRun(1)
}

// TestHoldings: what is kept is told with the deploy item, and what nobody needs is removed, of this installation
// alone.
// Rule (container.md#for-operators): Garbage collection removes objects of this installation without a DeployItem.
func TestHoldings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	finished, hanging := w.item("count"), w.item("hang")
	w.counts(finished, 1)
	w.begin(hanging)
	w.awaitRun(2)
	w.eventually("the Pod of the first item to be gone", func() bool { return len(w.pods()) == 1 })
	holding := sdk.Holding{Name: hanging.Name, Namespace: hanging.Namespace, UID: hanging.UID}
	ofJob := holding
	ofJob.JobID = hanging.Status.JobID
	want := []sdk.Holding{{Name: finished.Name, Namespace: finished.Namespace, UID: finished.UID}, holding, ofJob}
	ignoreOrder := cmpopts.SortSlices(func(a, b sdk.Holding) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
	found, err := w.Plugin.Holdings(t.Context(), w.Call.HostCluster)
	if diff := cmp.Diff(want, found, ignoreOrder); err != nil || diff != "" {
		t.Fatalf("error %v, -want +got:\n%s", err, diff)
	}
	other := *w.Call.HostCluster
	other.Installation = "another"
	if found, err := w.Plugin.Holdings(t.Context(), &other); err != nil || len(found) > 0 {
		t.Errorf("another installation: found %v, error %v", found, err)
	}
	collect := func(h sdk.Holding) {
		w.eventually("collection", func() bool {
			return w.Plugin.Collect(t.Context(), w.Call.HostCluster, []sdk.Holding{h}) == nil
		})
	}
	collect(ofJob)
	w.mustHave("Secret result", "Secret result", "Secret state", "Secret state")
	collect(holding)
	w.mustHave("Secret result", "Secret state")
	w.mustCount(w.Finish(plugintest.Reconcile, finished), 1)
}

// TestSpecChangesMeanwhile: the input of main is not told, also when the deploy item says something else by now.
func TestSpecChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := func(password string) object {
		c := w.config("say", "cannot log in with hunter2-and-more")
		c["importValues"] = object{"password": password}
		return c
	}
	item := w.item()
	w.SetConfig(item, config("hunter2-and-more"))
	w.begin(item)
	w.SetConfig(item, config("another-password"))
	w.mustFail(w.Finish(plugintest.Reconcile, item), "ContainerFailed", "cannot log in with ***")
	if strings.Contains(string(item.Status.ProviderStatus.Raw), "hunter2") {
		t.Errorf("found %s", item.Status.ProviderStatus.Raw)
	}
}

// TestTimeIsUp: a Pod that never gets a node is stopped when the time of its job is over, and what belongs to it is
// removed.
// Rule (container.md#jobs-and-errors): A Pod has the time of its job and no more.
func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node.stop()
	item := w.item("count")
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if result := w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item)); result.InProgress == nil {
		t.Fatalf("expected to wait for the Pod, but found %s", result)
	}
	w.ahead.Store(int64(time.Hour))
	w.eventually("the job to end before its deadline", func() bool {
		result := w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item))
		if result.InProgress == nil {
			w.mustFail(result, "DeadlineExceeded")
		}
		return result.InProgress == nil
	})
	w.mustHave("Secret result")
	w.mustHaveRun(0)
}

// TestRestoredWithAnotherUID: a state belongs to the UID of its item. An item that was restored with another one does
// not run without its state, and goes on with it when the Secrets name the new UID, as docs/operators-guide.md says;
// one without status begins anew.
// Rule (operators-guide.md#items-without-their-status): A container restored with another UID runs only after its state
// names the new UID.
func TestRestoredWithAnotherUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.counts(item, 1)
	old := item.UID
	item.UID = "11111111" + old[8:]
	w.mustFail(w.end(plugintest.Reconcile, item), "StateLost", "the state of the last run is not complete")
	for _, name := range w.Names(plugintest.Secrets, "container.pergola.dev/item="+string(old)) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"container.pergola.dev/item":%q}}}`, item.UID)
		w.Patch(plugintest.Secrets, name, patch)
	}
	w.counts(item, 2)
	item.Status.ProviderStatus = nil
	w.counts(item, 1)
}
