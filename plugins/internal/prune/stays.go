package prune

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// stays are the objects to stay on the target, and the Namespaces, CustomResourceDefinitions and owners that stay
// with them: Kubernetes would delete the objects together with those. It is safe for concurrent use.
type stays struct {
	mu sync.Mutex
	// namespaces and definitions are by name, and owners by uid, each with an object it would take along.
	namespaces, definitions map[string]object.Key
	owners                  map[types.UID]object.Key
	// missing are those of the kept objects that do not exist.
	missing map[object.Key]bool
}

func newStays() *stays {
	return &stays{
		namespaces: map[string]object.Key{}, definitions: map[string]object.Key{},
		owners: map[types.UID]object.Key{}, missing: map[object.Key]bool{},
	}
}

// add notes an object that stays. resource is the resource of its kind.
func (s *stays) add(key object.Key, resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key.Namespace != "" {
		s.namespaces[key.Namespace] = key
	}
	s.definitions[resource.GroupResource().String()] = key
}

// with returns the reason for an object to stay with another one; empty if none would go with it.
func (s *stays) with(key object.Key, uid types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	inner, found := s.owners[uid]
	switch {
	case found:
	case isNamespace(key):
		inner, found = s.namespaces[key.Name]
	case object.IsCRD(key.Group, key.Kind):
		inner, found = s.definitions[key.Name]
	}
	if !found {
		return ""
	}
	return fmt.Sprintf("%s stays, and would be deleted with it", inner)
}

func isNamespace(key object.Key) bool { return key.Group == "" && key.Kind == "Namespace" }
