package sdk

import (
	"context"
	"sync"
	"testing"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// TestPickUp: the host is asked once to pick the job up, if it is pending and nothing was saved, however many ask;
// again after it has refused.
func TestPickUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFakeStream(ctx)
	req := &Request{call: serving.OpenCall(f, &deployerv1.Start{PickUpPending: true})}
	answered := make(chan error)
	go func() { answered <- req.PickUp(ctx) }()
	f.toPlug <- acknowledgement((<-f.toHost).GetProviderStatus().GetSequence(), "somebody has changed the item")
	if err := <-answered; err == nil {
		t.Error("expected the error of the host")
	}

	var asking sync.WaitGroup
	for range 5 {
		asking.Go(func() {
			if err := req.PickUp(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	status := (<-f.toHost).GetProviderStatus()
	if status == nil || len(status.GetDocument()) > 0 {
		t.Errorf("expected a provider status without a document, but found %v", status)
	}
	f.toPlug <- acknowledgement(status.GetSequence(), "")
	asking.Wait()
	finish(t, req)
	if m := <-f.toHost; m.GetResult() == nil {
		t.Errorf("expected no other question, but found %v", m)
	}
}

// TestNothingToPickUp: nobody is asked if the job is picked up already, or once a provider status was saved.
func TestNothingToPickUp(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	for name, req := range map[string]*Request{"of a test": {}, "picked up": f.open()} {
		if err := req.PickUp(t.Context()); err != nil || len(f.toHost) > 0 {
			t.Errorf("%s: found %v and %d messages", name, err, len(f.toHost))
		}
	}
	saved := newFakeStream(t.Context())
	req := &Request{call: serving.OpenCall(saved, &deployerv1.Start{PickUpPending: true})}
	done := make(chan error)
	go func() { done <- save(t.Context(), req, 1) }()
	saved.toPlug <- acknowledgement((<-saved.toHost).GetProviderStatus().GetSequence(), "")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := req.PickUp(t.Context()); err != nil || len(saved.toHost) > 0 {
		t.Errorf("found %v and %d messages", err, len(saved.toHost))
	}
}
