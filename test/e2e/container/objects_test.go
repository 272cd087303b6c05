package container

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

// kinds are those of all objects that the deployer creates, and one that it does not.
var kinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Pod"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
}

// objects returns all objects of a deploy item, in any namespace.
func (w *world) objects(uid string) []metav1.PartialObjectMetadata {
	w.Helper()
	var all []metav1.PartialObjectMetadata
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
func (w *world) secrets(name, part string) []string {
	w.Helper()
	var names []string
	for _, o := range w.objects(w.uid(name)) {
		if o.Kind == "Secret" && o.Labels[partLabel] == part {
			names = append(names, o.Name)
		}
	}
	return names
}

// mustHaveNothing checks that there is nothing of a deploy item.
func (w *world) mustHaveNothing(uid string) {
	w.Helper()
	for _, o := range w.objects(uid) {
		w.Errorf("left over: %s %s/%s", o.Kind, o.Namespace, o.Name)
	}
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

// runs returns what the containers of a deploy item have marked.
func (w *world) runs(name string) []mark {
	w.Helper()
	all := allMarks(w.T)
	prefix := w.namespace + "-" + name + "-"
	return slices.DeleteFunc(all, func(m mark) bool {
		hash, ok := strings.CutPrefix(m.pod, prefix)
		return !ok || strings.Contains(hash, "-")
	})
}

// mark is what a container has written that has run.
type mark struct{ pod, operation string }

// allMarks reads what the containers of all tests have marked.
func allMarks(t *testing.T) []mark {
	t.Helper()
	dir, err := marks()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(dir, "marks"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was read
	var all []mark
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
		all = append(all, m)
	}
	return all
}

func unmarshal(raw []byte, into any) error { return json.Unmarshal(raw, into) }
