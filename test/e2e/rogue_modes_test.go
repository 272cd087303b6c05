package e2e

import (
	"maps"
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// rogueConfig has the items fail that a plugin has died of once.
const rogueConfig = `timeouts: {pluginSilence: 15s}
maxPluginCrashes: 1
plugins: {rogue-that-leaks: {memory: 512Mi}}`

var (
	// neverStarted are plugins that never take a call, with what the host says about them.
	neverStarted = map[string]string{
		"rogue-exits":    "it ended before the handshake (exit status 3)",
		"rogue-garbage":  "is no handshake: Hello, I am no plugin.",
		"rogue-path":     `must be a DNS label, but is "../rogue-path"`,
		"rogue-impostor": `refused: deploy item type "` + probeType + `" is claimed by probe and rogue-impostor`,
	}
	// dying are plugins that die in a call, or are killed for it, with what they do and the reason for which they are
	// started again.
	dying = map[string]struct{ do, reason string }{
		"rogue-that-exits":  {"exit", "exit"},
		"rogue-that-panics": {"panics", "exit"},
		"rogue-that-forks":  {"fork", "exit"},
		"rogue-that-leaks":  {"leak", "memory"},
		"rogue-that-hangs":  {"hang", "wedged"},
	}
	// noisy are plugins that carry out their calls, with what the host logs of what they do beside: they print where
	// the handshake was before, and send wake-ups without end.
	noisy = map[string]string{
		"rogue-babbles": "\x00\x1b[2J\ufffd", "rogue-alarms": "",
	}
	// sayings are calls that break the protocol, and whether they end well all the same: the first result counts, and
	// a provider status that cannot be saved is none.
	sayings = map[string]bool{
		"no-result": false, "too-large": false, "json-exports": false,
		"two-results": true, "json-status": true,
	}
)

// TestRogue: no plugin, however broken, stops the host or keeps another one from its work, and an operator sees what
// is wrong with it. All of them are in one host, which has a healthy plugin as well.
// Rule (architecture.md#what-always-holds): 7. Nothing that a plugin does stops the host or another plugin.
func TestRogue(t *testing.T) {
	const says, lingers = "rogue-that-says", "rogue-that-lingers"
	s := newScene(t, slices.Concat([]string{says, lingers},
		slices.Collect(maps.Keys(neverStarted)), slices.Collect(maps.Keys(dying)), slices.Collect(maps.Keys(noisy)))...)
	items, jobs := map[string]*v1alpha1.DeployItem{}, map[string]string{}
	for plugin, c := range dying {
		items[plugin], jobs[plugin] = s.item(plugin, c.do, "")
	}
	for do := range sayings {
		items[do], jobs[do] = s.item(says, do, "")
	}
	items[lingers], jobs[lingers] = s.item(lingers, "linger", "2s")
	s.goesOn()

	for plugin, why := range neverStarted {
		s.unready(plugin, why)
	}
	for plugin, c := range dying {
		s.crashed(waitFinished(t, items[plugin], jobs[plugin]), plugin)
		s.restarted(plugin, c.reason)
		s.succeeds(plugin)
	}
	s.checkPanic(read(t, items["rogue-that-panics"]), "rogue-that-panics")
	s.gone(s.logged("rogue-that-forks", "child"))
	item := waitFinished(t, items[lingers], jobs[lingers])
	if item.Status.Phase != failed || item.Status.LastError.Reason != "ProgressingTimeout" {
		t.Errorf("expected the job to take too long, but found %s", describe(item))
	}
	for do, harmless := range sayings {
		waitFor(t, items[do], "answered", func(i *v1alpha1.DeployItem) bool {
			if harmless {
				return i.Status.Phase == succeeded
			}
			last := i.Status.LastError
			return last != nil && last.Reason == "PluginProtocolError" && i.Status.JobIDFinished != jobs[do]
		})
	}
	for plugin, logged := range noisy {
		s.succeeds(plugin)
		if logged != "" {
			s.logged(plugin, logged)
		}
	}
	s.goesOn()
	for _, plugin := range append(slices.Collect(maps.Keys(noisy)), "mock", says, lingers) {
		s.neverRestarted(plugin)
	}
}
