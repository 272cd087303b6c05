package inuse

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// reference names an object in the namespace of an item.
type reference struct{ kind, name string }

// The kinds of references.
const (
	kindTarget    = "Target"
	kindContext   = "Context"
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// uses are the objects of one namespace named by items, each with the creation of the oldest of these items.
type uses map[reference]metav1.Time

func (u uses) add(kind, name string, since metav1.Time) {
	r := reference{kind, name}
	if known, ok := u[r]; !ok || since.Before(&known) {
		u[r] = since
	}
}

// addItem adds the Target and the Context of an item, and the old Target of one that moves.
func (u uses) addItem(item *v1alpha1.DeployItem) {
	targetName, contextName := contract.ReferencesOf(item)
	if targetName != "" {
		u.add(kindTarget, targetName, item.CreationTimestamp)
	}
	if from := move.From(item); from != "" {
		u.add(kindTarget, from, item.CreationTimestamp)
	}
	u.add(kindContext, contextName, item.CreationTimestamp)
}

// addNamed adds the references of an object, if the object itself is used.
func (u uses) addNamed(object client.Object) {
	if since, used := u[reference{kindOf(object), object.GetName()}]; used {
		for _, r := range namedBy(object) {
			u.add(r.kind, r.name, since)
		}
	}
}

// namedBy returns the Secrets and the ConfigMap of a Target or a Context.
func namedBy(object client.Object) []reference {
	var named []reference
	switch object := object.(type) {
	case *v1alpha1.Target:
		if object.Spec.SecretRef != nil {
			named = append(named, reference{kindSecret, object.Spec.SecretRef.Name})
		}
	case *v1alpha1.Context:
		for _, name := range lscontext.SecretsOf(object) {
			named = append(named, reference{kindSecret, name})
		}
		if name := lscontext.ConfigMapOf(object); name != "" {
			named = append(named, reference{kindConfigMap, name})
		}
	}
	return named
}

// namedKinds are the kinds of namedBy's results, of the core API.
var namedKinds = []string{kindSecret, kindConfigMap}

func kindOf(object client.Object) string {
	switch object.(type) {
	case *v1alpha1.Target:
		return kindTarget
	case *v1alpha1.Context:
		return kindContext
	// This is metadata of namedBy's results.
	default:
		return object.GetObjectKind().GroupVersionKind().Kind
	}
}

// step is the next change of an object's finalizer.
type step string

const (
	stepNone   step = "none"
	stepAdd    step = "add"
	stepRemove step = "remove"
	// stepReport: the object is to be deleted, and stays until the items are gone.
	stepReport step = "report"
)

// next returns the step for an object. One under deletion takes no new finalizer.
func (u uses) next(object client.Object) step {
	since, used := u[reference{kindOf(object), object.GetName()}]
	deleted := object.GetDeletionTimestamp()
	used = used && !contract.CameTooLate(since, object)
	has := controllerutil.ContainsFinalizer(object, Finalizer)
	switch {
	case has && !used:
		return stepRemove
	case has && deleted != nil:
		return stepReport
	case used && !has && deleted == nil:
		return stepAdd
	default:
		return stepNone
	}
}
