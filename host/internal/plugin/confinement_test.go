package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
)

// A plugin sees neither the secrets in the environment of its host nor, where the kernel has Landlock, the token of its
// host, the files of other plugins and the host itself. Not parallel: it changes the environment of the whole process.
func TestWhatAPluginCannotSee(t *testing.T) { //nolint:paralleltest // see above
	t.Setenv("AWS_SECRET_ACCESS_KEY", "very secret")
	token := filepath.Join(t.TempDir(), "var/run/secrets/kubernetes.io/serviceaccount/token")
	if err := os.MkdirAll(filepath.Dir(token), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("token of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		profile Profile
		open    map[string]bool // what it can read
	}{
		"confined": {
			profile: Profile{Plugin: "echo", Confinement: sandbox.Auto},
		},
		"confined, with the directory of the token": {
			profile: Profile{Plugin: "echo", Confinement: sandbox.Auto, Read: []string{filepath.Dir(token)}},
			open:    map[string]bool{"token": true},
		},
		"not confined": {
			profile: Profile{Plugin: "echo"},
			open:    map[string]bool{"token": true, "other plugin": true, "host": true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.profile.Confinement == sandbox.Auto && sandbox.Supported().ABI == 0 {
				t.Skip("the kernel cannot confine: " + sandbox.Supported().String())
			}
			dir := copies(t, "echo", "raw_a_one") // of one file with two names both could be read
			h := runHost(t, dir, func(o *Options) { o.Profiles = map[string]Profile{"echo": test.profile} })
			files := map[string]string{
				"token": token, "other plugin": filepath.Join(dir, "raw_a_one"),
				"host": fmt.Sprintf("/proc/%d/environ", os.Getpid()),
			}
			seen := h.spy("echo", files)
			for what, file := range files {
				if read := !strings.HasPrefix(seen[file], "error: "); read != test.open[what] {
					t.Errorf("%s: expected that it can be read: %t, but found: %.100s", what, test.open[what], seen[file])
				}
			}
			if environment := seen["environment"]; strings.Contains(environment, "secret") || !strings.Contains(environment,
				"PERGOLA_LIFELINE_FD=") {
				t.Errorf("expected the environment of a plugin, but found: %s", environment)
			}
			if s := h.Details(); test.profile.Confinement == sandbox.Auto && !strings.Contains(s[0].Confinement, "landlock") {
				t.Errorf("expected the confinement to be shown, but found %+v", s)
			}
		})
	}
}

// spy has a plugin read files, and returns what it has found in each.
func (h *host) spy(plugin string, files map[string]string) map[string]string {
	h.t.Helper()
	var paths []string
	for _, path := range files {
		paths = append(paths, path)
	}
	config, err := json.Marshal(paths)
	if err != nil {
		h.t.Fatal(err)
	}
	item := deployItem("spy")
	item.Spec.Config = &runtime.RawExtension{Raw: config}
	outcome, err := h.plugin(plugin).Call(h.t.Context(), Reconcile, Call{DeployItem: item}, &observer{})
	if err != nil || outcome.Succeeded == nil {
		h.t.Fatalf("expected success, but found %v (%v)", outcome, err)
	}
	var seen map[string]string
	if err := json.Unmarshal(outcome.Succeeded.Exports, &seen); err != nil {
		h.t.Fatal(err)
	}
	return seen
}
