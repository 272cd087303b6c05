package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/rundir"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// expectGolden compares a text with a file in testdata. UPDATE_GOLDEN=1 writes it anew.
func expectGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func somePlugins() *control.PluginList {
	return &control.PluginList{
		Plugins: []control.Plugin{
			{
				File: "audit", Name: "audit", Version: "v1", State: "Running", Capabilities: []string{"hooks"},
				HookTypes: []string{"BeforeReconcile", "End"}, HookedTypes: []string{"example.org/helm", "example.org/other"},
			},
			{
				File: "helm-deployer", Name: "helm", Version: "v1.2.3", Types: []string{"example.org/chart", "example.org/helm"},
				Capabilities: []string{"abort", "configure"}, SHA256: strings.Repeat("0123456789abcdef", 4), State: "Running",
				Restarts: map[string]int{"wedged": 1, "exit": 2}, PID: 4711, MemoryBytes: 64<<20 + 700<<10, Confinement: "landlock (ABI 7): files, devices",
			},
			{
				File: "mixed", Name: "mixed", Version: "v1", Types: []string{"example.org/mixed"}, State: "Running", Capabilities: []string{"hooks"},
				HookTypes: []string{"End"}, HookedTypes: []string{"example.org/helm", "example.org/mixed"},
			},
			{File: "new", State: "Starting"},
			{File: "policy", State: "Missing", Problem: "the file is not in the plugin directory"},
			{
				File: "rogue", State: "CrashLoop", Name: "rogue", Version: "\x1b[31mred\tand\nlong\xff", Types: []string{"example.org/rogue"},
				Problem: "its process ended:\n\x1b]0;title\asignal: killed",
			},
			{File: "unix:///tmp/hello/plugin.sock", Name: "hello", Version: "v1", Types: []string{"example.org/hello"}, State: "Running", Confinement: "none: it was not started by the host"},
		},
		Problem: "read plugin rogue: it is gone",
	}
}

func TestListText(t *testing.T) {
	t.Parallel()
	expectGolden(t, "list.golden.txt", listText(somePlugins(), false))
	expectGolden(t, "list-wide.golden.txt", listText(somePlugins(), true))
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[uint64]string{0: "", 1: "0Mi", 1 << 20: "1Mi", 3<<19 - 1: "1Mi", 3 << 19: "2Mi", 1 << 40: "1048576Mi"} {
		if got := inMemory(bytes); got != want {
			t.Errorf("%d: expected %q, but found %q", bytes, want, got)
		}
	}
}

func TestReloadText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		done   []control.Reloaded
		want   string
	}{
		{reason: "nothing", want: "Nothing has changed.\n"},
		{
			reason: "everything",
			done: []control.Reloaded{
				{File: "a", Action: "add"},
				{File: "b", Action: "restart"},
				{File: "c", Action: "remove"},
				{File: "d", Action: "refuse"},
				{File: "e", Action: "restart", Error: "is no\nplugin"},
				{File: "f", Error: "is not there"},
				{File: "g", Action: "later"},
			},
			want: "a: added\nb: restarted\nc: removed\nd: refused\ne: not reloaded\n    is no\n    plugin\nf: not reloaded\n    is not there\ng: later\n",
		},
	} {
		if diff := cmp.Diff(tc.want, reloadText(&control.ReloadResult{Reloaded: tc.done})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	one, two := rundir.Entry{Pid: 12, Path: "/run/12"}, rundir.Entry{Pid: 34, Path: "/run/34"}
	for _, tc := range []struct {
		reason string
		hosts  []rundir.Entry
		pid    int
		want   rundir.Entry
		err    string
	}{
		{reason: "the one", hosts: []rundir.Entry{one}, want: one},
		{reason: "the named one", hosts: []rundir.Entry{one, two}, pid: 34, want: two},
		{reason: "which one is meant?", hosts: []rundir.Entry{one, two}, err: "several hosts are running, with the process ids 12, 34; choose one with --pid"},
		{reason: "it is not there", hosts: []rundir.Entry{one, two}, pid: 56, err: "no host has the process id 56; running: 12, 34"},
		{reason: "none", err: "no host of this user is running with the run directory /run; if it has another one, name that with --run-dir"},
		{reason: "none at all", pid: 12, err: "no host of this user is running with the run directory /run; if it has another one, name that with --run-dir"},
	} {
		got, err := choose(tc.hosts, tc.pid, "/run")
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s: expected %v and %q, but found %v and %v", tc.reason, tc.want, tc.err, got, err)
		}
	}
}

func TestPluginsErrorsSayWhatToDo(t *testing.T) {
	base := filepath.Join(os.TempDir(), "nobody")
	item := writeFile(t, "item.yaml", itemHead+"metadata: {name: a}\nspec: {type: t, target: {name: cluster}}\n")
	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{reason: "there is another way", args: []string{"list", "--run-dir", base}, want: []string{base, "--run-dir", "--plugin-dir DIR"}},
		{reason: "there is none", args: []string{"reload", "--run-dir", base}, want: []string{base, "--run-dir"}},
		{reason: "names the values", args: []string{"list", "-o", "xml"}, want: []string{"--output", "text, json, wide or yaml", "xml"}},
		{reason: "wide is for lists", args: []string{"reload", "-o", "wide"}, want: []string{"text or json"}},
		{reason: "no such directory", args: []string{"list", "--plugin-dir", "/no/where"}, want: []string{"read plugin directory", "/no/where"}},
		{reason: "a file with errors", args: []string{"list", "--plugin-dir", "/", "--config", writeFile(t, "host.yaml", "typo: 1")}, want: []string{"host.yaml: typo"}},
		{reason: "which directory?", args: []string{"lock"}, want: []string{"expected DIR"}},
		{reason: "nothing to lock", args: []string{"lock", t.TempDir()}, want: []string{"there are no plugins in"}},
		{reason: "nothing to verify", args: []string{"verify", t.TempDir()}, want: []string{"there are no plugins in"}},
		{reason: "which one?", args: []string{"verify"}, want: []string{"expected one plugin, or --attach"}},
		{reason: "which item?", args: []string{"run", "mock"}, want: []string{"--item is missing"}},
		{reason: "names the operations", args: []string{"run", "mock", "--operation", "dance"}, want: []string{"--operation", "force-reconcile", `"dance"`}},
		{reason: "the item has a target", args: []string{"run", "mock", "--item", item}, want: []string{"spec.target", `"cluster"`, "--target"}},
		{reason: "both", args: []string{"run", "mock", "--attach", "unix:///a"}, want: []string{`both "mock" and --attach`}},
	} {
		out, err := pergola(t, append([]string{"plugins"}, tc.args...)...)
		if err == nil || out != "" {
			t.Errorf("%s: expected an error and nothing else, but found %v, %q", tc.reason, err, out)
			continue
		}
		for _, text := range tc.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected %q in %q", tc.reason, text, err)
			}
		}
	}
}

// A plugin that the lock file asks for and that is not there is a finding, and no reason to give up.
//
//nolint:paralleltest // the commands of one process share its run directory
func TestMissingPlugin(t *testing.T) {
	lock, err := lockfile.New([]lockfile.Plugin{{File: "policy", Name: "policy", Version: "v1", HookedTypes: []string{"example.org/helm"}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugins.lock")
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	config := writeFile(t, "host.yaml", "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\npluginVerification: {lockFile: "+path+"}\n")
	out, err := pergola(t, "plugins", "list", "--plugin-dir", t.TempDir(), "--config", config)
	if codeOf(err) != exitNo || !strings.Contains(out, "Missing") || !strings.Contains(out, `the plugin "policy"`) {
		t.Errorf("list: expected that it is missing, but found %v, %s", err, out)
	}
	out, err = pergola(t, "plugins", "list", "--plugin-dir", t.TempDir(), "--config", config, "-o", "yaml")
	if codeOf(err) != exitNo || !strings.Contains(err.Error(), "1 of 1 plugins do not run") || !strings.Contains(out, "state: Missing\n") {
		t.Errorf("list: expected the same in YAML, but found %v, %s", err, out)
	}
	out, err = pergola(t, "plugins", "verify", t.TempDir(), "--config", config)
	if err == nil || !strings.Contains(out, "policy: BAD. A host does not use it") || !strings.Contains(out, "the file is not in the plugin directory") {
		t.Errorf("verify: expected that it is missing, but found %v, %s", err, out)
	}
	_, err = pergola(t, "plugins", "verify", "--attach", "unix:///nowhere", "--config", config)
	if err == nil || strings.Contains(err.Error(), "policy") {
		t.Errorf("verify: expected that nobody looks for it beside one that is attached, but found: %v", err)
	}
}

func TestLockChanges(t *testing.T) {
	t.Parallel()
	helm := lockfile.Plugin{File: "helm", Name: "helm", Version: "v1", Types: []string{"a", "b"}, SHA256: [32]byte{0xab}}
	newer := lockfile.Plugin{File: "helm", Name: "Helm", Version: "v2", Types: []string{"a"}, SHA256: [32]byte{0xcd}}
	mock := lockfile.Plugin{File: "mock", Name: "mock", Version: "v1", Types: []string{"m"}}
	audit := lockfile.Plugin{File: "audit", Name: "audit", Version: "v1", HookedTypes: []string{"h"}}
	less := lockfile.Plugin{File: "audit", Name: "audit", Version: "v1", Types: []string{"h"}}
	rest := strings.Repeat("0", 62)
	for _, tc := range []struct {
		reason        string
		before, after []lockfile.Plugin
		want          []lockChange
	}{
		{reason: "the same", before: []lockfile.Plugin{helm, mock}, after: []lockfile.Plugin{helm, mock}, want: []lockChange{}},
		{reason: "there was none", after: []lockfile.Plugin{helm}, want: []lockChange{{"helm", "added", []string{"name helm", "version v1", "types a, b", "sha256 ab" + rest}}}},
		{reason: "in order of files", before: []lockfile.Plugin{mock, helm}, want: []lockChange{{File: "helm", Change: "removed"}, {File: "mock", Change: "removed"}}},
		{
			reason: "a plugin of nothing but hooks", after: []lockfile.Plugin{audit},
			want: []lockChange{{"audit", "added", []string{"name audit", "version v1", "hooked types of others h", "sha256 00" + rest}}},
		},
		{
			reason: "it serves what it only had hooks for", before: []lockfile.Plugin{audit}, after: []lockfile.Plugin{less},
			want: []lockChange{{"audit", "changed", []string{"types h, was none", "hooked types of others none, was h"}}},
		},
		{reason: "each field", before: []lockfile.Plugin{helm}, after: []lockfile.Plugin{newer}, want: []lockChange{{
			"helm", "changed", []string{"name Helm, was helm", "version v2, was v1", "types a, was a, b", "sha256 cd" + rest + ", was ab" + rest},
		}}},
	} {
		if diff := cmp.Diff(tc.want, lockChanges(tc.before, tc.after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestLockText(t *testing.T) {
	t.Parallel()
	changed := []lockChange{{"a", "removed", nil}, {"b", "changed", []string{"version v2, was v1"}}}
	for _, tc := range []struct {
		reason string
		result lockResult
		want   string
	}{
		{reason: "nothing to do", result: lockResult{LockFile: "l", Plugins: 2}, want: "l is up to date; plugins in it: 2.\n"},
		{reason: "changes", result: lockResult{LockFile: "l", Plugins: 1, Changes: changed}, want: "removed a\nchanged b\n    version v2, was v1\nl is written; plugins in it: 1.\n"},
		{
			reason: "a signature that is worth nothing now", result: lockResult{LockFile: "l", Plugins: 1, Changes: changed[:1], SignatureIsStale: true},
			want: "removed a\nl is written; plugins in it: 1.\nIts signature l.minisig is that of the text before. Sign it anew: minisign -Sm l\n",
		},
		{
			reason: "nothing to compare with", result: lockResult{LockFile: "l", Unreadable: "l: is empty"},
			want: "The lock file before cannot be read, so everything in the new one counts as added:\n    l: is empty\nl is written; plugins in it: 0.\n",
		},
	} {
		if diff := cmp.Diff(tc.want, lockText(&tc.result)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestToLock(t *testing.T) {
	t.Parallel()
	good := plugin.Detail{
		Status: plugin.Status{File: "mock", State: plugin.Running, Info: &plugin.Info{Name: "mock", Version: "v1", Types: []v1alpha1.DeployItemType{"m"}}},
		SHA256: strings.Repeat("ab", 32),
	}
	refused := plugin.Detail{Status: plugin.Status{File: "twin", State: plugin.Refused, Problem: errors.New("is no plugin")}}
	unread := good
	unread.SHA256 = ""

	got, err := toLock([]plugin.Detail{good})
	sum := [32]byte{}
	for i := range sum {
		sum[i] = 0xab
	}
	if diff := cmp.Diff([]lockfile.Plugin{{File: "mock", Name: "mock", Version: "v1", Types: []string{"m"}, SHA256: sum}}, got); diff != "" || err != nil {
		t.Errorf("entries (-want +got):\n%s%v", diff, err)
	}
	for want, details := range map[string][]plugin.Detail{"plugin twin: is no plugin": {good, refused}, "plugin mock: has no checksum": {unread}} {
		if got, err := toLock(details); got != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "was not written") {
			t.Errorf("expected an error with %q, but found %v, %v", want, got, err)
		}
	}
}

func TestVerdictsText(t *testing.T) {
	t.Parallel()
	rules := []finding{
		{Rule: "good-rule", Text: "It is good.", Verdict: "passed"},
		{Rule: "bad-rule", Text: "It is better.", Verdict: "broken", Messages: []string{"Reconcile: it\nis not", "\x1b[31m"}},
		{Rule: "other-rule", Text: "It is.", Verdict: "not applicable", Messages: []string{"no"}},
	}
	verdicts := []verdict{
		{File: "good", Rules: rules[:1]},
		{File: "bad", Rules: rules},
		{File: "refused", Problem: "may be written by others"},
		{File: "clash", Problem: "does not run", Rules: rules[:1]},
	}
	expectGolden(t, "verify.golden.txt", verdictsText(verdicts))
	for i, want := range []bool{false, true, true, true} {
		if got := verdicts[i].broken(); got != want {
			t.Errorf("%s: expected broken to be %t", verdicts[i].File, want)
		}
	}
}

func TestPluginProfiles(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		entry  config.Plugin
		want   map[string]plugin.Profile
	}{
		{reason: "an entry about calls leaves the file alone", entry: config.Plugin{Workers: 5, Config: []byte("{}")}, want: map[string]plugin.Profile{}},
		{reason: "the name of the file is a process' matter", entry: config.Plugin{File: "helm-deployer"}, want: map[string]plugin.Profile{"helm-deployer": {Plugin: "helm", Confinement: sandbox.Auto}}},
		{reason: "arguments", entry: config.Plugin{Args: []string{"a"}}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", Args: []string{"a"}, Confinement: sandbox.Auto}}},
		{reason: "environment", entry: config.Plugin{Environment: []string{"A"}}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", Environment: []string{"A"}, Confinement: sandbox.Auto}}},
		{reason: "memory", entry: config.Plugin{Memory: 64 << 20}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", Memory: 64 << 20, Confinement: sandbox.Auto}}},
		{reason: "open files", entry: config.Plugin{OpenFiles: 64}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", OpenFiles: 64, Confinement: sandbox.Auto}}},
		{reason: "off", entry: config.Plugin{Confinement: config.Confinement{Mode: config.ConfinementOff}}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", Confinement: sandbox.Off}}},
		{
			reason: "required, with paths", entry: config.Plugin{Confinement: config.Confinement{Mode: config.ConfinementRequired, Read: []string{"/r"}, Write: []string{"/w"}}},
			want: map[string]plugin.Profile{"helm": {Plugin: "helm", Confinement: sandbox.Required, Read: []string{"/r"}, Write: []string{"/w"}}},
		},
		{reason: "reading", entry: config.Plugin{Confinement: config.Confinement{Read: []string{"/r"}}}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", Read: []string{"/r"}, Confinement: sandbox.Auto}}},
		{reason: "writing", entry: config.Plugin{Confinement: config.Confinement{Write: []string{"/w"}}}, want: map[string]plugin.Profile{"helm": {Plugin: "helm", Write: []string{"/w"}, Confinement: sandbox.Auto}}},
	} {
		settings := config.Default("host")
		settings.Plugins = map[string]config.Plugin{"helm": tc.entry}
		if diff := cmp.Diff(tc.want, pluginProfiles(settings)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestPluginOptions(t *testing.T) {
	t.Parallel()
	const key = "RWQR62NC9WrXgaqYlEEuIMB8hs5DqKBImU6mgquSteQrrff/98sBbp8f"
	settings := config.Default("host")
	got, err := pluginOptions(settings, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	timeouts := settings.Timeouts
	if got.Verification.Mode != lockfile.Off || got.DefaultProfile.Confinement != sandbox.Auto || len(got.Profiles) > 0 ||
		got.StartTimeout != timeouts.PluginStart.Duration || got.StopGrace != timeouts.PluginStop.Duration ||
		got.Silence != timeouts.PluginSilence.Duration || got.Drain != timeouts.Shutdown.Duration {
		t.Errorf("the options are not those of the settings: %+v", got)
	}
	settings.PluginVerification = config.PluginVerification{LockFile: "plugins.lock", PublicKeys: []string{key}}
	got, err = pluginOptions(settings, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Verification; v.Mode != lockfile.Require || v.LockFile != "plugins.lock" || len(v.Keys) != 1 || v.Keys[0].String() != key {
		t.Errorf("a lock file is required where there is one, but found %+v", v)
	}
	settings.PluginVerification.PublicKeys = []string{key, "no key"}
	if _, err := pluginOptions(settings, nil, 0); err == nil || !strings.Contains(err.Error(), "pluginVerification.publicKeys[1]") {
		t.Errorf("expected the field to be named, but found: %v", err)
	}
}
