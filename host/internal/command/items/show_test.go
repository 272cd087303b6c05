package items

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestItemsShow(t *testing.T) {
	s := newShop(t)
	s.target("here")
	exports := func(i *v1alpha1.DeployItem) {
		i.Status.ExportReference = &v1alpha1.ObjectReference{Name: "web-export", Namespace: s.namespace}
	}
	item := s.item("web", on("here"),
		setJob("job-1"), beginJob, succeed, exports, setJob("job-2"), beginJob, waitFor("a miracle"))
	s.create(&v1alpha1.SyncObject{ObjectMeta: s.named("helm-" + string(item.UID)), Spec: v1alpha1.SyncObjectSpec{
		PodName: "pergola-7", Kind: "DeployItem", Name: "web", Prefix: "helm", LastUpdateTime: v1alpha1.Now(),
	}})
	regarding := corev1.ObjectReference{Kind: "DeployItem", Namespace: s.namespace, Name: "web", UID: item.UID}
	s.create(&eventsv1.Event{
		ObjectMeta: s.named("web-event"), EventTime: metav1.NowMicro(),
		ReportingController: "pergola", ReportingInstance: "pergola-7",
		Action: "Reconcile", Reason: "Noticed", Regarding: regarding, Note: "it is there", Type: "Normal",
	})
	s.allow("guest", deployItems, "targets."+v1alpha1.GroupName)
	s.expect([]itemsCase{
		{"all that there is", "show web", 0, []string{
			"DeployItem NS/web", "Phase:        Progressing", "Target:       here", "pergola-7", "Waiting for:  a miracle",
			"in the Secret web-export", "Noticed", "it is there", "job-2", "of 10m",
		}},
		{"what a guest may not see", "show web --kubeconfig " + s.as("guest"), 0, []string{
			"does not resolve:", `secrets "here" is forbidden`, "list locks: ", "list events: ",
		}},
		{"no such item", "show nobody", 2, []string{`there is no DeployItem "nobody" in the namespace "NS"`, "-n"}},
		{"no item", "show", 2, []string{"expected ITEM"}},
	}...)
	out, _, _ := s.run("show", "web")
	if strings.Contains(out, "Could not be read") || strings.Contains(out, "does not resolve") {
		t.Errorf("expected that everything can be read, but found\n%s", out)
	}
	out, code, err := s.run("show", "web", "-o", "yaml")
	var printed v1alpha1.DeployItem
	decodeYAML(t, out, &printed)
	if code != 0 || printed.Status.JobID != "job-2" || strings.Contains(out, "t0ps3cret") {
		t.Errorf("expected the item without its configuration, but found %v:\n%s", err, out)
	}
}

// TestItemsOfATargetWithoutAccount: a Target that names no ServiceAccount acts as the one that the operator says, for
// the commands, too.
func TestItemsOfATargetWithoutAccount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.create(&corev1.ServiceAccount{ObjectMeta: s.named("deployer")})
	s.selfTarget("here", `{}`)
	s.item("web", on("here"))
	const missing = "selfConfig.serviceAccount.name"
	s.expect(itemsCase{"what the Target lacks", "show web", 0, []string{missing}})
	out, _, err := s.run("show", "web", "--target-service-account", "deployer")
	if err != nil || strings.Contains(out, missing) {
		t.Errorf("expected that nothing is wrong with the Target, but found %s %v", out, err)
	}
}
