package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var (
	// preReconcileOnly is the capability of a hook that has no say in deletions.
	preReconcileOnly = []v1alpha1.HookCapability{v1alpha1.HookPreReconcile}
	// bothPhases are all capabilities.
	bothPhases = []v1alpha1.HookCapability{v1alpha1.HookPreReconcile, v1alpha1.HookFinalize}
)

// hookRequest is what an HTTP hook is asked, as its author reads it.
type hookRequest struct {
	FormFactor struct{ Name string }
	Phase      string
	Object     *v1alpha1.DeployItem
	Children   map[string]map[string]any

	header http.Header
}

// hookAnswer writes the answer to a request. The context ends with the request.
type hookAnswer func(ctx context.Context, w http.ResponseWriter, r *hookRequest)

// hookServer is an HTTP hook. It answers nothing for an item that nobody has told it about, which changes nothing.
type hookServer struct {
	*httptest.Server

	mu       sync.Mutex
	answers  map[string]hookAnswer // by the names of items
	requests []*hookRequest
}

// newHookServer returns a server that is not started.
func newHookServer(t *testing.T) *hookServer {
	t.Helper()
	s := &hookServer{answers: map[string]hookAnswer{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		r := &hookRequest{header: in.Header}
		if err := json.NewDecoder(in.Body).Decode(r); err != nil || r.Object == nil || in.Method != http.MethodPost {
			t.Errorf("a hook was asked what it cannot read: %s, error %v", in.Method, err)
			http.Error(w, "cannot read the request", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, r)
		answer := s.answers[r.Object.Name]
		s.mu.Unlock()
		if answer != nil {
			answer(in.Context(), w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// answer lets the server answer for items of a name.
func (s *hookServer) answer(name string, answer hookAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = answer
}

// asked are the requests of a phase for an item so far.
func (s *hookServer) asked(item *v1alpha1.DeployItem, phase string) []*hookRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *hookRequest) bool {
		return r.Object.Name != item.Name || r.Phase != phase
	})
}

// respondWith answers with an object and children as the hook wants them.
func respondWith(w http.ResponseWriter, object any, children map[string]map[string]any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"object": object, "children": children})
}

// registration names a hook for types of deploy items.
func registration(
	name, uri string, capabilities []v1alpha1.HookCapability, types ...v1alpha1.DeployItemType,
) *v1alpha1.DeployerRegistration {
	return &v1alpha1.DeployerRegistration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.DeployerRegistrationSpec{Types: types, Hook: &v1alpha1.Hook{
			Version: v1alpha1.HookVersionV1, Address: v1alpha1.HookAddress{URI: uri}, Capabilities: capabilities,
		}},
	}
}

// register creates a registration, which is deleted at the end of the test.
func register(t *testing.T, r *v1alpha1.DeployerRegistration) {
	t.Helper()
	create(t, r)
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(admin.Delete(context.WithoutCancel(t.Context()), r)); err != nil {
			t.Error(err)
		}
	})
}

// waitRegistered waits until the condition Ready of a registration has a status for its present spec, and returns
// the registration.
func waitRegistered(
	t *testing.T, r *v1alpha1.DeployerRegistration, status v1alpha1.ConditionStatus,
) *v1alpha1.DeployerRegistration {
	t.Helper()
	fresh := &v1alpha1.DeployerRegistration{}
	what := fmt.Sprintf("registration %s to be Ready %s", r.Name, status)
	eventually(t, what, func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(r), fresh); err != nil {
			return "", err
		}
		ready := slices.ContainsFunc(fresh.Status.Conditions, func(c v1alpha1.Condition) bool {
			return c.Type == "Ready" && c.Status == status
		})
		if ready && fresh.Status.ObservedGeneration == fresh.Generation {
			return "", nil
		}
		return string(marshal(t, fresh.Status)), nil
	})
	return fresh
}
