package testenv

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Objects reads the objects in a YAML file of the repository, whose path is relative to its root.
func Objects(path string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(filepath.Join(Root(), path))
	if err != nil {
		return nil, fmt.Errorf("read objects: %w", err)
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("read objects of %s: %w", path, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// NewTarget returns a Target with a kubeconfig inside.
func NewTarget(namespace, name string, kubeconfig []byte) (*v1alpha1.Target, error) {
	content, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	if err != nil {
		return nil, fmt.Errorf("write Target: %w", err)
	}
	return &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TargetSpec{
			Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: content},
		},
	}, nil
}

// conflicts is how often somebody else may write an object while Change does.
var conflicts = wait.Backoff{Steps: 100, Duration: 10 * time.Millisecond}

// Change reads an object of a Go type of its own, changes it and writes it, and does so again if somebody else has
// written it meanwhile. It is up to date afterwards; what was changed in it before does not count.
func Change(ctx context.Context, c client.Client, object client.Object, how func()) error {
	return retry.RetryOnConflict(conflicts, func() error {
		fresh := reflect.New(reflect.TypeOf(object).Elem()) // what is not there any more would stay in an old one
		into, ok := fresh.Interface().(client.Object)
		if !ok {
			return fmt.Errorf("change %T: expected a pointer to an object", object)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), into); err != nil {
			return err
		}
		reflect.ValueOf(object).Elem().Set(fresh.Elem())
		how()
		return c.Update(ctx, object)
	})
}

// SetJob sets a new job of an item as a Landscaper does, and returns it.
func SetJob(ctx context.Context, c client.Client, item *v1alpha1.DeployItem) (jobID string, err error) {
	jobID, now := uuid.NewString(), v1alpha1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"jobID": jobID, "jobIDGenerationTime": now, "observedGeneration": item.Status.ObservedGeneration,
		"transitionTimes": map[string]any{"triggerTime": now, "initTime": nil, "finishedTime": nil},
	}})
	if err == nil {
		err = c.Status().Patch(ctx, item, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		return "", fmt.Errorf("set a job for DeployItem %s: %w", item.Name, err)
	}
	return jobID, nil
}

// Exports returns the exports of an item; nil without any.
func Exports(ctx context.Context, c client.Client, item *v1alpha1.DeployItem) (exports map[string]any, err error) {
	ref := item.Status.ExportReference
	if ref == nil {
		return nil, nil //nolint:nilnil // an item need not export anything
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
	if err == nil {
		err = json.Unmarshal(secret.Data["config"], &exports)
	}
	if err != nil {
		return nil, fmt.Errorf("read exports of DeployItem %s: %w", item.Name, err)
	}
	return exports, nil
}

// Describe returns the state of an item for the message of a failed test.
func Describe(item *v1alpha1.DeployItem) string {
	s := item.Status
	text := fmt.Sprintf("phase %q, jobID %q, jobIDFinished %q", s.Phase, s.JobID, s.JobIDFinished)
	for _, c := range s.Conditions {
		text += fmt.Sprintf(", %s: %s", c.Type, c.Message)
	}
	if s.LastError != nil {
		text += fmt.Sprintf(", last error %s: %s", s.LastError.Reason, s.LastError.Message)
	}
	return text
}
