package target

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// apiServer answers discovery requests. A group version without resources fails.
type apiServer struct {
	mu      sync.Mutex
	asked   int
	groups  map[string][]metav1.APIResource
	refuses bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch path := strings.TrimPrefix(r.URL.Path, "/apis/"); {
	case r.URL.Path == "/api":
		s.asked++
		_ = json.NewEncoder(w).Encode(metav1.APIVersions{})
	case r.URL.Path == "/apis":
		list := metav1.APIGroupList{}
		for gv := range s.groups {
			group, version, _ := strings.Cut(gv, "/")
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gv, Version: version}},
			})
		}
		_ = json.NewEncoder(w).Encode(list)
	case s.groups[path] != nil:
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: path, APIResources: s.groups[path]})
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *apiServer) serve(gv string, resources ...metav1.APIResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[gv] = resources
}

func kubeconfigFor(server string) []byte {
	return fmt.Appendf(nil, `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"insecure-skip-tls-verify":true,"server":%q}}],
		"users":[{"name":"u","user":{"token":"secret"}}]}`, server)
}

// clientOf is a client of a server.
func clientOf(t *testing.T, s http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return mustGet(t, NewCache("test"), server.URL)
}

func mustGet(t *testing.T, cache *Cache, server string) *Client {
	t.Helper()
	client, err := cache.Get(kubeconfigFor(server))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var (
	widget = metav1.APIResource{Name: "widgets", Kind: "Widget", Namespaced: true}
	gadget = metav1.APIResource{Name: "gadgets", Kind: "Gadget"}
	status = metav1.APIResource{Name: "widgets/status", Kind: "Widget"}
)

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// TestCluster: what identifies a cluster is asked once, whatever the answer, unless there is none or it is too old.
func TestCluster(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		want    types.UID
		unknown bool
	}{
		"it is the UID": {http.StatusOK, "one", false},
		"credentials need no rights in kube-system": {http.StatusForbidden, "", false},
		"an API server need not have it":            {http.StatusNotFound, "", false},
		"the identity is unknown yet":               {http.StatusInternalServerError, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			client := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				if c.status == http.StatusOK && r.URL.Path == "/api/v1/namespaces/kube-system" {
					_, _ = w.Write([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",` +
						`"metadata":{"name":"kube-system","uid":"one"}}`))
				}
			}))
			for range 2 {
				if got, err := client.Cluster(t.Context(), time.Time{}); got != c.want || (err != nil) != c.unknown {
					t.Errorf("found %q and %v", got, err)
				}
			}
			if (asked > 1) != c.unknown {
				t.Errorf("asked %d times", asked)
			}
			before := asked
			if got, _ := client.Cluster(t.Context(), time.Now()); got != c.want || asked != before+1 {
				t.Errorf("expected to be asked anew, but found %q after %d more times", got, asked-before)
			}
		})
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	server := &apiServer{groups: map[string][]metav1.APIResource{"example.org/v2": {status, widget}}}
	client := clientOf(t, server)
	ctx, began := t.Context(), time.Now()

	m, err := client.Mapping(ctx, gvk("example.org", "v2", "Widget"), began)
	if err != nil || m.Resource.Resource != "widgets" || !m.Namespaced {
		t.Fatalf("expected the mapping of Widget, but found %v and %v", m, err)
	}
	if _, err := client.Mapping(ctx, gvk("example.org", "v1", "Widget"), began); !meta.IsNoMatchError(err) {
		t.Errorf("expected that an unserved version is unknown, but found %v", err)
	}
	if m, err := client.MappingInAnyVersion(ctx, gvk("example.org", "v1", "Widget"), began); err != nil ||
		m.Resource.Version != "v2" {
		t.Errorf("expected the mapping of another version, but found %v and %v", m, err)
	}
	if server.asked != 1 {
		t.Errorf("expected to be asked once, but it was %d times", server.asked)
	}

	server.serve("example.org/v2", widget, gadget)
	if _, err := client.Mapping(ctx, gvk("example.org", "v2", "Gadget"), began); !meta.IsNoMatchError(err) {
		t.Errorf("what was asked since the call began is good enough for it, but found %v", err)
	}
	if m, err := client.Mapping(ctx, gvk("example.org", "v2", "Gadget"), time.Now()); err != nil || m.Namespaced {
		t.Errorf("expected a later call to see the new kind, but found %v and %v", m, err)
	}
	client.Forget()
	if _, err := client.Mapping(ctx, gvk("example.org", "v2", "Gadget"), began); err != nil {
		t.Errorf("expected to ask again after forgetting, but found %v", err)
	}
	if server.asked != 3 {
		t.Errorf("expected to be asked three times, but it was %d times", server.asked)
	}
}

// TestFailedDiscovery: a kind of which the API server could tell nothing is not unknown, and others are known.
func TestFailedDiscovery(t *testing.T) {
	t.Parallel()
	down := clientOf(
		t, &apiServer{groups: map[string][]metav1.APIResource{"example.org/v1": {widget}, "down.org/v1": nil}},
	)
	if _, err := down.Mapping(t.Context(), gvk("example.org", "v1", "Widget"), time.Now()); err != nil {
		t.Errorf("expected other groups to be known, but found %v", err)
	}
	for reason, client := range map[string]*Client{
		"its group is down": down, "it refuses": clientOf(t, &apiServer{refuses: true}),
	} {
		if _, err := client.Mapping(t.Context(), gvk("down.org", "v1", "Thing"), time.Now()); err == nil ||
			meta.IsNoMatchError(err) {
			t.Errorf("%s: expected an error about discovery, but found %v", reason, err)
		}
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	cache := NewCache("test")
	first := mustGet(t, cache, "https://one:6443")
	if first.Host != "one:6443" || mustGet(t, cache, "https://one:6443") != first {
		t.Errorf("expected a client that is kept, of the host, but found %q", first.Host)
	}
	if mustGet(t, cache, "https://two:6443") == first {
		t.Error("expected another client for another kubeconfig")
	}
}
