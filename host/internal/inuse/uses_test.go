package inuse

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Rule (deploy-items.md#moving): The finalizer of the old Target comes with the move, and goes with it.
func TestUsesOther(t *testing.T) {
	t.Parallel()
	still, moves := &v1alpha1.DeployItem{}, &v1alpha1.DeployItem{}
	moves.Status.Conditions = []v1alpha1.Condition{{
		Type: move.Condition, Status: v1alpha1.ConditionTrue, Reason: string(move.Removing),
		Message: "the move from the Target used goes on",
	}}
	if !usesOther(still, moves) || !usesOther(moves, still) || usesOther(moves, moves) {
		t.Error("expected a look at the beginning of a move and at its end")
	}
}

// TestNext: an object has the finalizer as long as an item names it, directly or through its Target or Context, that is
// no newer than the deletion of the object.
func TestNext(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	before, after := metav1.NewTime(noon.Add(-time.Hour)), metav1.NewTime(noon.Add(time.Hour))
	targetOf := func(name, secret string) *v1alpha1.Target {
		o := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: secret}
		return o
	}
	contextOf := func(name, pullSecret, chartSecret string) *v1alpha1.Context {
		o := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.RegistryPullSecrets = []v1alpha1.LocalObjectReference{{Name: pullSecret}}
		o.Configurations = map[string]runtime.RawExtension{lscontext.ChartRepositoriesKey: {
			Raw: []byte(`{"auths":[{"url":"https://charts.example.org","secretRef":{"name":"` + chartSecret + `"}}]}`),
		}}
		o.OCMConfig = &v1alpha1.LocalObjectReference{Name: name + "-places"}
		return o
	}
	metadata := func(kind, name string) client.Object {
		o := newMetadata(kind)
		o.Name = name
		return o
	}
	secret := func(name string) client.Object { return metadata(kindSecret, name) }
	configMap := func(name string) client.Object { return metadata(kindConfigMap, name) }
	itemAt := func(created metav1.Time, target, lsContext string) *v1alpha1.DeployItem {
		item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}
		item.Spec.Target, item.Spec.Context = &v1alpha1.ObjectReference{Name: target}, lsContext
		return item
	}
	used, unused := targetOf("used", "used-secret"), targetOf("unused", "unused-secret")
	named, other := contextOf("named", "pull", "chart"), contextOf("other", "other-pull", "other-chart")
	implied := contextOf("default", "default-pull", "default-chart")
	both := []*v1alpha1.DeployItem{itemAt(after, "used", "named"), itemAt(before, "used", "")}
	moves := itemAt(before, "another", "named")
	moves.Status.Conditions = []v1alpha1.Condition{{
		Type: move.Condition, Status: v1alpha1.ConditionTrue, Reason: string(move.Removing),
		Message: "the move from the Target used goes on",
	}}
	moving := []*v1alpha1.DeployItem{moves}
	late := []*v1alpha1.DeployItem{itemAt(after, "used", "named")}
	for name, tc := range map[string]struct {
		items         []*v1alpha1.DeployItem
		object        client.Object
		kept, deleted bool
		want          step
	}{
		"Target of an item":                   {both, used, false, false, stepAdd},
		"Target of an item, kept":             {both, used, true, false, stepNone},
		"Target of an item, to be deleted":    {both, used, true, true, stepReport},
		"Target to be deleted, not kept":      {both, used, false, true, stepNone},
		"Target deleted before its item came": {late, used, true, true, stepRemove},
		// Rule (deploy-items.md#moving): The old Target is kept during a move.
		"old Target of an item that moves":     {moving, used, true, true, stepReport},
		"Target of no item":                    {both, unused, false, false, stepNone},
		"Target of no item any more":           {both, unused, true, false, stepRemove},
		"Target of no item, to be deleted":     {both, unused, true, true, stepRemove},
		"Target without any item":              {nil, used, true, true, stepRemove},
		"Secret of a Target":                   {both, secret("used-secret"), false, false, stepAdd},
		"Secret of a Target of no item":        {both, secret("unused-secret"), true, false, stepRemove},
		"Secret of a Target, to be deleted":    {both, secret("used-secret"), true, true, stepReport},
		"Secret with the name of a Target":     {both, secret("used"), false, false, stepNone},
		"Context":                              {both, named, false, false, stepAdd},
		"Context that an item does not name":   {both, implied, false, false, stepAdd},
		"Context of no item":                   {both, other, true, true, stepRemove},
		"Secret for registries":                {both, secret("pull"), false, false, stepAdd},
		"Secret for charts":                    {both, secret("chart"), false, false, stepAdd},
		"Secret for charts, implied Context":   {both, secret("default-chart"), false, false, stepAdd},
		"Secret for charts, Context of nobody": {both, secret("other-chart"), true, false, stepRemove},
		"ConfigMap of a Context":               {both, configMap("named-places"), false, false, stepAdd},
		"ConfigMap of a Context, deleted":      {both, configMap("default-places"), true, true, stepReport},
		"ConfigMap of a Context of nobody":     {both, configMap("other-places"), true, false, stepRemove},
		"ConfigMap with the name of a Secret":  {both, configMap("pull"), false, false, stepNone},
		"Secret with the name of a ConfigMap":  {both, secret("named-places"), false, false, stepNone},
	} {
		t.Run(name, func(t *testing.T) {
			u := uses{}
			for _, item := range tc.items {
				u.addItem(item)
			}
			for _, object := range []client.Object{used, unused, named, other, implied} {
				u.addNamed(object)
			}
			object, _ := tc.object.DeepCopyObject().(client.Object)
			if tc.kept {
				object.SetFinalizers([]string{"other", Finalizer})
			}
			if tc.deleted {
				object.SetDeletionTimestamp(&noon)
			}
			if got := u.next(object); got != tc.want {
				t.Errorf("expected %q, but found %q", tc.want, got)
			}
		})
	}
}
