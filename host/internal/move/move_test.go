package move

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// newItem returns an item of a Target with these documents, in a move from the Target old unless it is Still.
func newItem(s State, target, before, after string) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{}
	item.Spec.Target = &v1alpha1.ObjectReference{Name: target}
	if before != "" {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(before)}
	}
	if s != Still {
		enter(Still, s, "old", time.Time{})(item)
	}
	if after != "" {
		Save(Deploying, []byte(after))(item)
	}
	return item
}

// Rule (deploy-items.md#moving): Nothing is removed from the Target that the item names, unless the item is deleted.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason        string
		entered       State
		target, after string
		deleted       bool
		want          State
		sees          string
	}{
		{"no move", Still, "new", "", false, Still, `"old"`},
		{"no move of a deleted item", Still, "new", "", true, Still, `"old"`},
		{"on the way", Deploying, "new", "", false, Deploying, ""},
		{"half deployed", Deploying, "new", `"new"`, false, Deploying, `"new"`},
		{"deployed", Removing, "new", `"new"`, false, Removing, `"old"`},
		{"a deletion begins on the old cluster", Deploying, "new", `"new"`, true, Removing, `"old"`},
		{"taken back before the deployment", Deploying, "old", "", false, TakenBack, `"old"`},
		{"taken back during the removal", Removing, "old", "", false, TakenBack, `"old"`},
		{"taken back after the deployment", Deploying, "old", `"new"`, false, Reversing, `"new"`},
		{"taken back after both", Removing, "old", `"new"`, false, Reversing, `"new"`},
		{"taken back and deleted", Deploying, "old", `"new"`, true, Removing, `"old"`},
	} {
		item := newItem(tc.entered, tc.target, `"old"`, tc.after)
		if tc.deleted {
			item.DeletionTimestamp = &metav1.Time{}
		}
		got := Of(item)
		view := View(item, got)
		if got != tc.want || raw(view.Status.ProviderStatus) != tc.sees {
			t.Errorf("%s: expected %s with %s, but found %s with %s", tc.reason, tc.want, tc.sees, got,
				raw(view.Status.ProviderStatus))
		}
		if named := view.Spec.Target.Name; (named != tc.target) != (got == Removing && tc.target != "old") {
			t.Errorf("%s: called for the Target %s", tc.reason, named)
		}
	}
}

// TestEnter: each record stays with its cluster.
func TestEnter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason         string
		s, next        State
		before, after  string
		wantOld, wants string
	}{
		{"the old one is deployed, and stays", TakenBack, TakenBack, `"old"`, "", "", `"old"`},
		{"one cluster has two names", Reversing, TakenBack, `"old"`, `"new"`, "", `"new"`},
		{"the roles change", Reversing, Removing, `"old"`, `"new"`, `"new"`, `"old"`},
		{"another move", TakenBack, Removing, `"old"`, "", `"old"`, ""},
		{"the removal begins", Deploying, Removing, `"old"`, `"new"`, `"old"`, `"new"`},
		{"the removal ends", Removing, Still, `"old"`, `"new"`, "", `"new"`},
	} {
		item := newItem(Deploying, "old", tc.before, tc.after)
		enter(tc.s, tc.next, "from", time.Time{})(item)
		if b := read(item); raw(b.Old) != tc.wantOld || raw(b.New) != tc.wants {
			t.Errorf("%s: found %s and %s", tc.reason, raw(b.Old), raw(b.New))
		}
	}
}

// Rule (deploy-items.md#moving): A call writes the record of its own cluster, whatever happens to the item meanwhile.
func TestSave(t *testing.T) {
	t.Parallel()
	for reason, happen := range map[string]func(*v1alpha1.DeployItem){
		"nothing":    func(*v1alpha1.DeployItem) {},
		"deletion":   func(item *v1alpha1.DeployItem) { item.DeletionTimestamp = &metav1.Time{} },
		"taken back": func(item *v1alpha1.DeployItem) { item.Spec.Target.Name = "old" },
	} {
		item := newItem(Deploying, "new", `"old"`, "")
		s := Of(item)
		happen(item)
		Save(s, []byte(`"new"`))(item)
		if b := read(item); raw(b.Old) != `"old"` || raw(b.New) != `"new"` {
			t.Errorf("%s: found %s and %s", reason, raw(b.Old), raw(b.New))
		}
	}
}

func raw(document *runtime.RawExtension) string {
	if document == nil {
		return ""
	}
	return string(document.Raw)
}
