package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// scene is a host with rogue plugins and a healthy one.
type scene struct {
	*testenv.Host

	t         *testing.T
	namespace string
	items     int
}

// newScene starts a host with the rogue under these file names, which say how it misbehaves, and two healthy plugins.
func newScene(t *testing.T, rogues ...string) *scene {
	t.Helper()
	dir := pluginDir(t, "mock", "probe")
	for _, file := range rogues {
		addPlugin(t, dir, "rogue", file)
	}
	host := startHost(t, testenv.HostOptions{PluginDir: dir, Config: writeConfig(t, anyConfig+rogueConfig+"\n")})
	return &scene{Host: host, t: t, namespace: newNamespace(t)}
}

// goesOn expects that items of the healthy plugin are carried out.
func (s *scene) goesOn() {
	s.t.Helper()
	for range 5 {
		s.items++
		item := newItem(s.namespace, fmt.Sprintf("healthy-%d", s.items), mockType, mockSucceeds)
		carryOut(s.t, item, succeeded)
	}
}

// item creates an item of a rogue plugin that says what to do in a call, and sets a job.
func (s *scene) item(plugin, do string, timeout v1alpha1.Duration) (item *v1alpha1.DeployItem, job string) {
	s.t.Helper()
	s.items++
	config := fmt.Sprintf(`{"apiVersion":"test.pergola.dev/v1","kind":"Rogue","do":%q}`, do)
	item = newItem(s.namespace, fmt.Sprintf("%s-%d", plugin, s.items), "test.pergola.dev/"+plugin, config)
	item.Spec.Timeout = timeout
	create(s.t, item)
	return item, setJob(s.t, item)
}

// succeeds has an item of a rogue plugin carried out with which nothing is wrong.
func (s *scene) succeeds(plugin string) {
	s.t.Helper()
	item, job := s.item(plugin, "", "")
	if item = waitFinished(s.t, item, job); item.Status.Phase != succeeded {
		s.t.Errorf("expected item %s to succeed, but found %s", item.Name, describe(item))
	}
}

// unready waits until the host says that it is not ready, since a plugin is not, for a reason with this text.
func (s *scene) unready(plugin, why string) {
	s.t.Helper()
	eventually(s.t, "readiness to name the plugin "+plugin, func(ctx context.Context) (string, error) {
		found := describeError(s.Ready(ctx))
		for line := range strings.Lines(found) {
			if strings.HasPrefix(line, "plugin "+plugin+": ") && strings.Contains(line, why) {
				return "", nil
			}
		}
		return fmt.Sprintf("%q is not in %s", why, found), nil
	})
}

// restarts is how often the host has started a plugin again, by the reasons.
func (s *scene) restarts(ctx context.Context, plugin string) (map[string]float64, error) {
	body, err := fetch(ctx, s.URL+"/metrics")
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for line := range strings.SplitSeq(body, "\n") {
		series, value, _ := strings.Cut(line, " ")
		if reason, ok := strings.CutPrefix(series, fmt.Sprintf("pergola_plugin_restarts_total{file=%q,reason=", plugin)); ok {
			if found[strings.Trim(reason, `"}`)], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// restarted waits until a plugin was started again for a reason.
func (s *scene) restarted(plugin, reason string) {
	s.t.Helper()
	eventually(s.t, plugin+" to be started again", func(ctx context.Context) (string, error) {
		found, err := s.restarts(ctx, plugin)
		if err != nil || found[reason] > 0 {
			return "", err
		}
		return fmt.Sprint(found), nil
	})
}

// neverRestarted expects that a plugin still has its first process.
func (s *scene) neverRestarted(plugin string) {
	s.t.Helper()
	found, err := s.restarts(s.t.Context(), plugin)
	if err != nil || len(found) == 0 {
		s.t.Errorf("there are no metrics of %s: %v", plugin, err)
	}
	for reason, times := range found {
		if times != 0 {
			s.t.Errorf("expected %s to have its first process, but it was started again %v times (%s)", plugin, times, reason)
		}
	}
}

// logged waits until the host has logged a record of a plugin whose message begins so, and returns the first.
func (s *scene) logged(plugin, message string) (record map[string]any) {
	s.t.Helper()
	beginning := `"msg":` + strings.TrimSuffix(string(marshal(s.t, message)), `"`)
	eventually(s.t, plugin+" to have the record "+beginning, func(context.Context) (string, error) {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, beginning) && strings.Contains(line, fmt.Sprintf(`"plugin":%q`, plugin)) {
				return "", json.Unmarshal([]byte(line), &record)
			}
		}
		return "it is not in the log", nil
	})
	return record
}

// gone waits until the process has ended whose id a record has.
func (s *scene) gone(record map[string]any) {
	s.t.Helper()
	id, ok := record["pid"].(float64)
	if !ok || id <= 1 {
		s.t.Fatalf("expected a process id, but found %v", record)
	}
	eventually(s.t, "a process to end", func(context.Context) (string, error) {
		if running(int(id)) {
			return fmt.Sprintf("%v runs", id), nil
		}
		return "", nil
	})
}

// crashed checks the status of an item in whose call its plugin has died.
func (s *scene) crashed(item *v1alpha1.DeployItem, plugin string) {
	s.t.Helper()
	last := item.Status.LastError
	if item.Status.Phase != failed || last == nil || last.Reason != "PluginCrashed" ||
		!slices.Contains(last.Codes, v1alpha1.ErrorInternalProblem) ||
		!strings.Contains(last.Message, `the plugin "`+plugin+`"`) {
		s.t.Errorf("expected that %s crashed, but found %s (%+v)", plugin, describe(item), last)
	}
}

// checkPanic checks that a panic is in the host's log, in one record with the stack, and that nothing of it is in the
// item.
func (s *scene) checkPanic(item *v1alpha1.DeployItem, plugin string) {
	s.t.Helper()
	record := s.logged(plugin, "panic: a secret of the goroutine's")
	if stack, _ := record["stack"].(string); record["level"] != "ERROR" || !strings.Contains(stack, "rogue/deeds.go") {
		s.t.Errorf("expected an error with the stack of the panic, but found %v", record)
	}
	for _, words := range []string{"a secret of", "goroutine", "deeds.go"} {
		if status := string(marshal(s.t, item.Status)); strings.Contains(status, words) {
			s.t.Errorf("%q of the plugin's standard error is in the status: %s", words, status)
		}
	}
}
