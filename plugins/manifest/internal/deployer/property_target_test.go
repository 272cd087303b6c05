package deployer_test

import (
	"encoding/base64"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The target of the property test, in the terms of the model.

const (
	kindConfigMap   = "ConfigMap"
	kindSecret      = "Secret"
	kindService     = "Service"
	kindRose        = "Rose"
	kindClusterRole = "ClusterRole"
)

func isClusterScoped(at slot) bool { return at.kind == kindClusterRole }

// slots are the places for objects. The name of a cluster-scoped one is that of the namespace, so that no two games share it.
var slots = []slot{
	{kindConfigMap, "a"}, {kindConfigMap, "b"}, {kindSecret, "a"}, {kindService, "a"}, {kindRose, "a"}, {kindClusterRole, ""},
}

// kindOnTarget says where objects of a kind are, and where in them their values.
type kindOnTarget struct {
	resource schema.GroupVersionResource
	values   []string
}

// playground is a namespace on the target, and the cluster-scoped objects of its name.
type playground struct {
	*world

	kinds map[string]kindOnTarget
}

// newPlayground returns a world with a namespace of its own, in which all else is that of the world.
func (w *world) newPlayground() playground {
	inner := *w.Host
	inner.World = w.At(w.Create(namespaces, object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"generateName": "game-"},
	}).GetName())
	p := playground{world: &world{&inner}, kinds: map[string]kindOnTarget{
		kindConfigMap:   {configMaps, []string{"data"}},
		kindSecret:      {secrets, []string{"data"}},
		kindService:     {services, []string{"metadata", "annotations"}},
		kindRose:        {w.roses(), []string{"spec"}},
		kindClusterRole: {roles, []string{"metadata", "annotations"}},
	}}
	p.DeleteAfter(roles, p.Namespace)
	return p
}

func (p playground) objectsOf(kind string) dynamic.ResourceInterface {
	return p.Objects(p.kinds[kind].resource)
}

func (p playground) nameOf(at slot) string {
	if isClusterScoped(at) {
		return p.Namespace
	}
	return at.name
}

// manifest returns the object with the fields.
func (p playground) manifest(at slot, f fields) object {
	o := p.part(at, f)
	o["apiVersion"], o["kind"] = p.kinds[at.kind].resource.GroupVersion().String(), at.kind
	metadata := sub(o, "metadata")
	metadata["name"] = p.nameOf(at)
	if !isClusterScoped(at) {
		metadata["namespace"] = p.Namespace
	}
	if at.kind == kindService {
		sub(o, "spec")["ports"] = []any{object{"port": int64(80)}}
	}
	if at.kind == kindRose {
		// Where a manifest that is applied does not have a map any more, and the kind has no schema of it, the API server drops the map with
		// the fields that others have in it.
		sub(o, "spec")
	}
	return o
}

// part returns the fields alone, as a JSON merge patch has them.
func (p playground) part(at slot, f fields) object {
	o := object{}
	for name, value := range f {
		section, key, _ := strings.Cut(name, "/")
		switch section {
		case fieldRest:
		case fieldImmutable:
			o[fieldImmutable] = value == "true"
		case "labels", "annotations":
			sub(o, "metadata", section)[key] = orNull(value)
		default:
			sub(o, p.kinds[at.kind].values...)[key] = orNull(encoded(at, value))
		}
	}
	return o
}

func orNull(value string) any {
	if value == null {
		return nil
	}
	return value
}

func encoded(at slot, value string) string {
	if at.kind == kindSecret && value != null {
		return base64.StdEncoding.EncodeToString([]byte(value))
	}
	return value
}

// sub returns the map at a path of an object, which is made if there is none.
func sub(o object, path ...string) object {
	for _, name := range path {
		inner, ok := o[name].(object)
		if !ok {
			inner = object{}
			o[name] = inner
		}
		o = inner
	}
	return o
}

// fieldsOf is the inverse of manifest.
func (p playground) fieldsOf(at slot, o *unstructured.Unstructured) (fields, error) {
	f := fields{fieldRest: ""}
	for name, value := range o.GetLabels() {
		f["labels/"+name] = value
	}
	if made, ok := o.GetAnnotations()["example.org/made"]; ok {
		f[fieldMade] = made
	}
	if o.Object[fieldImmutable] == true {
		f[fieldImmutable] = "true"
	}
	values := map[string]string{}
	// A map whose fields were all applied by one manager, and is now empty, is null if another manager has it too.
	if found, ok, err := unstructured.NestedFieldNoCopy(o.Object, p.kinds[at.kind].values...); err != nil {
		return nil, err
	} else if ok && found != nil {
		if values, _, err = unstructured.NestedStringMap(o.Object, p.kinds[at.kind].values...); err != nil {
			return nil, err
		}
	}
	for name, value := range values {
		if "annotations/"+name == fieldMade {
			continue
		}
		if at.kind == kindSecret {
			text, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, err
			}
			value = string(text)
		}
		f[valuePrefix+name] = value
	}
	return f, nil
}

// look returns all objects. It gets them one by one, since lists have to wait until the cache of the API server is up to date.
func (p playground) look() (map[slot]*unstructured.Unstructured, error) {
	var mu sync.Mutex
	all := map[slot]*unstructured.Unstructured{}
	var looks errgroup.Group
	for _, at := range slots {
		looks.Go(func() error {
			o, err := p.objectsOf(at.kind).Get(p.Context(), p.nameOf(at), metav1.GetOptions{})
			if err != nil {
				return client.IgnoreNotFound(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all[at] = o
			return nil
		})
	}
	return all, looks.Wait()
}
