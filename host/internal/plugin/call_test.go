package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

func TestCallCarriesEverything(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	outcome, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{
		DeployItem: deployItem("item"),
		Target:     &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content"},
		Context:    &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: "context"}},
		Deadline:   time.Now().Add(time.Hour),
	}, &observer{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Outcome{
		Succeeded: &Succeeded{Exports: []byte(`{"context":"context","job":"job","name":"item","target":"content"}`)},
	}
	if diff := cmp.Diff(want, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	outcome, err = h.plugin("echo").Call(t.Context(), Delete, Call{DeployItem: deployItem("item")}, &observer{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Outcome{Succeeded: &Succeeded{}}, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestOperationsThatThePluginDoesNotHave(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	for _, op := range []Operation{Abort, ForceReconcile} {
		_, err := h.plugin("echo").Call(t.Context(), op, Call{DeployItem: deployItem("item")}, &observer{})
		if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), string(op)) {
			t.Errorf("%s: expected ErrProtocol with the name of the operation, but found: %v", op, err)
		}
	}
	if _, err := h.plugin("echo").Call(t.Context(), "Dance", Call{DeployItem: deployItem("item")},
		&observer{}); err == nil {
		t.Error("expected an error")
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	var got []string // without a lock: one report comes after the other
	_, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{DeployItem: deployItem("report")}, &observer{
		progress: func(step, message string) { got = append(got, step+": "+message) },
		event: func(warning bool, reason, message string) {
			got = append(got, fmt.Sprint(warning, " ", reason, ": ", message))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"step: message", "false Reason: an event", "true Reason: a warning"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func TestSaveProviderStatus(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	for name, test := range map[string]struct {
		reason string
		err    error
		want   *Outcome
	}{
		"saved": {
			reason: "the plugin goes on",
			want:   &Outcome{Succeeded: &Succeeded{}, ProviderStatus: statusDocument("done")},
		},
		"not saved": {
			reason: "the plugin learns why and does not go on",
			err:    errors.New("the object \xff has been modified"),
			want: &Outcome{Errors: []Error{{
				Operation: "Reconcile", Reason: "DeployerError",
				Message: "save provider status: the object \uFFFD has been modified",
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var saved []byte
			got, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{DeployItem: deployItem("save")}, &observer{
				save: func(_ context.Context, document []byte) error {
					saved = document
					return test.err
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(statusDocument("saved")), string(saved)); diff != "" {
				t.Errorf("saved (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: outcome (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

func statusDocument(value string) []byte {
	document, err := json.Marshal(newEchoStatus(value))
	if err != nil {
		return nil
	}
	return document
}

func TestCallsThatBreakTheRules(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	for item, reason := range map[string]string{
		"nothing":    "the call ends without a result",
		"no-outcome": "the result has no outcome",
		"no-result":  "there is no result in the result",
		"refusal":    "the call fails by gRPC",
		"65MiB":      "the result is larger than a message may be",
	} {
		t.Run(item, func(t *testing.T) {
			t.Parallel()
			outcome, err := h.call(t.Context(), "raw", item)
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("%s: expected ErrProtocol, but found: %v (%v)", reason, err, outcome)
			}
			if text := err.Error(); len(text) > hostside.MaxMessage+100 || !utf8.ValidString(text) {
				t.Errorf("%s: expected a bounded text of valid UTF-8, but found %d bytes", reason, len(text))
			}
		})
	}
	for item, reason := range map[string]string{
		"unknown":     "what this host does not know is passed over",
		"save-and-go": "the plugin does not wait for the acknowledgement",
		"40MiB":       "a large answer is no wrong answer",
		"5MiB":        "huge texts are cut",
	} {
		t.Run(item, func(t *testing.T) {
			t.Parallel()
			outcome, err := h.plugin("raw").Call(t.Context(), Reconcile, Call{DeployItem: deployItem(item)}, &observer{
				progress: func(step, message string) {
					if len(step)+len(message) > 3*hostside.MaxMessage || !utf8.ValidString(step) || !utf8.ValidString(message) {
						t.Errorf("%s: expected bounded texts of valid UTF-8, but found %d and %d bytes", reason, len(step), len(message))
					}
				},
			})
			if err != nil || outcome.Succeeded == nil {
				t.Fatalf("%s: expected success, but found %v (%v)", reason, outcome, err)
			}
			if size := len(outcome.Succeeded.Exports); item == "40MiB" && size != 40<<20 {
				t.Errorf("%s: the exports have %d bytes", reason, size)
			}
		})
	}
}

func TestFieldThatIsNotUTF8IsNamed(t *testing.T) {
	t.Parallel()
	_, err := start(t, "raw").call(t.Context(), "raw", "latin-1")
	if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "pergola.deployer.v1.Progress.message") {
		t.Errorf("expected ErrProtocol with the field, but found: %v", err)
	}
}

func TestCrashInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	t.Run("before the acknowledgement", func(t *testing.T) {
		t.Parallel()
		h := start(t, "raw")
		_, err := h.plugin("raw").Call(t.Context(), Reconcile, Call{DeployItem: deployItem("save-and-hang")}, &observer{
			save: func(context.Context, []byte) error {
				h.crash("raw")
				eventually(t, "the connection to be closed", func() bool {
					s := h.status("raw")
					return s.State == Backoff || s.Restarted() > 0
				})
				return nil
			},
		})
		if !errors.Is(err, ErrCrashed) {
			t.Errorf("expected ErrCrashed, but found: %v", err)
		}
	})
	t.Run("of others", func(t *testing.T) {
		t.Parallel()
		h := start(t, "raw_a_one", "raw_b_two")
		hanging := make(chan struct{})
		result := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := h.plugin("raw_a_one").Call(ctx, Reconcile, Call{DeployItem: deployItem("hang")}, &observer{
				progress: func(string, string) { close(hanging) },
			})
			result <- err
		}()
		<-hanging
		h.crash("raw_b_two")
		select {
		case err := <-result:
			t.Errorf("the crash of one plugin has ended the call of another: %v", err)
		default:
		}
		h.crash("raw_a_one")
		if err := <-result; !errors.Is(err, ErrCrashed) || errors.Is(err, ErrBeside) {
			t.Errorf("expected ErrCrashed alone, but found: %v", err)
		}
		cancel()
	})
	t.Run("of two", func(t *testing.T) {
		t.Parallel()
		h := start(t, "raw")
		results := make(chan error, 2)
		for range cap(results) {
			hanging := make(chan struct{})
			go func() {
				_, err := h.plugin("raw").Call(t.Context(), Reconcile, Call{DeployItem: deployItem("hang")}, &observer{
					progress: func(string, string) { close(hanging) },
				})
				results <- err
			}()
			<-hanging
		}
		h.crash("raw")
		for range cap(results) {
			if err := <-results; !errors.Is(err, ErrCrashed) || !errors.Is(err, ErrBeside) {
				t.Errorf("expected ErrCrashed and ErrBeside, but found: %v", err)
			}
		}
	})
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	h := start(t, "echo", "raw_a_one")
	for file, item := range map[string]string{"raw_a_one": "hang", "echo": "context"} {
		_, err := h.plugin(file).Call(t.Context(), Reconcile,
			Call{DeployItem: deployItem(item), Deadline: time.Now().Add(300 * time.Millisecond)}, &observer{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: expected that the deadline has passed, but found: %v", item, err)
		}
	}
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	errLost := errors.New("the lock is lost")
	tests := map[string]struct {
		reason  string
		file    string
		grace   time.Duration
		want    *Outcome
		wantErr error
	}{
		"stop": {
			reason: "a plugin that stops when it is asked to gives its result",
			file:   "echo", grace: time.Hour,
			want: &Outcome{InProgress: &InProgress{WaitingFor: "another call", PollAfter: time.Minute}},
		},
		"context": {
			reason: "a plugin that waits for the end of its context is cancelled",
			file:   "echo", grace: 50 * time.Millisecond,
			wantErr: errLost,
		},
		"hang": {
			reason: "a plugin that waits for nothing is left to itself",
			file:   "raw", grace: 50 * time.Millisecond,
			wantErr: errLost,
		},
	}
	for item, test := range tests {
		t.Run(item, func(t *testing.T) {
			t.Parallel()
			h := runHost(t, pluginDir(t, test.file), func(o *Options) { o.StopGrace = test.grace })
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			got, err := h.plugin(test.file).Call(ctx, Reconcile, Call{DeployItem: deployItem(item)}, &observer{
				progress: func(string, string) { cancel(errLost) },
			})
			if !errors.Is(err, test.wantErr) {
				t.Errorf("%s: expected error %v, but found: %v", test.reason, test.wantErr, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: outcome (-want +got):\n%s", test.reason, diff)
			}
			if item == "context" {
				left(t, h.dir, "cancelled")
			}
		})
	}
}

// A stopped process reads nothing, so that a message to it may be one too many: sending the request to stop then
// blocks.
func TestEndOfContextWhileThePluginDoesNotRead(t *testing.T) {
	t.Parallel()
	h := runHost(t, pluginDir(t, "raw"), func(o *Options) { o.StopGrace = 50 * time.Millisecond })
	h.signal("raw", syscall.SIGSTOP)
	item := deployItem("succeed")
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	within(t, patience, "the end of the call", func() {
		if _, err := h.plugin("raw").Call(ctx, Reconcile, Call{DeployItem: item}, &observer{}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("expected the cause of the context, but found: %v", err)
		}
	})
}

// What counts is the first result. A plugin that goes on with the call is cancelled, so that the next one does not meet
// it.
func TestCallsThatGoOnAfterTheirResult(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	for item, reason := range map[string]string{
		"talkative": "it gives another result",
		"lingering": "it does not end the call",
	} {
		outcome, err := h.call(t.Context(), "raw", item)
		if err != nil || outcome.Succeeded == nil || string(outcome.Succeeded.Exports) != "{}" {
			t.Errorf("%s: expected the first result, but found %v (%v)", reason, outcome, err)
		}
		if len(h.log.with("plugin goes on with a call after its result")) == 0 {
			t.Errorf("%s: the log does not say so", reason)
		}
	}
	left(t, h.dir, "lingered")
}
