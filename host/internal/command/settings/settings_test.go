package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
)

func TestPluginOptions(t *testing.T) {
	t.Parallel()
	configured := config.Default("host")
	got, timeouts := PluginOptions(configured, "v1", nil), configured.Timeouts
	if got.RequireSums || got.DefaultProfile.Confinement != sandbox.Auto || len(got.Profiles) > 0 ||
		got.StartTimeout != timeouts.PluginStart.Duration || got.StopGrace != timeouts.Shutdown.Duration ||
		got.Silence != timeouts.PluginSilence.Duration {
		t.Errorf("the options are not those of the settings: %+v", got)
	}
	configured.Verification, configured.PluginCache = config.VerificationRequired, "/cache"
	configured.Plugins = map[string]config.Plugin{
		"calls":       {Workers: 5, HostCluster: &config.HostCluster{}, Config: []byte("{}"), Args: []string{}},
		"file":        {File: "deployer"},
		"sum":         {SHA256: "ab"},
		"image":       {Image: "example.org/image:v1", Path: "/a"},
		"args":        {Args: []string{"a"}},
		"environment": {Environment: []string{"A"}},
		"memory":      {Memory: 64 << 20},
		"files":       {OpenFiles: 64},
		"auto":        {Confinement: config.Confinement{Mode: config.ConfinementAuto}},
		"off":         {Confinement: config.Confinement{Mode: config.ConfinementOff}},
		"read":        {Confinement: config.Confinement{Read: []string{"/r"}}},
		"write":       {Confinement: config.Confinement{Mode: config.ConfinementRequired, Write: []string{"/w"}}},
	}
	got = PluginOptions(configured, "v1", nil)
	want := map[string]plugin.Profile{ // an entry about calls leaves the file alone
		"deployer":    {Plugin: "file", Confinement: sandbox.Auto},
		"sum":         {Plugin: "sum", SHA256: "ab", Confinement: sandbox.Auto},
		"image":       {Plugin: "image", Image: "example.org/image:v1", Path: "/a", Confinement: sandbox.Auto},
		"args":        {Plugin: "args", Args: []string{"a"}, Confinement: sandbox.Auto},
		"environment": {Plugin: "environment", Environment: []string{"A"}, Confinement: sandbox.Auto},
		"memory":      {Plugin: "memory", Memory: 64 << 20, Confinement: sandbox.Auto},
		"files":       {Plugin: "files", OpenFiles: 64, Confinement: sandbox.Auto},
		"auto":        {Plugin: "auto", Confinement: sandbox.Auto},
		"off":         {Plugin: "off", Confinement: sandbox.Off},
		"read":        {Plugin: "read", Read: []string{"/r"}, Confinement: sandbox.Auto},
		"write":       {Plugin: "write", Write: []string{"/w"}, Confinement: sandbox.Required},
	}
	if diff := cmp.Diff(want, got.Profiles); diff != "" || !got.RequireSums || got.CacheDir != "/cache" ||
		string(got.Configs["calls"]) != "{}" {
		t.Errorf("found %+v, profiles (-want +got):\n%s", got, diff)
	}
}

func TestIdentity(t *testing.T) {
	t.Setenv("MY_POD_NAME", "pergola-0")
	if got := DefaultIdentity(); got != "pergola-0" {
		t.Errorf("expected the pod's name, but found %q", got)
	}
	t.Setenv("MY_POD_NAME", "")
	if DefaultIdentity() == "" {
		t.Error("a host has an identity outside of a pod, too")
	}
}

// Rule (operators-guide.md#plugins): The default plugin directory is `/plugins`, or without it the directory `plugins`
// beside the program.
func TestPluginDir(t *testing.T) {
	t.Parallel()
	there, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	for _, tc := range []struct{ first, second, want string }{
		{there, t.TempDir(), there}, {there, missing, there}, {missing, there, there}, {missing, missing + "-too", missing},
	} {
		if got := pluginDir(tc.first, tc.second); got != tc.want {
			t.Errorf("%s or %s: found %s", tc.first, tc.second, got)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(program), "plugins")
	if got, want := PluginDir(), pluginDir("/plugins", beside); got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
}
