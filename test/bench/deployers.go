package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const targetName = "target"

// startDeployers starts a host with the real deployers, alone, and waits until it is ready. The caller stops it.
func (b *bench) startDeployers(ctx context.Context) (*testenv.Host, error) {
	host, err := testenv.StartHost(ctx, testenv.HostOptions{Binary: b.binary, Kubeconfig: b.controlPlane.Kubeconfig, PluginDir: b.deployers})
	if err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := host.WaitReady(ready); err != nil {
		return nil, errors.Join(err, stopHost(ctx, host))
	}
	return host, nil
}

func stopHost(ctx context.Context, host *testenv.Host) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return host.Stop(ctx)
}

// createTarget creates a Target for the items of a fleet, which is this cluster.
func (f *fleet) createTarget(ctx context.Context) error {
	kubeconfig, err := testenv.InlineKubeconfig(f.controlPlane.Config)
	if err != nil {
		return err
	}
	content, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	if err != nil {
		return fmt.Errorf("marshal Target: %w", err)
	}
	err = f.admin.Create(ctx, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: targetName},
		Spec:       v1alpha1.TargetSpec{Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: content}},
	})
	if err != nil {
		return fmt.Errorf("create Target: %w", err)
	}
	return nil
}

// newItem returns an item for the Target.
func (f *fleet) newItem(name string, itemType v1alpha1.DeployItemType, config []byte) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.namespace, Name: name,
			Annotations: map[string]string{
				v1alpha1.DeployerTypeAnnotation: string(itemType), v1alpha1.DeployerTargetNameAnnotation: targetName,
			},
		},
		Spec: v1alpha1.DeployItemSpec{
			Type: itemType, Context: v1alpha1.DefaultContextName, Config: &runtime.RawExtension{Raw: config},
			Target: &v1alpha1.ObjectReference{Namespace: f.namespace, Name: targetName},
		},
	}
}
