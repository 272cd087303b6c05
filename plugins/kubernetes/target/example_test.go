package target_test //nolint:testableexamples // it serves until a host ends it

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// deployer deploys a ConfigMap for each item.
type deployer struct {
	targets *target.Cache
}

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// Reconcile applies the ConfigMap.
func (d *deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	client, err := d.targets.For(req.Target)
	if err != nil {
		return nil, err
	}
	ctx = apiserver.WithBreaker(ctx) // a silent cluster ends the call soon
	mapping, err := client.Mapping(ctx, configMap, time.Now())
	if err != nil {
		return nil, target.Explain(client.Host, err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(configMap)
	object.SetName(req.DeployItem.Name)
	_, err = client.Objects(mapping, "shop").Apply(ctx, object.GetName(), object,
		metav1.ApplyOptions{FieldManager: "settings", Force: true})
	return nil, target.Explain(client.Host, err)
}

// Delete deletes the ConfigMap.
func (d *deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	client, err := d.targets.For(req.Target)
	if err != nil {
		return nil, err
	}
	err = client.Core().ConfigMaps("shop").Delete(ctx, req.DeployItem.Name, metav1.DeleteOptions{})
	return nil, target.Explain(client.Host, err)
}

func Example() {
	sdk.Serve(&deployer{targets: target.NewCache("settings/1.0")}, sdk.Name("settings"), sdk.Types("example.org/settings"))
}
