package registration

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// registered is a registration with a hook.
func registered(name string, second int, types ...v1alpha1.DeployItemType) v1alpha1.DeployerRegistration {
	return v1alpha1.DeployerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(second) * time.Second))},
		Spec:       v1alpha1.DeployerRegistrationSpec{Types: types, Hook: uriHook("http://hook.test")},
	}
}

func TestClaims(t *testing.T) {
	withoutHook := registered("plain", 0, "a", "b")
	withoutHook.Spec.Hook = nil
	for name, tc := range map[string]struct {
		reason        string
		registrations []v1alpha1.DeployerRegistration
		want          claims
		rivals        map[string][]rival
	}{
		"none": {reason: "nobody has anything", want: claims{}, rivals: map[string][]rival{}},
		"apart": {
			reason:        "each has its own",
			registrations: []v1alpha1.DeployerRegistration{registered("x", 1, "a"), registered("y", 0, "b", "c")},
			want:          claims{"a": "x", "b": "y", "c": "y"}, rivals: map[string][]rival{},
		},
		"older": {
			reason:        "the older one is in force, and the other one keeps its other types",
			registrations: []v1alpha1.DeployerRegistration{registered("x", 1, "b", "a", "c"), registered("y", 0, "c", "b")},
			want:          claims{"a": "x", "b": "y", "c": "y"}, rivals: map[string][]rival{"x": {{"b", "y"}, {"c", "y"}}},
		},
		"same age": {
			reason:        "then the name decides",
			registrations: []v1alpha1.DeployerRegistration{registered("y", 0, "a"), registered("x", 0, "a"), registered("z", 0, "a")},
			want:          claims{"a": "x"}, rivals: map[string][]rival{"y": {{"a", "x"}}, "z": {{"a", "x"}}},
		},
		"without a hook": {
			reason:        "it takes nothing from anybody",
			registrations: []v1alpha1.DeployerRegistration{withoutHook, registered("x", 1, "a")},
			want:          claims{"a": "x"}, rivals: map[string][]rival{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			slices.SortFunc(tc.registrations, inOrder)
			got := claimsOf(tc.registrations)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			rivals := map[string][]rival{}
			for i := range tc.registrations {
				if found := got.rivals(&tc.registrations[i]); len(found) > 0 {
					rivals[tc.registrations[i].Name] = found
				}
			}
			if diff := cmp.Diff(tc.rivals, rivals, cmp.AllowUnexported(rival{})); diff != "" {
				t.Errorf("%s: what others have (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// Whatever order registrations come in, each type has one owner, which names it, and nobody who names it is older.
func TestClaimsHaveOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []v1alpha1.DeployerRegistration
		for i := range rapid.IntRange(0, 6).Draw(t, "registrations") {
			types := rapid.SliceOfDistinct(rapid.SampledFrom([]v1alpha1.DeployItemType{"a", "b", "c"}), rapid.ID).Draw(t, "types")
			one := registered(strconv.Itoa(i), rapid.IntRange(0, 2).Draw(t, "age"), types...)
			if rapid.Bool().Draw(t, "without hook") {
				one.Spec.Hook = nil
			}
			all = append(all, one)
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		slices.SortFunc(all, inOrder)
		slices.SortFunc(shuffled, inOrder)
		got := claimsOf(all)
		if diff := cmp.Diff(got, claimsOf(shuffled)); diff != "" {
			t.Fatalf("the order of the list decides:\n%s", diff)
		}
		first := claims{}
		for i := range all {
			for _, itemType := range all[i].Spec.Types {
				owner, owned := got[itemType]
				if all[i].Spec.Hook != nil && !owned {
					t.Fatalf("nobody has %s, which %s names", itemType, all[i].Name)
				}
				if all[i].Spec.Hook != nil && first[itemType] == "" {
					first[itemType] = all[i].Name
				}
				if all[i].Spec.Hook != nil && owner != first[itemType] {
					t.Fatalf("%s has %s, but %s is older", owner, itemType, first[itemType])
				}
			}
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("somebody has what nobody names:\n%s", diff)
		}
	})
}
