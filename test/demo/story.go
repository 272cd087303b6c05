package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// story is what the demo shows, in order.
type story struct {
	client client.Client
	out    io.Writer
	table  *table
	// registry has the chart of the helm example.
	registry *chartserver.Registry
	// containers: the cluster runs Pods.
	containers bool
}

// tell has the examples carried out, updated and deleted, and shows what comes of them.
func (s *story) tell(ctx context.Context, targetKubeconfig []byte) error {
	if err := s.createTarget(ctx, targetKubeconfig); err != nil {
		return err
	}
	if err := createContext(ctx, s.client, s.registry); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.watch(ctx, finished, s.ends()); err != nil {
		return err
	}
	if err := s.showDeployed(ctx, "green", "3", "good morning"); err != nil {
		return err
	}
	if err := s.showMistake(ctx); err != nil {
		return err
	}
	s.heading("An update: the ConfigMap's colour becomes red, the climbing rose is taken out of its item, the shop greets in the evening")
	if err := s.updateManifest(ctx); err != nil {
		return err
	}
	if err := s.updateChart(ctx); err != nil {
		return err
	}
	if s.containers {
		if err := s.updateContainer(ctx); err != nil {
			return err
		}
	}
	if err := s.watch(ctx, finished, s.ends()); err != nil {
		return err
	}
	if err := s.showDeployed(ctx, "red", absent, "good evening"); err != nil {
		return err
	}
	s.heading("A deletion: kubectl delete deployitems --all")
	if err := s.client.DeleteAllOf(ctx, &v1alpha1.DeployItem{}, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("delete deploy items: %w", err)
	}
	if err := s.watch(ctx, func(items []v1alpha1.DeployItem) bool { return len(items) == 0 }, phases{}); err != nil {
		return err
	}
	return s.showDeployed(ctx, absent, absent, absent)
}

// ends are the phases that the items end with.
func (s *story) ends() phases {
	ends := phases{"mock": succeeded, "manifest": succeeded, "helm": succeeded, "mistake": failed}
	if s.containers {
		ends["container"] = succeeded
	}
	return ends
}

// begin creates the examples.
func (s *story) begin(ctx context.Context) error {
	names, count := []string{"mock", "manifest", "helm", "mistake"}, "Four"
	if s.containers {
		names, count = append(names, "container"), "Five"
	}
	s.heading(count + " DeployItems: test/examples/{" + strings.Join(names, ",") + "}.yaml")
	for _, name := range names {
		if err := s.apply(ctx, name+".yaml"); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) heading(text string) {
	fmt.Fprintf(s.out, "\n== %s\n", text)
}

// createTarget creates the Target of the examples, with its kubeconfig in a secret.
func (s *story) createTarget(ctx context.Context, kubeconfig []byte) error {
	meta := metav1.ObjectMeta{Name: "cluster", Namespace: namespace}
	objects := []client.Object{
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"kubeconfig": kubeconfig}},
		&v1alpha1.Target{ObjectMeta: meta, Spec: v1alpha1.TargetSpec{
			Type:      v1alpha1.KubernetesClusterTargetType,
			SecretRef: &v1alpha1.LocalSecretReference{Name: meta.Name, Key: "kubeconfig"},
		}},
	}
	for _, object := range objects {
		if err := s.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create target: %w", err)
		}
	}
	return nil
}

func (s *story) apply(ctx context.Context, file string) error {
	content, err := os.ReadFile(filepath.Join(testenv.Root(), "test", "examples", file))
	if err != nil {
		return fmt.Errorf("read example: %w", err)
	}
	content = bytes.ReplaceAll(content, []byte(exampleRegistry), []byte(s.registry.Host()))
	item := &v1alpha1.DeployItem{}
	if err := yaml.UnmarshalStrict(content, item); err != nil {
		return fmt.Errorf("read example %s: %w", file, err)
	}
	item.Namespace = namespace
	if err := s.client.Create(ctx, item); err != nil {
		return fmt.Errorf("create example %s: %w", file, err)
	}
	return nil
}

// updateManifest changes the ConfigMap of the manifest example and leaves out its last manifest.
func (s *story) updateManifest(ctx context.Context) error {
	return s.update(ctx, "manifest", func(config map[string]any) error {
		manifests, _, err := unstructured.NestedSlice(config, "manifests")
		if err != nil || len(manifests) < 2 {
			return errors.Join(errors.New("the example has fewer manifests than expected"), err)
		}
		first, ok := manifests[0].(map[string]any)
		if !ok {
			return errors.New("the example's first manifest is no object")
		}
		if err := unstructured.SetNestedField(first, "red", "manifest", "data", "colour"); err != nil {
			return fmt.Errorf("change colour: %w", err)
		}
		config["manifests"] = manifests[:len(manifests)-1]
		return nil
	})
}

// updateChart changes a value of the helm example.
func (s *story) updateChart(ctx context.Context) error {
	return s.update(ctx, "helm", func(config map[string]any) error {
		return unstructured.SetNestedField(config, "good evening", "values", "greeting")
	})
}

// updateContainer changes an import value of the container example, so that it is run again.
func (s *story) updateContainer(ctx context.Context) error {
	return s.update(ctx, "container", func(config map[string]any) error {
		return unstructured.SetNestedField(config, "good evening", "importValues", "greeting")
	})
}

// update changes the provider configuration of an item.
func (s *story) update(ctx context.Context, name string, change func(config map[string]any) error) error {
	item := &v1alpha1.DeployItem{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, item); err != nil {
		return fmt.Errorf("read deploy item: %w", err)
	}
	before := item.DeepCopy()
	var config map[string]any
	if err := json.Unmarshal(item.Spec.Config.Raw, &config); err != nil {
		return fmt.Errorf("read provider configuration: %w", err)
	}
	if err := change(config); err != nil {
		return err
	}
	var err error
	if item.Spec.Config.Raw, err = json.Marshal(config); err != nil {
		return fmt.Errorf("write provider configuration: %w", err)
	}
	if err := s.client.Patch(ctx, item, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("update deploy item: %w", err)
	}
	return nil
}

// phases are what a chapter of the story must end with, by item. A demo that goes wrong fails.
type phases map[string]v1alpha1.DeployItemPhase

const (
	succeeded = v1alpha1.DeployItemPhaseSucceeded
	failed    = v1alpha1.DeployItemPhaseFailed
	// absent is the value of an object that is not there.
	absent = ""
)

// watch shows the items until a condition holds, and checks how they ended.
func (s *story) watch(ctx context.Context, done func([]v1alpha1.DeployItem) bool, want phases) error {
	s.table.begin()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		list := &v1alpha1.DeployItemList{}
		if err := s.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list deploy items: %w", err)
		}
		s.table.show(list.Items)
		if done(list.Items) {
			return check(list.Items, want)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the deploy items: %w", ctx.Err())
		}
	}
}

func check(items []v1alpha1.DeployItem, want phases) error {
	got := phases{}
	for _, item := range items {
		got[item.Name] = item.Status.Phase
		if item.Status.LastError != nil && want[item.Name] == succeeded {
			return fmt.Errorf("deploy item %q was to succeed: %s", item.Name, item.Status.LastError.Message)
		}
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("the deploy items were to end as %v, but did as %v", want, got)
	}
	return nil
}

func finished(items []v1alpha1.DeployItem) bool {
	return !slices.ContainsFunc(items, func(item v1alpha1.DeployItem) bool {
		status := item.Status
		return status.JobID == "" || status.JobID != status.JobIDFinished || status.ObservedGeneration != item.Generation
	})
}

// showDeployed shows what the examples have on the target, and what the items export, and checks the ConfigMap's colour, the rose's height
// and the greeting of the chart.
func (s *story) showDeployed(ctx context.Context, colour, height, greeting string) error {
	fmt.Fprintln(s.out, "\nOn the target cluster:")
	for _, object := range []struct {
		group, version, kind, name string
		path                       []string
		want                       string
	}{
		{"", "v1", "ConfigMap", "settings", []string{"data", "colour"}, colour},
		{"garden.example.org", "v1", "Rose", "climbing", []string{"spec", "height"}, height},
		{"", "v1", "ConfigMap", "shop-plain-greeting", []string{"data", "greeting"}, greeting},
	} {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(schema.GroupVersionKind{Group: object.group, Version: object.version, Kind: object.kind})
		err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object.name}, found)
		label := fmt.Sprintf("  %s %s/%s", object.kind, namespace, object.name)
		got := absent
		switch {
		case gone(err):
			fmt.Fprintf(s.out, "%-52s is not there\n", label)
		case err != nil:
			return fmt.Errorf("read %s: %w", object.kind, err)
		default:
			value, _, _ := unstructured.NestedFieldNoCopy(found.Object, object.path...)
			got = fmt.Sprint(value)
			fmt.Fprintf(s.out, "%-52s %s: %s\n", label, strings.Join(object.path, "."), got)
		}
		if got != object.want {
			return fmt.Errorf("%s %q was to have %q, but has %q", object.kind, object.name, object.want, got)
		}
	}
	return s.showExports(ctx)
}

// gone tells whether an object is not there, or its whole kind.
func gone(err error) bool {
	return apierrors.IsNotFound(err) || isNoMatch(err)
}

func (s *story) showExports(ctx context.Context) error {
	list := &v1alpha1.DeployItemList{}
	if err := s.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list deploy items: %w", err)
	}
	for _, item := range list.Items {
		ref := item.Status.ExportReference
		if ref == nil {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
			return fmt.Errorf("read export: %w", err)
		}
		fmt.Fprintf(s.out, "Export of %q, in Secret %s: %s\n", item.Name, ref.Name, secret.Data["config"])
	}
	return nil
}

func (s *story) showMistake(ctx context.Context) error {
	item := &v1alpha1.DeployItem{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "mistake"}, item); err != nil {
		return fmt.Errorf("read deploy item: %w", err)
	}
	if item.Status.LastError == nil {
		return errors.New("the deploy item with a mistake has no error")
	}
	fmt.Fprintf(s.out, "\nWhat is wrong with %q, in its status.lastError:\n  %v %s\n  %s\n",
		item.Name, item.Status.LastError.Codes, item.Status.LastError.Reason,
		strings.ReplaceAll(item.Status.LastError.Message, "\n", "\n  "))
	return nil
}

// describe lists processes by program.
func describe(children map[string][]int) string {
	var parts []string
	for _, program := range slices.Sorted(maps.Keys(children)) {
		parts = append(parts, fmt.Sprintf("%s %v", program, children[program]))
	}
	return strings.Join(parts, ", ")
}
