package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// scene is a host with a rogue plugin and a healthy one, whose items are created and finished all the while.
type scene struct {
	*testenv.Host

	t         *testing.T
	namespace string
	rogue     string       // the file of the plugin
	finished  atomic.Int64 // healthy items
	failed    atomic.Bool  // one of them
}

// sceneConfig is the configuration of a host that carries out the items of one namespace alone, by their Target: scenes share a cluster.
const sceneConfig = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
targetSelectors:
- labels:
  - {key: scene, operator: "=", values: [%s]}
%s
`

// newScene starts a host with the rogue under a file name, which says how it misbehaves, and other plugins beside it. config is what the
// host's configuration says besides.
func newScene(t *testing.T, rogue, config string, others ...string) *scene {
	t.Helper()
	s := &scene{t: t, namespace: newNamespace(t), rogue: rogue}
	target := createZoneTarget(t, s.namespace, "target", "none")
	target.Labels["scene"] = s.namespace
	if err := admin.Update(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	dir := pluginDir(t, append(others, "mock")...)
	addPlugin(t, dir, "rogue", rogue)
	s.Host = startHost(t, testenv.HostOptions{PluginDir: dir, Config: writeConfig(t, fmt.Sprintf(sceneConfig, s.namespace, config))})

	ctx, cancel := context.WithCancel(t.Context())
	var healthy sync.WaitGroup
	healthy.Go(func() { s.finishItems(ctx) })
	t.Cleanup(func() {
		cancel()
		healthy.Wait()
	})
	return s
}

// finishItems has one healthy item after the other carried out, until ctx ends.
func (s *scene) finishItems(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		item := withTarget(newItem(s.namespace, fmt.Sprintf("healthy-%d", i), mockType, mockSucceeds), "target")
		if err := carryOutHealthy(ctx, item); ctx.Err() == nil && err != nil {
			s.t.Errorf("an item of a healthy plugin: %v", err)
			s.failed.Store(true)
			return
		}
		s.finished.Add(1)
	}
}

// carryOutHealthy creates an item with a job and waits until it has succeeded.
func carryOutHealthy(ctx context.Context, item *v1alpha1.DeployItem) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := admin.Create(ctx, item); err != nil {
		return err
	}
	job := uuid.NewString()
	patch := fmt.Sprintf(`{"status":{"jobID":%q,"jobIDGenerationTime":%q,"observedGeneration":0}}`, job, time.Now().UTC().Format(time.RFC3339))
	if err := admin.Status().Patch(ctx, item, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return err
	}
	for item.Status.JobIDFinished != job {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), describe(item))
		case <-time.After(20 * time.Millisecond):
		}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(item), item); err != nil {
			return err
		}
	}
	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		return errors.New(describe(item))
	}
	return nil
}

// goesOn waits until several more healthy items are finished, and expects that their plugin was not started again.
func (s *scene) goesOn() {
	s.t.Helper()
	const several = 5
	before := s.finished.Load()
	eventually(s.t, "healthy items to be finished", func(context.Context) (string, error) {
		if s.failed.Load() {
			return "", errors.New("one has failed")
		}
		if now := s.finished.Load(); now < before+several {
			return fmt.Sprintf("%d of them since there were %d", now-before, before), nil
		}
		return "", nil
	})
	s.neverRestarted("mock")
}

// neverRestarted expects that a plugin still has its first process.
func (s *scene) neverRestarted(file string) {
	s.t.Helper()
	series := s.metrics(fmt.Sprintf("pergola_plugin_restarts_total{file=%q", file))
	if len(series) == 0 {
		s.t.Errorf("there are no metrics of %s", file)
	}
	for name, value := range series {
		if value != 0 {
			s.t.Errorf("expected the plugin to have its first process, but %s is %v", name, value)
		}
	}
}

// item creates an item of the rogue plugin that says what to do in a call, and sets a job.
func (s *scene) item(name, do string) (item *v1alpha1.DeployItem, job string) {
	s.t.Helper()
	return s.itemWithTimeout(name, do, "")
}

func (s *scene) itemWithTimeout(name, do string, timeout v1alpha1.Duration) (item *v1alpha1.DeployItem, job string) {
	s.t.Helper()
	config := fmt.Sprintf(`{"apiVersion":"test.pergola.dev/v1","kind":"Rogue","do":%q}`, do)
	item = withTarget(newItem(s.namespace, name, "test.pergola.dev/"+s.rogue, config), "target")
	item.Spec.Timeout = timeout
	create(s.t, item)
	return item, setJob(s.t, item)
}

// succeeds has an item of the rogue plugin carried out with which nothing is wrong.
func (s *scene) succeeds(name string) {
	s.t.Helper()
	item, job := s.item(name, "")
	if item = waitFinished(s.t, item, job); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		s.t.Errorf("expected item %s to succeed, but found %s", name, describe(item))
	}
}

// unready waits until the host says that it is not ready, with these texts among its reasons.
func (s *scene) unready(texts ...string) {
	s.t.Helper()
	eventually(s.t, "readiness to name the plugin", func(ctx context.Context) (string, error) {
		found := describeError(s.Ready(ctx))
		for _, text := range texts {
			if !strings.Contains(found, text) {
				return fmt.Sprintf("%q is not in %s", text, found), nil
			}
		}
		return "", nil
	})
}

// metrics are the series of the host's metrics that begin so, with their values.
func (s *scene) metrics(prefix string) map[string]float64 {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		series, text, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(series, prefix) {
			continue
		}
		if found[series], err = strconv.ParseFloat(text, 64); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// restarted waits until the rogue was started again, for a reason, so many times at least.
func (s *scene) restarted(reason string, times float64) {
	s.t.Helper()
	s.metric(fmt.Sprintf(`pergola_plugin_restarts_total{file=%q,reason=%q}`, s.rogue, reason), func(v float64) bool { return v >= times })
}

// up waits until the metric says whether the rogue takes calls.
func (s *scene) up(is float64) {
	s.t.Helper()
	s.metric(fmt.Sprintf(`pergola_plugin_up{file=%q}`, s.rogue), func(v float64) bool { return v == is })
}

// metric waits until a series has a value that will do.
func (s *scene) metric(series string, will func(float64) bool) {
	s.t.Helper()
	eventually(s.t, "the metric "+series, func(context.Context) (string, error) {
		found := s.metrics(series)
		if value, ok := found[series]; !ok || !will(value) {
			return fmt.Sprint(found), nil
		}
		return "", nil
	})
}

// logged waits until the host has logged a record of the rogue whose message begins so, and returns the first.
func (s *scene) logged(message string) map[string]any {
	s.t.Helper()
	text, err := json.Marshal(message)
	if err != nil {
		s.t.Fatal(err)
	}
	beginning := `"msg":` + strings.TrimSuffix(string(text), `"`)
	record := map[string]any{}
	eventually(s.t, "the record "+beginning, func(context.Context) (string, error) {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, beginning) && strings.Contains(line, fmt.Sprintf(`"plugin":%q`, s.rogue)) {
				return "", json.Unmarshal([]byte(line), &record)
			}
		}
		return "it is not in the log", nil
	})
	return record
}

// gone waits until a process has ended.
func (s *scene) gone(pid int) {
	s.t.Helper()
	eventually(s.t, "a process to end", func(context.Context) (string, error) {
		if running(pid) {
			return fmt.Sprintf("%d runs", pid), nil
		}
		return "", nil
	})
}
