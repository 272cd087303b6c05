package local

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store has the objects of the files in the place of an API server. Their namespaces do not count: each is in the
// namespace in which it is looked for.
type store struct {
	client.Reader // nothing is listed

	objects []client.Object
}

// add adds an object with a new name.
func (s *store) add(object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if object.GetName() == "" {
		return errors.New("metadata.name is missing in a " + kind)
	}
	if s.find(object, object.GetName()) != nil {
		return fmt.Errorf("the %s %q is there twice; remove one of them", kind, object.GetName())
	}
	s.objects = append(s.objects, object)
	return nil
}

// find returns the object of a type with a name; nil if there is none.
func (s *store) find(like client.Object, name string) client.Object {
	for _, object := range s.objects {
		if reflect.TypeOf(object) == reflect.TypeOf(like) && object.GetName() == name {
			return object
		}
	}
	return nil
}

// Get implements client.Reader.
func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found := s.find(into, key.Name)
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found).Elem())
	into.SetNamespace(key.Namespace)
	return nil
}
