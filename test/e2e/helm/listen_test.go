package helm

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// sayings are the versions of items in which Helm's operations get in each other's way, although all are the item's own.
type sayings struct {
	mu       sync.Mutex
	versions int
	wrong    []string
}

// listen reads what the items of the world say from now on.
func (w *world) listen() *sayings {
	w.Helper()
	stream, err := admin.Watch(w.Context(), &v1alpha1.DeployItemList{}, client.InNamespace(w.namespace))
	if err != nil {
		w.Fatal(err)
	}
	s := &sayings{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range stream.ResultChan() {
			if item, ok := event.Object.(*v1alpha1.DeployItem); ok {
				s.hear(item)
			}
		}
	}()
	w.Cleanup(func() {
		stream.Stop()
		<-ended
	})
	return s
}

func (s *sayings) hear(item *v1alpha1.DeployItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions++
	texts := []string{}
	for _, c := range item.Status.Conditions {
		texts = append(texts, c.Message)
	}
	for _, e := range append(item.Status.LastErrors, item.Status.LastError) {
		if e != nil {
			texts = append(texts, e.Message)
		}
	}
	for _, text := range texts {
		if strings.Contains(text, "another operation") || strings.Contains(text, "somebody else") {
			s.wrong = append(s.wrong, fmt.Sprintf("%s: %s", item.Name, text))
		}
	}
}

// check checks that nobody was told that another operation is in progress.
func (s *sayings) check(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == 0 {
		t.Error("no item has said anything")
	}
	for _, wrong := range s.wrong {
		t.Errorf("expected no word of other operations, but found %s", wrong)
	}
}
