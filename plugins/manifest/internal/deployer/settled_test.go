package deployer_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var noRetry = []landscaper.ErrorCode{landscaper.ErrorNoRetry}

// TestJobRepairsOnce: a job repairs what had changed before it, and leaves alone what changes after that.
// Rule (manifest.md#drift): A job repairs changes from before it, and never its own objects.
func TestJobRepairsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", object{"x": "1", "y": "2"}), w.deployment("web", "nginx")))
	w.mustWait(w.call(item), "web")
	w.Patch(deployments, "web", `{"spec":{"replicas":3}}`)
	w.Patch(configMaps, "a", `{"data":{"x":"8"}}`)
	plugintest.NewJob(item)
	first := w.call(item)
	w.mustWait(first, "web")
	w.mustReport(first, landscaper.ConditionTrue, "/a: data.x")
	for range 3 {
		w.Patch(configMaps, "a", `{"data":{"y":"9"}}`)
		w.Patch(deployments, "web", `{"spec":{"replicas":3}}`)
		w.Restart()
		w.Requests.Take()
		result := w.call(item)
		w.mustWait(result, "web")
		w.mustTell(result)
		if writes := w.Requests.Writes(); len(writes) > 0 {
			t.Fatalf("the job has written again what it had applied: %q", writes)
		}
	}
	w.Patch(deployments, "web", `{"spec":{"replicas":1}}`)
	w.ready("web")
	w.MustSucceed(item)
	if got := string(item.Status.ProviderStatus.Raw); strings.Contains(got, "settledIn") || strings.Contains(got, `*"`) {
		t.Errorf("marks of the job are left: %s", got)
	}
	plugintest.NewJob(item)
	w.mustReport(w.call(item), landscaper.ConditionTrue, "/a: data.y")
}

// TestRetryGoesOn: a retry applies what is not applied yet, and nothing else.
// Rule (manifest.md#drift): A retry applies the remaining objects, and nothing else.
func TestRetryGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", object{"x": "1"}), w.configMap("b", object{"x": "1"})))
	w.Requests.Fail(func(r *http.Request) error {
		if name, _ := nameInBody(r); name == "b" {
			return errors.New("no answer")
		}
		return nil
	})
	for range 3 {
		if result := w.call(item); result.Failed == nil || len(result.Failed.Codes()) > 0 {
			t.Fatalf("expected an error that is retried, but found: %s", result)
		}
		w.Patch(configMaps, "a", `{"data":{"x":"9"}}`)
		w.Restart()
	}
	w.Requests.Undisturbed()
	w.MustSucceed(item)
	if got := w.Get(configMaps, "a").Object["data"].(object)["x"]; got != "9" {
		t.Errorf("a retry has repaired an object that the same job had applied: it is %v", got)
	}
	if w.Get(configMaps, "b") == nil {
		t.Error("the object that had failed was not applied")
	}
}

// TestVanishedObject: what is deleted after the job has applied it is an error at once, and is not created again by
// that job.
func TestVanishedObject(t *testing.T) {
	t.Parallel()
	// Rule (manifest.md#objects-that-delete-themselves, /Job): An object vanished after its job has applied it fails
	// the job, and is not created again.
	for name, resource := range map[string]plugintest.Resource{"ConfigMap": configMaps, "Job": jobs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one, parts := w.configMap("job", nil), []string{"ObjectVanished", "another job creates it again"}
			if resource == jobs {
				one, parts = w.running(nil), append(parts, "ttlSecondsAfterFinished")
			}
			item := w.item(config(one, w.deployment("web", "nginx")))
			w.mustWait(w.call(item), "web")
			w.vanish(resource, "job")
			w.MustFail(w.call(item), noRetry, parts...)
			w.mustCreate(map[bool][]string{true: {"deployments", "jobs"}, false: {"configmaps", "deployments"}}[resource == jobs]...)
			plugintest.NewJob(item)
			w.mustWait(w.call(item), "web")
			w.mustCreate(resource.Resource)
		})
	}
}

// TestPatchOnce: patchAfterDeployment is made once per job and object.
// Rule (manifest.md#manifests): `patchAfterDeployment` is made once per job and object.
func TestPatchOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	patch := object{"patchAfterDeployment": object{"data": object{"x": "patched"}}}
	item := w.item(configOf(entry(w.configMap("a", object{"x": "1"}), patch), entry(w.configMap("b", object{"x": "1"}), patch)))
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/b") {
			return errors.New("no answer")
		}
		return nil
	})
	if result := w.call(item); result.Failed == nil {
		t.Fatalf("expected an error, but found: %s", result)
	}
	w.Patch(configMaps, "a", `{"data":{"x":"theirs"}}`)
	w.Requests.Undisturbed()
	w.MustSucceed(item)
	for name, want := range map[string]string{"a": "theirs", "b": "patched"} {
		if got := w.Get(configMaps, name).Object["data"].(object)["x"]; got != want {
			t.Errorf("%s: expected %q, but found %v", name, want, got)
		}
	}
}

// nameInBody returns the name of the object that a request creates.
func nameInBody(r *http.Request) (name string, ok bool) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return "", false
	}
	body, err := r.GetBody()
	if err != nil {
		return "", false
	}
	defer body.Close()
	var sent struct {
		Metadata struct{ Name string }
	}
	if json.NewDecoder(body).Decode(&sent) != nil {
		return "", false
	}
	return sent.Metadata.Name, true
}
