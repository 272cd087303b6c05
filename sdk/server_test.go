package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/description"
)

// hookServer serves hooks that call the functions, in order, at every point.
func hookServer(log slog.Handler, functions ...func()) *server {
	hooks := hook.Hooks{}
	for _, f := range functions {
		hooks.RegisterHook(calling(f), hook.Types()...)
	}
	return newServer(&plugin{Plugin: description.Plugin{Hooks: hooks}}, slog.New(log))
}

// The functions that come after the end of a call are not run: nobody would receive what they return.
func TestHooksEndWithTheirCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ran := false
	s := hookServer(slog.DiscardHandler, cancel, func() { ran = true })
	_, err := s.RunHooks(ctx, &deployerv1.RunHooksRequest{HookType: "Start"})
	if status.Code(err) != codes.Canceled || ran {
		t.Errorf("expected Canceled before the next function, but found %v, %t", err, ran)
	}
}

// What cannot be read is the host's mistake, and no reason for a function to run.
func TestHooksOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]*deployerv1.RunHooksRequest{
		"item":   {HookType: "Start", DeployItem: []byte(`{"`)},
		"target": {HookType: "Start", Target: []byte(`[]`)},
	} {
		s := hookServer(slog.DiscardHandler, func() { t.Errorf("%s: the function ran", name) })
		if _, err := s.RunHooks(t.Context(), in); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: expected InvalidArgument, but found %v", name, err)
		}
	}
}

// records are those of a log, without their times.
func records(t *testing.T, log *bytes.Buffer) (found []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(log.Bytes()) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatal(err)
		}
		delete(record, "time")
		found = append(found, record)
	}
	return found
}

// The log says where a hook has panicked, and over which item.
func TestPanicOfAHookInTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := hookServer(slog.NewJSONHandler(&out, nil), func() {
		panic("hook") //nolint:forbidigo // what is tested
	})
	item := []byte(`{"metadata": {"namespace": "default", "name": "item"}, "status": {"jobID": "job"}}`)
	for _, in := range []*deployerv1.RunHooksRequest{{HookType: "Start"}, {HookType: "End", DeployItem: item}} {
		if _, err := s.RunHooks(t.Context(), in); err != nil {
			t.Errorf("%s: %v", in.GetHookType(), err)
		}
	}
	got := records(t, &out)
	for _, record := range got {
		if stack, _ := record["stack"].(string); !strings.Contains(stack, "TestPanicOfAHookInTheLog") {
			t.Errorf("expected the stack of the function, but found %q", stack)
		}
		delete(record, "stack")
	}
	want := []map[string]any{
		{"level": "ERROR", "msg": "hook panicked", "panic": "hook", "hookType": "Start"},
		{
			"level": "ERROR", "msg": "hook panicked", "panic": "hook", "hookType": "End",
			"deployitem": "default/item", "jobID": "job",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
