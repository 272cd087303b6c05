package storage

import (
	"context"
	"errors"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
)

// silent is an observer without ears.
type silent struct{ helm.Observer }

func (silent) Log(string) {}

// TestMarking: an operation without an end leaves the same revision, whether it is marked at its own end or by the next
// attempt.
func TestMarking(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(t *testing.T, h *History){
		"by the next attempt": func(t *testing.T, h *History) {
			t.Helper()
			if _, _, err := h.Revisions([]int{1, 3}); err != nil {
				t.Error(err)
			}
		},
		"at its own end": func(t *testing.T, h *History) {
			t.Helper()
			h.made = []int{1, 3}
			failure := errors.New("aborted")
			if err := h.End(failure); !errors.Is(err, failure) {
				t.Errorf("expected the failure of the operation, but found %v", err)
			}
		},
	} {
		for status, marked := range map[release.Status]bool{
			release.StatusPendingInstall: true, release.StatusPendingUpgrade: true, release.StatusPendingRollback: true,
			release.StatusUninstalling: true, release.StatusDeployed: false, release.StatusFailed: false,
			release.StatusSuperseded: false, release.StatusUninstalled: false,
		} {
			t.Run(name+"/"+status.String(), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				req := &helm.Request{Release: helm.Release{Namespace: "ns", Name: "shop"}}
				j := journal.New(t.Context(), req, silent{})
				h := New(ctx, req, j, render.New(req, j), fake.NewClientset().CoreV1())
				for version := range 2 { // of the second one the operation is another client's
					rel := &release.Release{Name: "shop", Namespace: "ns", Version: version + 1, Info: &release.Info{Status: status}}
					if err := h.Driver.Create(KeyOf(rel), rel); err != nil {
						t.Fatal(err)
					}
				}
				cancel()
				mark(t, h)
				all, err := h.read()
				if err != nil || len(all) != 2 {
					t.Fatalf("expected both revisions, but found %v, %v", all, err)
				}
				if got := all[0].Info; marked && (got.Status != release.StatusFailed || got.Description != unfinished) ||
					!marked && got.Status != status {
					t.Errorf("expected revision 1 to be marked: %t, but found %+v", marked, got)
				}
				if got := all[1].Info.Status; got != status {
					t.Errorf("expected revision 2 to stay, but found %s", got)
				}
			})
		}
	}
}

// TestLostWrite: an operation is no success without the record of it, even if Helm only logs that.
func TestLostWrite(t *testing.T) {
	t.Parallel()
	req := &helm.Request{Release: helm.Release{Namespace: "ns", Name: "shop"}}
	j := journal.New(t.Context(), req, silent{})
	h := New(t.Context(), req, j, render.New(req, j), fake.NewClientset().CoreV1())
	rel := &release.Release{Name: "shop", Namespace: "ns", Version: 1, Info: &release.Info{Status: release.StatusDeployed}}
	if err := h.Update(KeyOf(rel), rel); err == nil {
		t.Fatal("expected an error about the missing Secret")
	}
	if err := h.End(nil); err == nil {
		t.Error("expected an error about the unwritten revision")
	}
}
