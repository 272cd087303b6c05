package docs

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const hooksPage = "docs/hooks.md"

// source returns the program of a page that begins with the words given.
func source(t *testing.T, path, language, begin string) string {
	t.Helper()
	for _, program := range blocks(t, path, language) {
		if strings.HasPrefix(program, begin) {
			return program
		}
	}
	t.Fatalf("%s shows no program in %s that begins with %q", path, language, begin)
	return ""
}

// build builds a command of a page.
func build(t *testing.T, path, command string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, command+".go")
	if err := os.WriteFile(file, []byte(source(t, path, "go", "// Command "+command+" ")), 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, command)
	compile(t, binary, file)
	return binary
}

// compile builds a program as this test was built, so that both need the same packages in the build cache.
func compile(t *testing.T, binary, source string) {
	t.Helper()
	arguments := []string{"build", "-o", binary}
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		arguments = append(arguments, "-race")
	}
	compiler := exec.CommandContext(t.Context(), "go", append(arguments, source)...)
	compiler.Dir = testenv.Root()
	if output, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", source, err, output)
	}
}

// TestHookPlugin: the plugin of the page about hooks holds back what is frozen and nothing else.
func TestHookPlugin(t *testing.T) {
	t.Parallel()
	plugin := sdktest.Start(t, build(t, hooksPage, "freeze"))
	anything := map[string]string{"apiVersion": "v1", "kind": "Any"}
	item := sdktest.DeployItem("landscaper.gardener.cloud/kubernetes-manifest", anything)
	for _, hookType := range []hook.Type{hook.BeforeReconcile, hook.BeforeForceReconcile} {
		item.Annotations = nil
		expectOutcome(t, plugin, hookType, item, nil)
		item.Annotations = map[string]string{"example.org/frozen": "true"}
		expectOutcome(t, plugin, hookType, item, &hook.Result{AbortReconcile: true})
	}
}

func expectOutcome(
	t *testing.T, plugin *sdktest.Plugin, hookType hook.Type, item *v1alpha1.DeployItem, want *hook.Result,
) {
	t.Helper()
	outcomes, err := plugin.RunHooks(patient(t), hookType, item, nil)
	if diff := cmp.Diff([]sdktest.HookOutcome{{Result: want}}, outcomes); diff != "" || err != nil {
		t.Errorf("%s: error %v, outcomes (-want +got):\n%s", hookType, err, diff)
	}
}

// patient ends when a slow machine would have answered, too.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// scheduled is an item of the deployer with schedules on the page, whose last job began a while ago.
func scheduled(t *testing.T, every string, began time.Time) *v1alpha1.DeployItem {
	t.Helper()
	item := sdktest.DeployItem("example.org/backup", map[string]any{
		"apiVersion": "example.org/v1", "kind": "BackupConfiguration",
		"continuousReconcile": map[string]string{"every": every},
	})
	last := v1alpha1.NewTime(began)
	item.Status.LastReconcileTime, item.Status.JobIDFinished = &last, item.Status.JobID
	return item
}

// TestScheduledDeployer: the deployer with schedules on the page about hooks has them, and says what is wrong with one
// where the user looks.
func TestScheduledDeployer(t *testing.T) {
	t.Parallel()
	plugin := sdktest.Start(t, build(t, hooksPage, "backup"))
	now := time.Now()
	expectOutcome(t, plugin, hook.ShouldReconcile, scheduled(t, "30m", now.Add(-time.Hour)), &hook.Result{})

	outcomes, err := plugin.RunHooks(patient(t), hook.ShouldReconcile, scheduled(t, "24h", now), nil)
	if err != nil || len(outcomes) != 1 || outcomes[0].Result == nil {
		t.Fatalf("expected a result, but found %v, error %v", outcomes, err)
	}
	result := outcomes[0].Result
	if !result.AbortReconcile || result.RequeueAfter <= 0 || result.RequeueAfter > 24*time.Hour {
		t.Errorf("expected another reconcile within a day, but found %+v", result)
	}

	wrong := scheduled(t, "1 hour", now.Add(-time.Hour))
	expectOutcome(t, plugin, hook.ShouldReconcile, wrong, nil)
	called := plugin.Reconcile(patient(t), sdktest.Call{DeployItem: wrong})
	if called.Failed == nil || !slices.Contains(called.Failed.Errors[0].Codes, v1alpha1.ErrorConfigurationProblem) ||
		!strings.Contains(called.Failed.Errors[0].Message, `every: found "1 hour"`) {
		t.Errorf("expected an error that names the field, but found %s", called)
	}
}

// decode decodes JSON with its numbers as they are written.
func decode(t *testing.T, document []byte, into any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(document)))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("decode %s: %v", document, err)
	}
}
