package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func decodeYAML(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

func TestItemsShow(t *testing.T) {
	s := newShop(t)
	s.target("here")
	item := s.item("web", setJob("job-1"), beginJob, succeed, setJob("job-2"), beginJob, waitFor("a miracle"), func(i *v1alpha1.DeployItem) {
		i.Spec.Target = &v1alpha1.ObjectReference{Name: "here"}
		i.Status.ExportReference = &v1alpha1.ObjectReference{Name: "web-export", Namespace: s.namespace}
	})
	s.create(&v1alpha1.SyncObject{ObjectMeta: s.named("helm-" + string(item.UID)), Spec: v1alpha1.SyncObjectSpec{
		PodName: "pergola-7", Kind: "DeployItem", Name: "web", Prefix: "helm", LastUpdateTime: v1alpha1.Now(),
	}})
	regarding := corev1.ObjectReference{Kind: "DeployItem", Namespace: s.namespace, Name: "web", UID: item.UID}
	s.create(&eventsv1.Event{
		ObjectMeta: s.named("web-event"), EventTime: metav1.NowMicro(), ReportingController: "pergola", ReportingInstance: "pergola-7",
		Action: "Reconcile", Reason: "Noticed", Regarding: regarding, Note: "it is there", Type: "Normal",
	})
	s.allow("guest", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"deployitems", "targets"}})

	out, code, err := s.run("show", "web")
	if code != 0 {
		t.Fatal(err)
	}
	for _, text := range []string{
		"DeployItem " + s.namespace + "/web", "Phase:        Progressing", "Target:       here",
		"pergola-7", "Waiting for:  a miracle", "in the Secret web-export", "Noticed", "it is there", "job-2", "of 10m",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("expected %q in\n%s", text, out)
		}
	}
	for _, text := range []string{"t0ps3cret", "Could not be read", "does not resolve"} {
		if strings.Contains(out, text) {
			t.Errorf("expected no %q in\n%s", text, out)
		}
	}

	out, code, err = s.run("show", "web", "-o", "yaml")
	var printed v1alpha1.DeployItem
	decodeYAML(t, out, &printed)
	if code != 0 || printed.Status.JobID != "job-2" || strings.Contains(out, "t0ps3cret") {
		t.Errorf("expected the item without its configuration, but found %v:\n%s", err, out)
	}

	out, code, err = s.run("show", "web", "--kubeconfig", s.as("guest"))
	if code != 0 {
		t.Fatal(err)
	}
	for _, text := range []string{"does not resolve:", `secrets "here" is forbidden`, "list locks: ", "list events: "} {
		if !strings.Contains(out, text) {
			t.Errorf("a guest: expected %q in\n%s", text, out)
		}
	}

	for name, args := range map[string][]string{"there is no DeployItem": {"show", "nobody"}, "expected ITEM": {"show"}} {
		if _, code, err := s.run(args...); code != exitFailure || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: expected %q and the code %d, but found %d: %v", args, name, exitFailure, code, err)
		}
	}
}

// TestItemsOfATargetWithoutAccount: a Target that names no ServiceAccount acts as the one that the operator says, for the commands, too.
func TestItemsOfATargetWithoutAccount(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.create(&corev1.ServiceAccount{ObjectMeta: s.named("deployer")})
	s.create(&v1alpha1.Target{ObjectMeta: s.named("here"), Spec: v1alpha1.TargetSpec{
		Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: []byte(`{"selfConfig":{}}`)},
	}})
	s.item("web", on("here"))
	const missing = "selfConfig.serviceAccount.name"
	if out, _, err := s.run("show", "web"); !strings.Contains(fmt.Sprint(out, err), missing) {
		t.Errorf("expected what the Target lacks, but found %s %v", out, err)
	}
	if out, _, err := s.run("show", "web", "--target-service-account", "deployer"); err != nil || strings.Contains(out, missing) {
		t.Errorf("expected that nothing is wrong with the Target, but found %s %v", out, err)
	}
}
