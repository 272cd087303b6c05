package target_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// objects is an API server that keeps what is applied, by path.
type objects struct {
	mu  sync.Mutex
	all map[string][]byte
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.Method == http.MethodPatch {
		o.all[r.URL.Path], _ = io.ReadAll(r.Body)
	}
	w.Header().Set("Content-Type", "application/json")
	object, ok := o.all[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		object, _ = json.Marshal(apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path).Status())
	}
	_, _ = w.Write(object)
	if r.Method == http.MethodDelete {
		delete(o.all, r.URL.Path)
	}
}

func (o *objects) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

// The deployer of the example keeps the rules of the protocol, and leaves nothing behind.
func TestExampleDeployer(t *testing.T) {
	t.Parallel()
	cluster := &objects{all: map[string][]byte{}}
	server := httptest.NewServer(cluster)
	t.Cleanup(server.Close)
	kubeconfig := fmt.Sprintf(`{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"t"}}]}`, server.URL)
	content, err := json.Marshal(map[string]string{"kubeconfig": kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	plugin := sdktest.New(t, &deployer{targets: target.NewCache("settings/test")},
		sdk.Name("settings"), sdk.Version("test"), sdk.Types("example.org/settings"))
	call := sdktest.Call{
		DeployItem: sdktest.DeployItem("example.org/settings", config{
			APIVersion: "settings.example.org/v1", Kind: "Settings", Namespace: "shop", Data: map[string]string{"a": "b"},
		}),
		Target: &sdk.Target{Name: "shop", Type: v1alpha1.KubernetesClusterTargetType, Content: content},
	}
	sdktest.Conform(t, plugin, sdktest.Case{Name: "settings", Call: call})
	if n := cluster.count(); n != 0 {
		t.Errorf("expected no object after the deletion, but found %d", n)
	}
	if result := plugin.Delete(t.Context(), call); result.Failed != nil {
		t.Errorf("expected the end of a deletion without a record, but it %s", result)
	}
	applied := plugin.Reconcile(t.Context(), call)
	if n := cluster.count(); applied.Failed != nil || n != 1 {
		t.Errorf("expected an object, but found %d, and it %s", n, applied)
	}
}
