package hostside

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// The item is whole, and the target without its content, which goes beside it where hooks ask for it.
func TestHooksRequest(t *testing.T) {
	t.Parallel()
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Name: "item"}}
	document, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec: v1alpha1.TargetSpec{Type: "type",
			Configuration: &runtime.RawExtension{Raw: []byte(`{"kubeconfig":"secret"}`)}},
	}
	bare := []byte(`{"metadata":{"name":"cluster"},"spec":{"type":"type"}}`)
	nothing, nothingErr := (&HookCall{Type: hook.End}).Request()
	all, allErr := (&HookCall{Type: hook.End, DeployItem: item, Target: target}).Request()
	asked, askedErr := (&HookCall{Type: hook.End, DeployItem: item, Resolved: &v1alpha1.ResolvedTarget{
		Target: &v1alpha1.Target{ObjectMeta: target.ObjectMeta, Spec: v1alpha1.TargetSpec{Type: "type"}}, Content: "secret",
	}}).Request()
	missing, missingErr := (&HookCall{Type: hook.End, Problem: &Error{Reason: "NoTargetFound"}}).Request()
	want := []*deployerv1.RunHooksRequest{
		{HookType: "End"},
		{HookType: "End", DeployItem: document, Target: bare},
		{HookType: "End", DeployItem: document, ResolvedTarget: fmt.Appendf(nil, `{"target":%s,"content":"secret"}`, bare)},
		{HookType: "End", TargetProblem: &deployerv1.Error{Reason: "NoTargetFound"}},
	}
	diff := cmp.Diff(want, []*deployerv1.RunHooksRequest{nothing, all, asked, missing}, protocmp.Transform())
	if err := errors.Join(nothingErr, allErr, askedErr, missingErr); diff != "" || err != nil {
		t.Errorf("error %v, requests (-want +got):\n%s", err, diff)
	}
	if target.Spec.Configuration == nil {
		t.Error("the caller's target has changed")
	}
}
