package host

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
)

// Rule (operators-guide.md#install): A host without definitions waits for them; /readyz names a missing one.
func TestHostWaitsForDefinitions(t *testing.T) {
	kinds := &atomic.Value{}
	kinds.Store([]string{"DeployItem"})
	server := discovery(t, kinds)
	cluster, err := clusterConfig(commandtest.Kubeconfig(t, server), "v1", config.Client{})
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Default("test")
	settings.ListenAddress = "127.0.0.1:0"
	logged := &commandtest.Buffer{}
	l := &launch{flags: &hostFlags{}, settings: settings, log: slog.New(slog.NewTextHandler(logged, nil))}
	ended := make(chan error, 1)
	go func() { ended <- l.awaitDefinitions(t.Context(), cluster) }()

	var address string
	await.That(t, time.Minute, "the address in the log", func() bool {
		if found := regexp.MustCompile(`listenAddress=(\S+)`).FindStringSubmatch(logged.String()); found != nil {
			address = found[1]
		}
		return address != ""
	})
	for path, want := range map[string]string{
		"/healthz": "ok",
		"/readyz":  "the cluster lacks CustomResourceDefinitions; `pergola crds | kubectl create -f -` installs",
	} {
		if text := get(t, "http://"+address+path); !strings.Contains(text, want) {
			t.Errorf("%s: expected %q, but found %q", path, want, text)
		}
	}
	kinds.Store([]string{"DeployItem", "Context"})
	await.That(t, time.Minute, "the next missing kind", func() bool {
		return strings.Contains(get(t, "http://"+address+"/readyz"), `no matches for kind "Target"`)
	})
	kinds.Store([]string{"DeployItem", "Target", "Context"})
	if err := <-ended; err != nil {
		t.Errorf("expected an end of the wait, but found %v", err)
	}
}

func get(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// discovery starts an API server with some kinds of Landscaper, and returns its address.
func discovery(t *testing.T, kinds *atomic.Value) string {
	t.Helper()
	group := v1alpha1.GroupVersion
	version := metav1.GroupVersionForDiscovery{GroupVersion: group.String(), Version: group.Version}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/api":
			answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}}
		case "/apis":
			answer = metav1.APIGroupList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
				Groups: []metav1.APIGroup{{
					Name: group.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
				}},
			}
		case "/apis/" + group.String():
			list := metav1.APIResourceList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: group.String(),
			}
			for _, kind := range kinds.Load().([]string) {
				list.APIResources = append(list.APIResources,
					metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"list"}})
			}
			answer = list
		default:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
