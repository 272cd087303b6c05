package items

import (
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
	guest := s.allow("guest", "get", deployItems, "targets."+v1alpha1.GroupName)
	s.expect([]itemsCase{
		{"everything", "show web", 0, []string{
			"DeployItem NS/web", "Phase:        Progressing", "Target:       here", "pergola-7", "Waiting for:  a miracle",
			"in the Secret web-export", "Noticed", "it is there", "job-2", "of 10m", "!Could not be read", "!does not resolve",
		}},
		{"without rights for all of it", "show web --kubeconfig " + guest, 0, []string{
			"does not resolve:", `secrets "here" is forbidden`, "list locks: ", "list events: ",
		}},
		{"without rights", "show web --kubeconfig " + s.as("stranger"), 2, []string{"read DeployItem", "your own rights"}},
		{"no such item", "show nobody", 2, []string{`there is no DeployItem "nobody" in the namespace "NS"`, "-n"}},
		{"another context of the kubeconfig", "show web --context other", 2, []string{
			`there is no DeployItem "web" in the namespace "elsewhere"`,
		}},
		{"no such context", "show web --context nowhere", 2, []string{"nowhere"}},
		{"the item", "show web -o yaml", 0, []string{"kind: DeployItem\n", "jobID: job-2\n"}},
	}...)
}
