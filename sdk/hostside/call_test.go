package hostside

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// The item is whole, and the target without its content.
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
	nothing, nothingErr := HooksRequest(hook.End, nil, nil)
	all, allErr := HooksRequest(hook.End, item, target)
	want := []*deployerv1.RunHooksRequest{{HookType: "End"}, {
		HookType: "End", DeployItem: document, Target: []byte(`{"metadata":{"name":"cluster"},"spec":{"type":"type"}}`),
	}}
	diff := cmp.Diff(want, []*deployerv1.RunHooksRequest{nothing, all}, protocmp.Transform())
	if err := errors.Join(nothingErr, allErr); diff != "" || err != nil {
		t.Errorf("error %v, requests (-want +got):\n%s", err, diff)
	}
	if target.Spec.Configuration == nil {
		t.Error("the caller's target has changed")
	}
}
