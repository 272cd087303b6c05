package deployer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// A job is made of steps, which others see: requests to the target, provider statuses that are saved, and the results of its calls. At
// each of them something may end.

// fault is what goes wrong at a step.
type fault struct {
	name string
	// done says that the step takes effect all the same, and only its answer is lost.
	done bool
	// killed says that the plugin ends with it, rather than getting an error.
	killed bool
}

var (
	killedBefore = fault{name: "killed before", killed: true}
	killedAfter  = fault{name: "killed after", killed: true, done: true}
	failed       = fault{name: "failed"}
	answerLost   = fault{name: "answer lost", done: true}
)

// faultsOf returns what can go wrong at a step. A read that took effect is like one that did not; a result is lost when the host ends.
func faultsOf(step string) []fault {
	switch {
	case step == stepResult:
		return []fault{killedBefore}
	case isRead(step):
		return []fault{killedBefore, failed}
	default:
		return []fault{killedBefore, killedAfter, failed, answerLost}
	}
}

const (
	stepSave   = "save"
	stepResult = "result"
)

func isRead(step string) bool { return strings.HasPrefix(step, http.MethodGet+" ") }

// isWrite tells whether a step changes something on the target.
func isWrite(step string) bool {
	return step != stepSave && step != stepResult && !isRead(step) && !strings.HasSuffix(step, dryRun)
}

const dryRun = " (dry run)"

var errStruck = errors.New("the test has cut the connection")

// life is that of a deploy item: it calls a plugin as a host does, notes the steps and lets one of them go wrong.
type life struct {
	*world

	item   *landscaper.DeployItem
	plugin *sdktest.Plugin

	mu    sync.Mutex
	steps []string
	// strikeAt is the number of the step at which the fault strikes, from 1; 0 for never.
	strikeAt int
	fault    fault
	struck   bool
	// dead says that the plugin was killed: what it still does does not reach anybody.
	dead bool
	// saved is the provider status that the host has.
	saved json.RawMessage
	// created says how often each object was created.
	created map[string]int
	// patched are the paths of the objects that were patched: what is changed before it is deleted can be seen nowhere else.
	patched map[string]bool
}

func newLife(t *testing.T, config func(*world) object) *life {
	t.Helper()
	l := &life{world: newWorld(t)}
	l.item = l.world.item(config(l.world))
	l.start()
	l.begin(0, fault{})
	return l
}

// start starts a plugin that remembers nothing.
func (l *life) start() {
	l.plugin = sdktest.New(l.T, deployer.New("pergola-manifest/test", targetclient.WrapTransport(l.wrap)),
		sdk.Name("manifest"), sdk.Version("test"), sdk.Types(v1alpha2.Type))
}

// begin forgets the steps until now, and says what is to go wrong from now on.
func (l *life) begin(strikeAt int, f fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.strikeAt, l.fault, l.struck = strikeAt, f, false
	l.steps, l.created, l.patched = nil, map[string]int{}, map[string]bool{}
}

// step says of the next step whether it takes effect, and whether the plugin hears of that.
func (l *life) step(name string) (done, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false, false
	}
	l.steps = append(l.steps, name)
	if len(l.steps) != l.strikeAt {
		return true, true
	}
	l.struck, l.dead = true, l.fault.killed
	return l.fault.done, false
}

// alive tells whether the plugin was not killed meanwhile.
func (l *life) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead
}

// save is the host's answer to a provider status.
func (l *life) save(document json.RawMessage) error {
	done, heard := l.step(stepSave)
	if done {
		l.mu.Lock()
		l.saved = document
		l.mu.Unlock()
	}
	if !heard {
		return errStruck
	}
	return nil
}

// wrap is the connection of the plugin to the target.
func (l *life) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		name := r.Method + " " + r.URL.Path
		if r.URL.Query().Has("dryRun") {
			name += dryRun
		}
		done, heard := l.step(name)
		if !done {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, errStruck
		}
		l.mu.Lock()
		saved := l.saved
		l.mu.Unlock()
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if isWrite(name) {
			err = l.noteWrite(r, response, saved)
		}
		if err != nil || !heard || !l.alive() {
			_ = response.Body.Close()
			return nil, errors.Join(errStruck, err)
		}
		return response, nil
	})
}

// noteWrite notes what the target has carried out. saved is the provider status that the host had when the request was sent.
func (l *life) noteWrite(r *http.Request, response *http.Response, saved json.RawMessage) error {
	if r.Method == http.MethodPatch && response.StatusCode < http.StatusMultipleChoices {
		l.mu.Lock()
		l.patched[r.URL.Path] = true
		l.mu.Unlock()
	}
	if response.StatusCode != http.StatusCreated {
		return nil
	}
	return l.noteCreation(response, saved)
}

// noteCreation counts the object in an answer, which must be in the provider status saved.
func (l *life) noteCreation(response *http.Response, saved json.RawMessage) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	var created struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(body, &created); err != nil {
		return err
	}
	key := strings.Join([]string{created.Kind, created.Metadata.Namespace, created.Metadata.Name}, " ")
	if !slices.Contains(managedKeys(l.T, saved), key) {
		l.Errorf("%s was created before the host had saved that it is managed", key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created[key]++
	return nil
}

// managedKeys returns the objects of a provider status as "Kind namespace name".
func managedKeys(t *testing.T, document json.RawMessage) []string {
	t.Helper()
	if len(document) == 0 {
		return nil
	}
	var status v1alpha2.ProviderStatus
	if err := json.Unmarshal(document, &status); err != nil {
		t.Errorf("provider status: %v", err)
	}
	keys := make([]string, 0, len(status.ManagedResources))
	for _, m := range status.ManagedResources {
		keys = append(keys, strings.Join([]string{m.Resource.Kind, m.Resource.Namespace, m.Resource.Name}, " "))
	}
	return keys
}

// operation is a method of a plugin.
type operation func(*sdktest.Plugin, context.Context, sdktest.Call) *sdktest.Result

// carryOut calls the plugin until the job is done. A killed one is started again, and knows what was saved.
func (l *life) carryOut(do operation) {
	l.Helper()
	const patience = time.Minute
	for began := time.Now(); time.Since(began) < patience; {
		if l.callOnce(do) {
			return
		}
	}
	l.Fatalf("the job is not done after %s; its last steps: %v", patience, l.steps[max(0, len(l.steps)-20):])
}

func (l *life) callOnce(do operation) (done bool) {
	l.Helper()
	struckBefore := l.struck
	result := do(l.plugin, l.Context(), sdktest.Call{DeployItem: l.item, Target: l.target, OnSave: l.save})
	recorded, _ := l.step(stepResult)
	if recorded && len(result.ProviderStatus) > 0 {
		l.saved = result.ProviderStatus
	}
	if len(l.saved) > 0 {
		l.item.Status.ProviderStatus = &runtime.RawExtension{Raw: l.saved}
	}
	switch {
	case l.dead:
		l.dead = false
		l.start()
	case result.Failed != nil && (!l.struck || struckBefore):
		l.Fatalf("expected no failure without a reason, but found: %s", result)
	case result.Succeeded != nil:
		return true
	}
	l.checkNoOrphans()
	if result.InProgress != nil {
		time.Sleep(20 * time.Millisecond) // until the target has gone on; how often it is asked does not matter
	}
	return false
}

// checkNoOrphans checks that the host knows of each object that is labelled for the item.
func (l *life) checkNoOrphans() {
	l.Helper()
	managed := managedKeys(l.T, l.saved)
	for _, o := range l.labelled() {
		key := strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
		if !slices.Contains(managed, key) {
			l.Errorf("%s is an orphan: the host has saved only %v", key, managed)
		}
	}
}
