package target_test //nolint:testableexamples // it serves until a host ends it

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// config is the provider configuration.
type config struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Namespace  string            `json:"namespace"`
	Data       map[string]string `json:"data"`
}

const (
	statusVersion = "settings.example.org/v1"
	statusKind    = "SettingsStatus"
)

// status is the provider status: where the ConfigMap is.
type status struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// deployer deploys a ConfigMap for each item.
type deployer struct {
	targets *target.Cache
}

// Reconcile applies the ConfigMap.
func (d *deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	var c config
	if err := req.DecodeConfig(&c); err != nil {
		return nil, err
	}
	s := status{APIVersion: statusVersion, Kind: statusKind, Namespace: c.Namespace, Name: req.DeployItem.Name}
	saved, err := savedStatus(req)
	switch {
	case err != nil:
		return nil, err
	case saved != nil && *saved != s:
		return nil, sdk.ConfigurationError("NamespaceChanged",
			"spec.config.namespace: expected %q, where the ConfigMap is, but found %q", saved.Namespace, s.Namespace)
	case s.Namespace == "":
		return nil, sdk.ConfigurationError("NamespaceMissing", "spec.config.namespace: expected a namespace")
	}
	client, err := d.targets.For(req.Target)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		if err := req.SaveProviderStatus(ctx, s); err != nil {
			return nil, err // nothing may be created
		}
	}
	ctx = apiserver.WithBreaker(ctx) // a silent cluster ends the call soon
	_, err = client.Core().ConfigMaps(s.Namespace).Apply(ctx, corev1ac.ConfigMap(s.Name, s.Namespace).WithData(c.Data),
		metav1.ApplyOptions{FieldManager: "settings", Force: true})
	return nil, target.Explain(client.Host, err)
}

// Delete deletes the ConfigMap. One that is not there is deleted.
func (d *deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	saved, err := savedStatus(req)
	if err != nil || saved == nil { // nothing was created
		return nil, err
	}
	client, err := d.targets.For(req.Target)
	if err != nil {
		return nil, target.WithWaysOut(err)
	}
	ctx = apiserver.WithBreaker(ctx)
	err = client.Core().ConfigMaps(saved.Namespace).Delete(ctx, saved.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return nil, target.WithWaysOut(target.Explain(client.Host, err))
}

// savedStatus returns the saved provider status; nil for none.
func savedStatus(req *sdk.Request) (*status, error) {
	var s status
	found, err := req.DecodeProviderStatus(&s, statusKind, statusVersion)
	if err != nil || !found {
		return nil, err
	}
	return &s, nil
}

func Example() {
	sdk.Serve(&deployer{targets: target.NewCache("settings/1.0")}, sdk.Name("settings"), sdk.Types("example.org/settings"))
}
