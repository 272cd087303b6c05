package deployer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestStateOfLandscaper: the first run goes on with what Landscaper has left, which goes with the deploy item, so that
// no other one of its name begins with it. One that is not complete is no state to begin with.
// Rule (container.md#for-operators): State of Landscaper is restored in the first run, and removed with the item.
func TestStateOfLandscaper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	old := func(name, uuid, number, content string) {
		w.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name,
				Labels: map[string]string{
					"container.deployer.landscaper.gardener.cloud/type":                 "state",
					"deployitem.container.deployer.landscaper.gardener.cloud/name":      item.Name,
					"deployitem.container.deployer.landscaper.gardener.cloud/namespace": item.Namespace,
				},
				Annotations: map[string]string{
					"container.deployer.landscaper.gardener.cloud/uuid": uuid,
					"container.deployer.landscaper.gardener.cloud/num":  number,
				},
			},
			Data: map[string][]byte{"config": []byte(content)},
		})
	}
	old("state-old-2", "one", "1", "1")
	if found := w.failing(item); !strings.Contains(found,
		"annotation container.deployer.landscaper.gardener.cloud/uuid: one there is no Secret with the number 0") {
		t.Errorf("found %s", found)
	}
	old("state-old-1", "one", "0", "4")
	w.SetConfig(item, w.config("lose"))
	w.failing(item)
	item.Annotations = map[string]string{acceptLoss: w.status(item).Run.Name}
	w.SetConfig(item, w.config("count"))
	if found := fmt.Sprint(w.succeed(item)["count"]); found != "42" {
		t.Errorf("expected 42, but found %s", found)
	}
	if found := fmt.Sprint(w.succeed(item)["count"]); found != "43" {
		t.Errorf("expected 43, but found %s", found)
	}
	left := func() (names []string) {
		list, err := w.client.CoreV1().Secrets(w.Namespace).List(t.Context(), metav1.ListOptions{
			LabelSelector: "!container.pergola.dev/item",
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range list.Items {
			names = append(names, secret.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string{"state-old-1", "state-old-2"}, left()); diff != "" {
		t.Errorf("before the deletion: -want +got:\n%s", diff)
	}
	w.discard(item, false)
	if found := left(); len(found) > 0 {
		t.Errorf("after the deletion: found %v", found)
	}
}

// TestDeletionOfAnItemOfLandscaper: the image is run although this deployer has never run it before.
// Rule (container.md#deletion): The container deployer runs the image for a deletion.
func TestDeletionOfAnItemOfLandscaper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"container.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderStatus",` +
			`"lastOperation":"RECONCILE","podStatus":{"podName":"shop-x"}}`)}
	plugintest.NewJob(item)
	if result := w.Finish(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("found %s", result)
	}
	if runs := w.node.ranIn(); len(runs) != 1 {
		t.Errorf("expected one run, but found %s", describe(runs))
	}
	w.mustHave()
}

// TestDeletionOfWhatWasNeverBegun needs neither the image nor the host cluster.
// Rule (container.md#deletion): A deletion does not run the image if no job was ever started.
func TestDeletionOfWhatWasNeverBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Call.HostCluster = nil
	item := w.item("count")
	plugintest.NewJob(item)
	if result := w.Finish(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("found %s", result)
	}
}

// TestKeptPod: it stays for a look at it, until the next run, and holds nothing up.
// Rule (container.md#for-operators): `debug.keepPod` keeps the last Pod until the next run.
func TestKeptPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Configure(object{"debug": object{"keepPod": true}})
	item := w.item("count")
	w.succeed(item)
	w.mustHave("Pod kept-pod", "Secret result", "Secret state")
	w.succeed(item)
	w.mustHave("Pod kept-pod", "Secret result", "Secret state")
	if pods := w.pods(); len(pods[0].Finalizers) > 0 || pods[0].Name != w.status(item).Run.Name {
		t.Errorf("found Pod %s with finalizers %v", pods[0].Name, pods[0].Finalizers)
	}
	w.discard(item, false)
}

// TestAnotherNamespace: an operator moves the Pods, and the state comes along.
// Rule (container.md#for-operators): An item takes its state along to another namespace for Pods.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	item := w.item("count")
	w.succeed(item)
	_, err := w.client.RbacV1().RoleBindings(other.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "moved"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "container"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "container", Namespace: w.Namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Configure(object{"namespace": other.Namespace})
	for n := 2; n <= 3; n++ {
		if found := fmt.Sprint(w.succeed(item)["count"]); found != fmt.Sprint(n) {
			t.Errorf("expected %d, but found %s", n, found)
		}
	}
	w.mustHave()
	other.mustHave("Secret result", "Secret state")
	w.discard(item, false)
	other.mustHave()
}

// TestRenewal: a Pod that runs for long gets another token before the first one ends.
// Rule (container.md#credentials-in-the-pod): The token of `wait` is renewed while a Pod runs.
func TestRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("hang")
	plugintest.NewJob(item)
	w.Do(plugintest.Reconcile, item)
	token := func() string {
		secret, err := w.client.CoreV1().Secrets(w.Namespace).Get(t.Context(), w.status(item).Run.Name+"-access",
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(secret.Data["token"])
	}
	first, renewal := token(), w.status(item).Run.RenewAccess
	if renewal == nil || time.Until(renewal.Time) < 4*time.Hour {
		t.Fatalf("a day's token is to be renewed at %v", renewal)
	}
	w.Do(plugintest.Reconcile, item)
	if token() != first {
		t.Error("the token was renewed too early")
	}
	status := w.status(item)
	due := metav1.NewTime(time.Now().Add(-time.Second))
	status.Run.RenewAccess = &due
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: w.Marshal(status)}
	result := w.Do(plugintest.Reconcile, item)
	if result.InProgress == nil || token() == first || !w.status(item).Run.RenewAccess.After(time.Now()) {
		t.Errorf("expected another token, but found %s, and renewal at %v", result, w.status(item).Run.RenewAccess)
	}
	w.discard(item, false)
}

// TestNotGranted: the job waits for the operator, and goes on then.
// Rule (container.md#jobs-and-errors): A job waits for access to the host cluster.
func TestNotGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	plugintest.NewJob(item)
	granted := w.Call.HostCluster
	w.Call.HostCluster = nil
	result := w.Do(plugintest.Reconcile, item)
	if result.Failed == nil || len(result.Failed.Codes()) > 0 ||
		!strings.Contains(result.Failed.Error(), "hostCluster.serviceAccount") {
		t.Errorf("found %s", result)
	}
	w.Call.HostCluster = granted
	if result := w.Finish(plugintest.Reconcile, item); result.Succeeded == nil {
		t.Errorf("found %s", result)
	}
}

// TestResultDeleted: a job whose exports were lost after it has ended says so, and does not run the image again.
func TestResultDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.succeed(item)
	if err := w.client.CoreV1().Secrets(w.Namespace).Delete(t.Context(), w.status(item).Run.Name+"-result",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	result := w.Finish(plugintest.Reconcile, item)
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), "start another job") {
		t.Errorf("found %s", result)
	}
	if runs := w.node.ranIn(); len(runs) != 1 {
		t.Errorf("expected one run, but found %s", describe(runs))
	}
}

// TestHoldings: what is kept is told with the deploy item, and what nobody needs is removed, of this installation
// alone.
// Rule (container.md#for-operators): Garbage collection removes objects of this installation without a DeployItem.
func TestHoldings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	finished, hanging := w.item("count"), w.item("hang")
	w.succeed(finished)
	plugintest.NewJob(hanging)
	w.Do(plugintest.Reconcile, hanging)
	w.awaitRun(2)
	of := func(name, namespace string, uid types.UID, job string) sdk.Holding {
		return sdk.Holding{Name: name, Namespace: namespace, UID: uid, JobID: job}
	}
	want := []sdk.Holding{
		of(finished.Name, finished.Namespace, finished.UID, ""),
		of(hanging.Name, hanging.Namespace, hanging.UID, ""), of(hanging.Name, hanging.Namespace, hanging.UID,
			hanging.Status.JobID),
	}
	ignoreOrder := cmpopts.SortSlices(func(a, b sdk.Holding) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
	w.eventually("the Pod of the first item to be gone", func() bool { return len(w.pods()) == 1 })
	found, err := w.Plugin.Holdings(t.Context(), w.Call.HostCluster)
	if diff := cmp.Diff(want, found, ignoreOrder); err != nil || diff != "" {
		t.Fatalf("error %v, -want +got:\n%s", err, diff)
	}
	other := *w.Call.HostCluster
	other.Installation = "another"
	if found, err := w.Plugin.Holdings(t.Context(), &other); err != nil || len(found) > 0 {
		t.Errorf("another installation: found %v, error %v", found, err)
	}
	job := slices.IndexFunc(found, func(h sdk.Holding) bool { return h.JobID != "" })
	w.eventually("what belongs to the job to be collected", func() bool {
		return w.Plugin.Collect(t.Context(), w.Call.HostCluster, found[job:job+1]) == nil
	})
	w.mustHave("Secret result", "Secret result", "Secret state", "Secret state")
	var gone []sdk.Holding
	for _, h := range want {
		if h.UID == hanging.UID && h.JobID == "" {
			gone = append(gone, h)
		}
	}
	w.eventually("what belongs to the item to be collected",
		func() bool { return w.Plugin.Collect(t.Context(), w.Call.HostCluster, gone) == nil })
	w.mustHave("Secret result", "Secret state")
	if result := w.Finish(plugintest.Reconcile, finished); result.Succeeded == nil {
		t.Errorf("the other item: found %s", result)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sdktest.Conform(t, w.Plugin)
}

// pods are those in the namespace.
func (w *world) pods() []corev1.Pod {
	w.Helper()
	list, err := w.client.CoreV1().Pods(w.Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

func (w *world) create(secret *corev1.Secret) {
	w.Helper()
	if _, err := w.client.CoreV1().Secrets(w.Namespace).Create(w.Context(), secret, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// TestSpecChangesMeanwhile: what main was given is not told, also when the deploy item says something else by now.
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
	plugintest.NewJob(item)
	w.Do(plugintest.Reconcile, item)
	w.SetConfig(item, config("another-password"))
	result := w.Finish(plugintest.Reconcile, item)
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), "cannot log in with ***") {
		t.Errorf("found %s", result)
	}
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
	plugintest.NewJob(item)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if result := w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item)); result.InProgress == nil {
		t.Fatalf("expected to wait for the Pod, but found %s", result)
	}
	w.ahead.Store(int64(time.Hour))
	w.Eventually("the job to end before its deadline", func() bool {
		result := w.DoCall(ctx, plugintest.Reconcile, w.CallOf(item))
		if result.Failed != nil && result.Failed.Errors[0].Reason != "DeadlineExceeded" {
			t.Errorf("found %s", result)
		}
		return result.InProgress == nil
	})
	w.mustHave("Secret result")
	if runs := w.node.ranIn(); len(runs) != 0 {
		t.Errorf("expected no run, but found %s", describe(runs))
	}
}
