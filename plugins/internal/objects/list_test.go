package objects

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// TestList: more than a few objects of a kind in a namespace are read page by page, until all are found or their own
// reads would have cost as much.
func TestList(t *testing.T) {
	t.Parallel()
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("o-%d", i))
		}
		return all
	}
	for name, c := range map[string]struct {
		reason string
		wanted int
		pages  [][]string
		err    error
		// requests and found are their numbers.
		requests, found int
	}{
		"few":        {"each is read", 3, [][]string{names(3)}, nil, 0, 0},
		"many":       {"one list has all", 4, [][]string{names(9)}, nil, 1, 4},
		"two pages":  {"the second has the rest", 4, [][]string{names(2), names(9), names(9)}, nil, 2, 4},
		"last page":  {"some do not exist", 4, [][]string{names(2), {"other"}}, nil, 2, 2},
		"no end":     {"a list costs no more than its objects", 4, make([][]string, 9), nil, 4, 0},
		"unreadable": {"the error shows again at the objects", 4, [][]string{nil}, errors.New("no"), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wanted []Wanted
			for _, name := range names(c.wanted) {
				wanted = append(wanted, Wanted{Key: object.Key{Kind: "A", Namespace: "ns", Name: name}})
			}
			requests := 0
			list := func(
				_ context.Context, _ target.Mapping, namespace string, options metav1.ListOptions,
			) ([]unstructured.Unstructured, string, error) {
				if namespace != "ns" || options.LabelSelector != "a=b" ||
					options.Continue != fmt.Sprint("page-", requests) && requests > 0 {
					t.Errorf("unexpected list of %s with %+v", namespace, options)
				}
				var page []unstructured.Unstructured
				for _, name := range c.pages[requests] {
					o := unstructured.Unstructured{Object: map[string]any{}}
					o.SetName(name)
					page = append(page, o)
				}
				requests++
				next := ""
				if requests < len(c.pages) {
					next = fmt.Sprint("page-", requests)
				}
				return page, next, c.err
			}
			listed := List(t.Context(), list, wanted, "a=b")
			found := 0
			for _, w := range wanted {
				if o := listed.Take(w.Key); o != nil && o.GetName() == w.Key.Name {
					found++
				}
				if listed.Take(w.Key) != nil {
					t.Error("an object is taken twice")
				}
			}
			if requests != c.requests || found != c.found {
				t.Errorf("%s: expected %d requests and %d objects, but found %d and %d",
					c.reason, c.requests, c.found, requests, found)
			}
		})
	}
	if (*Listed)(nil).Take(object.Key{}) != nil {
		t.Error("nothing listed has an object")
	}
}
