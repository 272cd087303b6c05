package testenv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// FakeClient returns a client of an API server that is not there: controller-runtime's fake client, with what it lacks
// of an API server and the hosts rely on. Objects get a UID, and deploy items a generation and who has written their
// status; what the CustomResourceDefinitions do not allow is refused, as is a patch for an object with another UID. It
// has no namespaces that end, no pages of lists, no limits of sizes and no defaults.
func FakeClient() (client.WithWatch, error) {
	parts, err := newFakeParts()
	if err != nil {
		return nil, err
	}
	objects := clienttesting.NewObjectTracker(parts.scheme, parts.decoder)
	return fake.NewClientBuilder().WithScheme(parts.scheme).
		WithObjectTracker(&store{ObjectTracker: objects, fakeParts: parts}).
		WithStatusSubresource(&v1alpha1.DeployItem{}).
		WithGlobalResourceVersionCounter().
		WithReturnManagedFields().
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				there, err := metadataOf(ctx, c, obj)
				if err != nil || there.DeletionTimestamp != nil { // once more changes nothing
					return err
				}
				return c.Delete(ctx, obj, opts...)
			},
			Patch: func(
				ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
			) error {
				if err := checkUID(ctx, c, obj, patch); err != nil {
					return err
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption,
			) error {
				if err := checkUID(ctx, c, obj, patch); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		}).Build(), nil
}

// fakeParts is what all fake clients share: it takes long to make.
type fakeParts struct {
	scheme     *runtime.Scheme
	decoder    runtime.Decoder
	validators map[schema.GroupKind]*validate.SchemaValidator
}

var newFakeParts = sync.OnceValues(func() (*fakeParts, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	p := &fakeParts{
		scheme: scheme, decoder: serializer.NewCodecFactory(scheme).UniversalDecoder(),
		validators: map[schema.GroupKind]*validate.SchemaValidator{},
	}
	definitions, err := Definitions()
	if err != nil {
		return nil, err
	}
	for _, d := range definitions {
		for _, version := range d.Spec.Versions {
			raw, err := json.Marshal(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, fmt.Errorf("encode schema of %s: %w", d.Name, err)
			}
			openAPI := &spec.Schema{}
			if err := json.Unmarshal(raw, openAPI); err != nil {
				return nil, fmt.Errorf("decode schema of %s: %w", d.Name, err)
			}
			validator := validate.NewSchemaValidator(openAPI, nil, "", strfmt.Default)
			p.validators[schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}] = validator
		}
	}
	return p, nil
})

// metadataOf reads the metadata of an object.
func metadataOf(ctx context.Context, c client.Client, obj client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return nil, err
	}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(gvk)
	return there, c.Get(ctx, client.ObjectKeyFromObject(obj), there)
}

// checkUID refuses a patch for an object with another UID.
func checkUID(ctx context.Context, c client.Client, obj client.Object, patch client.Patch) error {
	raw, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var fields struct{ Metadata struct{ UID types.UID } }
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	if fields.Metadata.UID == "" {
		return nil
	}
	there, err := metadataOf(ctx, c, obj)
	if err == nil && there.UID != fields.Metadata.UID {
		gvk := there.GroupVersionKind()
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		err = apierrors.NewConflict(gvr.GroupResource(), obj.GetName(), errors.New("the UID is another one"))
	}
	return err
}

// store keeps the objects of a fake client, and sets the metadata that an API server sets.
type store struct {
	clienttesting.ObjectTracker
	*fakeParts
}

func (s *store) Create(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.CreateOptions,
) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	object.SetUID(types.UID(uuid.NewString()))
	object.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	object.SetGeneration(1)
	if item, ok := obj.(*v1alpha1.DeployItem); ok {
		item.Status = v1alpha1.DeployItemStatus{}
	}
	if err := s.validate(obj); err != nil {
		return err
	}
	return s.ObjectTracker.Create(gvr, obj, ns, opts...)
}

func (s *store) Update(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.UpdateOptions,
) error {
	manager := "somebody"
	for _, o := range opts {
		manager = cmp.Or(o.FieldManager, manager)
	}
	if err := s.change(gvr, obj, ns, manager); err != nil {
		return err
	}
	return s.ObjectTracker.Update(gvr, obj, ns)
}

// Patch takes an object that is patched already.
func (s *store) Patch(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, opts ...metav1.PatchOptions,
) error {
	var update []metav1.UpdateOptions
	for _, o := range opts {
		update = append(update, metav1.UpdateOptions{FieldManager: o.FieldManager})
	}
	return s.Update(gvr, obj, ns, update...)
}

// change sets what an API server sets when an object is changed.
func (s *store) change(gvr schema.GroupVersionResource, obj runtime.Object, ns, manager string) error {
	after, ok := obj.(*v1alpha1.DeployItem)
	if !ok {
		return s.validate(obj)
	}
	there, err := s.Get(gvr, ns, after.Name)
	if err != nil {
		return err
	}
	before, ok := there.(*v1alpha1.DeployItem)
	if !ok {
		return fmt.Errorf("found %T instead of a deploy item", there)
	}
	after.Generation = before.Generation
	if differ(before.Spec, after.Spec) || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
		after.Generation++
	}
	if differ(before.Status, after.Status) {
		setStatusManager(after, manager)
	}
	return s.validate(obj)
}

// differ reports whether two values differ as JSON, as which an API server has them.
func differ(a, b any) bool {
	before, err := json.Marshal(a)
	after, err2 := json.Marshal(b)
	return err != nil || err2 != nil || !bytes.Equal(before, after)
}

// setStatusManager notes who has written the status last, and when.
func setStatusManager(item *v1alpha1.DeployItem, manager string) {
	now := metav1.Now().Rfc3339Copy()
	for i := range item.ManagedFields {
		if item.ManagedFields[i].Manager == manager {
			item.ManagedFields[i].Time = &now
			return
		}
	}
	item.ManagedFields = append(item.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: &now,
	})
}

// validate refuses an object that its CustomResourceDefinition does not allow.
func (s *store) validate(obj runtime.Object) error {
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		return err
	}
	validator := s.validators[gvk.GroupKind()]
	if validator == nil {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	if item, ok := obj.(*v1alpha1.DeployItem); ok && !differ(item.Status, v1alpha1.DeployItemStatus{}) {
		delete(fields, "status") // nobody has written one yet
	}
	result := validator.Validate(fields)
	if result.IsValid() {
		return nil
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	refused := field.ErrorList{field.Invalid(nil, object.GetName(), result.AsError().Error())}
	return apierrors.NewInvalid(gvk.GroupKind(), object.GetName(), refused)
}
