package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	itemLabel = "container.pergola.dev/item"
	partLabel = "container.pergola.dev/part"
)

// kinds are those of all objects that the container deployer creates.
var kinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Pod"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// pod returns the Pod of a container item, once there is one that meets a condition.
func (w *world) pod(name string, condition func(*corev1.Pod) bool) (found *corev1.Pod) {
	w.Helper()
	uid := w.uid(name)
	w.eventually("the Pod of deploy item "+name, func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		if err := admin.List(ctx, pods, client.InNamespace(podNamespace), client.MatchingLabels{itemLabel: uid}); err != nil {
			return "", err
		}
		i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return condition(&p) })
		if i < 0 {
			return fmt.Sprintf("%d other Pods", len(pods.Items)), nil
		}
		found = &pods.Items[i]
		return "", nil
	})
	return found
}

// objects returns all objects of a deploy item, in any namespace.
func (w *world) objects(uid string) (all []metav1.PartialObjectMetadata) {
	w.Helper()
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := admin.List(w.Context(), list, client.MatchingLabels{itemLabel: uid}); err != nil {
			w.Fatal(err)
		}
		for _, o := range list.Items {
			o.SetGroupVersionKind(kind)
			all = append(all, o)
		}
	}
	return all
}

// secrets returns the names of the Secrets of a part of an item's runs.
func (w *world) secrets(name, part string) (names []string) {
	w.Helper()
	for _, o := range w.objects(w.uid(name)) {
		if o.Kind == "Secret" && o.Labels[partLabel] == part {
			names = append(names, o.Name)
		}
	}
	return names
}

// mustHaveOnly waits until there is nothing of a deploy item but some parts: a Pod needs some time to go.
func (w *world) mustHaveOnly(uid string, parts ...string) {
	w.Helper()
	w.eventually("all but "+strings.Join(parts, " and ")+" to be gone", func(context.Context) (string, error) {
		var found []string
		for _, o := range w.objects(uid) {
			if !slices.Contains(parts, o.Labels[partLabel]) {
				found = append(found, fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name))
			}
		}
		return strings.Join(found, ", "), nil
	})
}

// mustHaveRun checks which operations main has run for, in their order.
func (w *world) mustHaveRun(name string, operations ...string) {
	w.Helper()
	var found []string
	for _, m := range w.runs(name) {
		found = append(found, m.operation)
	}
	if !slices.Equal(found, operations) {
		w.Errorf("expected main of %s to run for %v, but it has run for %v", name, operations, found)
	}
}

// awaitRuns waits until containers of a deploy item have marked so many runs, and returns them.
func (w *world) awaitRuns(name string, n int) (runs []mark) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d runs of deploy item %s", n, name), func(context.Context) (string, error) {
		if runs = w.runs(name); len(runs) < n {
			return fmt.Sprintf("there are %v", runs), nil
		}
		return "", nil
	})
	return runs
}

// mark is what a container has written that has run.
type mark struct{ pod, operation string }

// runs returns what the containers of a deploy item have marked.
func (w *world) runs(name string) (all []mark) {
	w.Helper()
	file, err := os.Open(filepath.Join(marks, "marks"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m mark
		for _, field := range strings.Fields(lines.Text()) {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "pod":
				m.pod = value
			case "operation":
				m.operation = value
			}
		}
		hash, ok := strings.CutPrefix(m.pod, w.namespace+"-"+name+"-")
		if ok && !strings.Contains(hash, "-") {
			all = append(all, m)
		}
	}
	return all
}
