package sdk

import (
	"sync"
	"testing"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// pending starts a call whose job is still to be picked up.
func (f *fakeStream) pending() *Request {
	return &Request{call: serving.OpenCall(f, &deployerv1.Start{PickUpPending: true})}
}

// answer acknowledges the next provider status, and returns its document.
func (f *fakeStream) answer(refused string) []byte {
	status := (<-f.toHost).GetProviderStatus()
	f.toPlug <- acknowledgement(status.GetSequence(), refused)
	return status.GetDocument()
}

// TestPickUp: the host is asked once to pick the job up, if it is pending and nothing was saved, however many ask;
// again after it has refused.
func TestPickUp(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	req := f.pending()
	answered := make(chan error)
	go func() { answered <- req.PickUp(t.Context()) }()
	f.answer("somebody has changed the item")
	if err := <-answered; err == nil {
		t.Error("expected the error of the host")
	}

	var asking sync.WaitGroup
	for range 5 {
		asking.Go(func() {
			if err := req.PickUp(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if document := f.answer(""); len(document) > 0 {
		t.Errorf("expected a provider status without a document, but found %s", document)
	}
	asking.Wait()
	if len(f.toHost) > 0 {
		t.Errorf("expected no other question, but found %v", <-f.toHost)
	}
}

// TestNothingToPickUp: nobody is asked if the job is picked up already, or once a provider status was saved.
func TestNothingToPickUp(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	saved := f.pending()
	done := make(chan error)
	go func() { done <- save(t.Context(), saved, 1) }()
	f.answer("")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for name, req := range map[string]*Request{"of a test": {}, "picked up": f.open(), "saved": saved} {
		if err := req.PickUp(t.Context()); err != nil || len(f.toHost) > 0 {
			t.Errorf("%s: found %v and %d messages", name, err, len(f.toHost))
		}
	}
}
