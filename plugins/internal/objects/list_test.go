package objects

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
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
		"few":        {reason: "each is read", wanted: 3, pages: [][]string{names(3)}},
		"many":       {reason: "one list has all", wanted: 4, pages: [][]string{names(9)}, requests: 1, found: 4},
		"two pages":  {reason: "the second has the rest", wanted: 4, pages: [][]string{names(2), names(9), names(9)}, requests: 2, found: 4},
		"last page":  {reason: "some do not exist", wanted: 4, pages: [][]string{names(2), {"other"}}, requests: 2, found: 2},
		"no end":     {reason: "a list costs no more than its objects", wanted: 4, pages: make([][]string, 9), requests: 4},
		"unreadable": {reason: "the error shows again at the objects", wanted: 4, pages: [][]string{nil}, err: errors.New("no"), requests: 1},
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
				if namespace != "ns" || options.LabelSelector != "a=b" || options.Continue != fmt.Sprint("page-", requests) && requests > 0 {
					t.Errorf("unexpected list of %s with %+v", namespace, options)
				}
				var page []unstructured.Unstructured
				for _, name := range c.pages[requests] {
					o := unstructured.Unstructured{Object: fields{}}
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
				t.Errorf("%s: expected %d requests and %d objects, but found %d and %d", c.reason, c.requests, c.found, requests, found)
			}
		})
	}
	if (*Listed)(nil).Take(object.Key{}) != nil {
		t.Error("nothing listed has an object")
	}
}
