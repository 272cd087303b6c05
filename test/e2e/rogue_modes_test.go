package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// No plugin, however broken or hostile, stops the host or keeps another one from its work, and an operator sees what is wrong with it.
// The hosts of these tests stop in order at their end, and have no data race; see startHost.
func TestRogue(t *testing.T) {
	for _, mode := range []struct {
		name string // of the rogue's file
		play func(t *testing.T, rogue string)
	}{
		// Those that take long begin.
		{"rogue-hangs", func(t *testing.T, rogue string) { playWedged(t, rogue, "hang", "has said nothing in a call for 15s") }},
		{"rogue-stops", func(t *testing.T, rogue string) { playWedged(t, rogue, "stop", "has answered no health check for 15s") }},

		{"rogue-exits", func(t *testing.T, rogue string) {
			playNoPlugin(t, rogue, "it ended before the handshake (exit status 3)")
		}},
		{"rogue-silent", playSilence},
		{"rogue-garbage", func(t *testing.T, rogue string) { playNoPlugin(t, rogue, "is no handshake: Hello, I am no plugin.") }},
		{"rogue-path", func(t *testing.T, rogue string) {
			playNoPlugin(t, rogue, `must be a DNS label, but is "../rogue-path"`)
		}},
		{"rogue-bad-name", func(t *testing.T, rogue string) { playNoPlugin(t, rogue, "contains invalid UTF-8") }},
		{"rogue-bad-version", func(t *testing.T, rogue string) { playNoPlugin(t, rogue, "contains invalid UTF-8") }},
		{"rogue-bad-type", func(t *testing.T, rogue string) { playNoPlugin(t, rogue, "contains invalid UTF-8") }},

		{"rogue-impostor", playImpostor},
		{"rogue-latecomer", playLatecomer},
		{"rogue-changeling", playChangeling},

		{"rogue-babbles", playBabble},
		{"rogue-floods", playFlood},
		{"rogue-alarms", playAlarms},
		{"rogue-bad-wake", playBadWake},

		{"rogue-that-exits", func(t *testing.T, rogue string) { playPoison(t, rogue, "exit", "") }},
		{"rogue-that-panics", func(t *testing.T, rogue string) { playPoison(t, rogue, "panic", "a secret of the call's") }},
		{"rogue-that-panics-elsewhere", func(t *testing.T, rogue string) { playPoison(t, rogue, "panics", "a secret of the goroutine's") }},
		{"rogue-that-forks", playFork},
		{"rogue-that-leaks", playLeak},
		{"rogue-that-lingers", func(t *testing.T, rogue string) { playTimeout(t, rogue, "linger") }},
		{"rogue-that-never-ends", func(t *testing.T, rogue string) { playTimeout(t, rogue, "endless") }},
		{"rogue-that-says", playSayings},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			mode.play(t, mode.name)
		})
	}
}

// playNoPlugin is for what never takes a call.
func playNoPlugin(t *testing.T, rogue, why string) { notStarted(newScene(t, rogue, ""), why) }

// playSilence says nothing. The time for a start is that of all plugins: the healthy one needs much of it on a busy machine.
func playSilence(t *testing.T, rogue string) {
	notStarted(newScene(t, rogue, "timeouts: {pluginStart: 20s}"), "no handshake within 20s")
}

func notStarted(s *scene, why string) {
	s.t.Helper()
	s.unready("plugin "+s.rogue+": ", why)
	s.up(0)
	s.restarted("start", 1)
	s.logged("plugin is not running; it is started again")
	s.goesOn()
}

// playImpostor claims the type of a plugin from the start. Nobody knows which of them is the right one.
func playImpostor(t *testing.T, rogue string) {
	s := newScene(t, rogue, "", "probe")
	for _, file := range []string{"probe", rogue} {
		s.unready("plugin "+file+": refused", `deploy item type "`+probeType+`" is claimed by probe and `+rogue)
	}
	s.up(0)
	s.goesOn()
}

// withDirectory is the configuration of a rogue that needs a directory.
func withDirectory(rogue, dir string) string {
	return fmt.Sprintf("plugins: {%s: {args: [%q], confinement: {write: [%q]}}}", rogue, dir, dir)
}

// playLatecomer claims the type of the healthy plugin when that one serves it already.
func playLatecomer(t *testing.T, rogue string) {
	dir := t.TempDir()
	s := newScene(t, rogue, withDirectory(rogue, dir))
	s.goesOn()
	touch(t, filepath.Join(dir, "come"))
	s.unready("plugin "+rogue+": refused", `deploy item type "`+mockType+`" is that of mock, which serves it already`)
	s.goesOn()
}

// playChangeling dies, and comes back with the type of the healthy plugin.
func playChangeling(t *testing.T, rogue string) {
	s := newScene(t, rogue, withDirectory(rogue, t.TempDir()))
	s.succeeds("before")
	s.item("poison", "exit")
	s.unready("plugin "+rogue+": refused", "has become another plugin")
	s.up(0)
	s.goesOn()
}

// playBabble prints rubbish where there should be nothing: lines that look like a handshake, control characters, endless lines.
func playBabble(t *testing.T, rogue string) {
	s := newScene(t, rogue, "")
	s.succeeds("one")
	if record := s.logged("xxxx"); record["truncated"] != true || record["stream"] != "stdout" {
		t.Errorf("expected the beginning of the line, and where it was printed, but found %v", clip(record))
	}
	s.logged("\x00\x1b[2J\ufffd")
	s.succeeds("other")
	s.neverRestarted(rogue)
	s.goesOn()
}

// clip shortens what a record says to what a person reads.
func clip(record map[string]any) string {
	text := fmt.Sprint(record)
	return text[:min(len(text), 1000)]
}

// playFlood writes 100 MB of lines that go-plugin panics at.
func playFlood(t *testing.T, rogue string) {
	begin := time.Now()                                    // before the host's first reading of the plugin
	s := newScene(t, rogue, "timeouts: {pluginStart: 2m}") // with the race detector it takes long to read so much
	s.succeeds("one")
	record := s.logged("plugin logs too much; lines were dropped")
	if lines, ok := record["lines"].(float64); !ok || lines < 1 || record["bytes"] == nil {
		t.Errorf("expected the record to say how much was dropped, but found %s", clip(record))
	}
	s.logged(`{"@message":123}`)
	s.metric(fmt.Sprintf("pergola_plugin_log_dropped_lines_total{file=%q}", rogue), func(lines float64) bool { return lines > 1e6 })
	// The budget of what a plugin writes, and a little for what the host says of it.
	took := time.Since(begin)
	if lines, most := strings.Count(s.Log(), fmt.Sprintf(`"plugin":%q`, rogue)), 100+500*(6+int(took.Seconds())); lines > most {
		t.Errorf("expected at most %d lines about the plugin in the log after %s, but found %d", most, took, lines)
	}
	s.neverRestarted(rogue)
	s.goesOn()
}

// playAlarms wakes the host without end.
func playAlarms(t *testing.T, rogue string) {
	s := newScene(t, rogue, "")
	for i := range 5 {
		s.succeeds(fmt.Sprintf("item-%d", i))
	}
	s.goesOn()
	s.up(1)
}

func playBadWake(t *testing.T, rogue string) {
	s := newScene(t, rogue, "")
	s.succeeds("one")
	if why := fmt.Sprint(s.logged("plugin stopped sending wake-ups")["error"]); !strings.Contains(why, "UTF-8") {
		t.Errorf("expected the reason to be in the log, but found %q", why)
	}
	s.goesOn()
	s.up(1)
}

// playPoison dies in each call for one item. That one fails when it has done so three times, and the plugin is there for others.
func playPoison(t *testing.T, rogue, do, secret string) {
	s := newScene(t, rogue, "")
	poison, job := s.item("poison", do)
	for i := range 3 {
		s.succeeds(fmt.Sprintf("good-%d", i))
	}
	s.crashed(waitFinished(t, poison, job), "3 times")
	s.restarted("exit", 3)
	if secret != "" {
		s.logged("last words of the plugin")
		s.panicked(read(t, poison), secret)
	}
	s.succeeds("afterwards")
	s.up(1)
	s.goesOn()
}

// crashed checks the status of an item in whose calls the plugin has died too often.
func (s *scene) crashed(item *v1alpha1.DeployItem, often string) {
	s.t.Helper()
	last := item.Status.LastError
	if item.Status.Phase != v1alpha1.DeployItemPhaseFailed || last == nil || last.Reason != "PluginCrashed" ||
		!slices.Equal(last.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}) ||
		!strings.Contains(last.Message, `the plugin "`+s.rogue+`"`) || !strings.Contains(last.Message, often) {
		s.t.Errorf("expected that the plugin crashed %s, but found %s (%+v)", often, describe(item), last)
	}
}

// panicked checks that a panic is in the host's log, in one record with the stack, and that nothing of it is in the item.
func (s *scene) panicked(item *v1alpha1.DeployItem, secret string) {
	s.t.Helper()
	record := s.logged("panic: " + secret)
	if stack, _ := record["stack"].(string); record["level"] != "ERROR" || !strings.Contains(stack, "goroutine ") || !strings.Contains(stack, "rogue/deeds.go") {
		s.t.Errorf("expected an error with the stack of the panic, but found %s", clip(record))
	}
	status, err := json.Marshal(item.Status)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, words := range []string{secret, "goroutine", "deeds.go"} {
		if strings.Contains(string(status), words) {
			s.t.Errorf("%q of the plugin's standard error is in the status: %s", words, status)
		}
	}
}

// playWedged does not answer any more. It is killed and started again, and its other items go on.
func playWedged(t *testing.T, rogue, do, why string) {
	s := newScene(t, rogue, "timeouts: {pluginSilence: 15s}\nmaxPluginCrashes: 1")
	s.succeeds("before")
	poison, job := s.item("poison", do)
	s.metric(fmt.Sprintf("pergola_plugin_calls{file=%q}", rogue), func(calls float64) bool { return calls == 1 })
	s.goesOn()
	s.crashed(waitFinished(t, poison, job), "once")
	if record := s.logged("plugin is killed"); !strings.Contains(fmt.Sprint(record["error"]), why) {
		t.Errorf("expected the log to say that it %s, but found %s", why, clip(record))
	}
	s.restarted("wedged", 1)
	s.succeeds("afterwards")
	s.goesOn()
}

// playFork leaves children behind each time that it dies.
func playFork(t *testing.T, rogue string) {
	s := newScene(t, rogue, "")
	poison, job := s.item("poison", "fork")
	child, deserter := s.process("child"), s.process("deserter")
	t.Cleanup(func() { _ = syscall.Kill(deserter, syscall.SIGKILL) }) // should the test fail
	s.crashed(waitFinished(t, poison, job), "3 times")
	s.gone(child)
	s.gone(deserter)
	s.succeeds("afterwards")
	s.goesOn()
}

// process is the process id that the rogue has logged.
func (s *scene) process(kind string) int {
	s.t.Helper()
	id, ok := s.logged(kind)["pid"].(float64)
	if !ok || id <= 1 {
		s.t.Fatalf("expected a process id, but found %v", id)
	}
	return int(id)
}

// playLeak takes more memory than it may.
func playLeak(t *testing.T, rogue string) {
	s := newScene(t, rogue, fmt.Sprintf("plugins: {%s: {memory: 512Mi}}\nmaxPluginCrashes: 1", rogue))
	poison, job := s.item("poison", "leak")
	s.crashed(waitFinished(t, poison, job), "once")
	s.restarted("memory", 1)
	if record := s.logged("plugin is killed"); !strings.Contains(fmt.Sprint(record["error"]), "and may take 512 MiB") {
		t.Errorf("expected the log to name the limit, but found %s", clip(record))
	}
	s.succeeds("afterwards")
	s.goesOn()
}

// playTimeout does not end a call that nobody wants any more. The time of the job is up all the same.
func playTimeout(t *testing.T, rogue, do string) {
	s := newScene(t, rogue, "")
	item, job := s.itemWithTimeout("poison", do, "2s")
	s.goesOn()
	if item = waitFinished(t, item, job); item.Status.Phase != v1alpha1.DeployItemPhaseFailed || item.Status.LastError.Reason != "ProgressingTimeout" {
		t.Errorf("expected the job to take too long, but found %s", describe(item))
	}
	s.succeeds("afterwards")
	s.neverRestarted(rogue)
	s.goesOn()
}

// playSayings breaks the protocol, or says what is no JSON or no UTF-8. The plugin is not to blame for more than that one call.
func playSayings(t *testing.T, rogue string) {
	// The first result counts, a provider status that cannot be saved is none, and bad texts in one become U+FFFD.
	harmless := []string{"two-results", "json-status", "text-status", "text-result"}
	s := newScene(t, rogue, "")
	jobs := map[*v1alpha1.DeployItem]string{}
	for _, saying := range []string{
		"no-result", "no-outcome", "two-results", "too-large",
		"bad-progress", "bad-event", "bad-code", "bad-reason", "bad-message", "bad-wait",
		"json-exports", "text-exports", "json-status", "text-status", "json-result", "text-result",
	} {
		item, job := s.item(saying, saying)
		jobs[item] = job
	}
	for item, job := range jobs {
		t.Run(item.Name, func(t *testing.T) {
			if slices.Contains(harmless, item.Name) {
				item = waitFinished(t, item, job)
				if document := item.Status.ProviderStatus; item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded ||
					document != nil && (!json.Valid(document.Raw) || !utf8.Valid(document.Raw)) {
					t.Errorf("expected success and a status that can be read, but found %s, provider status %+v", describe(item), document)
				}
				return
			}
			waitFor(t, item, "told that its plugin has broken the protocol", func(i *v1alpha1.DeployItem) bool {
				return i.Status.LastError != nil && i.Status.LastError.Reason == "PluginProtocolError" && i.Status.JobIDFinished != job
			})
		})
	}
	s.logged("plugin goes on with a call after its result")
	s.succeeds("afterwards")
	s.neverRestarted(rogue)
	s.goesOn()
}
