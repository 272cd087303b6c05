package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// resolvesAll resolves each name to a Target of this name.
func resolvesAll(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	resolved := &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content of " + name}
	resolved.Target.Name = name
	return resolved, nil
}

// A plugin that asks for several Targets at once gets as many answers, each with its sequence, and one that is refused
// spoils no other.
func TestResolveTarget(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	c := Call{DeployItem: deployItem("resolve")}
	c.DeployItem.Spec.Config = &runtime.RawExtension{Raw: []byte(`["a","missing","broken","a"]`)}
	outcome, err := h.plugin("raw").Call(t.Context(), Reconcile, c,
		&observer{resolve: func(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
			switch name {
			case "missing":
				return nil, fmt.Errorf("resolve: %w", Error{
					Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Resolve", Reason: "NoTargetFound",
					Message: "there is none",
				})
			case "broken":
				return nil, errors.New("the API server is away")
			}
			return resolvesAll(ctx, name)
		}})
	if err != nil || outcome.Succeeded == nil {
		t.Fatalf("expected success, but found %+v (%v)", outcome, err)
	}
	type answer struct {
		Sequence        uint64
		Target          string
		Codes           []string
		Reason, Message string
	}
	var got struct{ Answers []answer }
	if err := json.Unmarshal(outcome.Succeeded.Exports, &got); err != nil {
		t.Fatal(err)
	}
	resolved, err := resolvesAll(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(resolved)
	if err != nil {
		t.Fatal(err)
	}
	want := []answer{
		{Sequence: 7, Target: string(document)},
		{Sequence: 8, Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Reason: "NoTargetFound", Message: "there is none"},
		{Sequence: 9, Reason: "HostError", Message: "the API server is away"},
		{Sequence: 10, Target: string(document)},
	}
	if diff := cmp.Diff(want, got.Answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	for _, record := range h.log.all() {
		if text, err := json.Marshal(record); err != nil || strings.Contains(string(text), "content of") {
			t.Errorf("the log has the content of a Target: %s (%v)", text, err)
		}
	}
}

// What the sdk gives a deployer is what the host said, and an error that the deployer returns as it is comes back as it
// went.
func TestResolveTargetWithSDK(t *testing.T) {
	t.Parallel()
	p := start(t, "echo").plugin("echo")
	c := Call{DeployItem: deployItem("resolve")}
	outcome, err := p.Call(t.Context(), Reconcile, c, &observer{resolve: resolvesAll})
	if err != nil {
		t.Fatal(err)
	}
	want := &Outcome{Succeeded: &Succeeded{}, Conditions: []sdk.Condition{
		{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "content of other"},
	}}
	if diff := cmp.Diff(want, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	problem := Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Operation: operationResolve, Reason: "TargetForbidden", Message: `Target "default/other": it is forbidden`,
	}
	outcome, err = p.Call(t.Context(), Reconcile, c, &observer{resolve: func(context.Context,
		string) (*v1alpha1.ResolvedTarget, error) {
		return nil, problem
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Outcome{Errors: []Error{problem}}, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// asks is the stream of a plugin that asks for Targets and ends its call afterwards. It notes the answers.
func asks(names []string, answers *[]*deployerv1.ResolvedTarget) stream {
	next := 0
	return stream{
		recv: func() (*deployerv1.PluginMessage, error) {
			if next == len(names) {
				return nil, io.EOF
			}
			next++
			return resolveTarget(uint64(next), names[next-1]), nil
		},
		send: func(m *deployerv1.HostMessage) error {
			*answers = append(*answers, m.GetResolvedTarget())
			return nil
		},
	}
}

// How many different Targets a call asks for is bounded; how often it asks for one is not, nor does a refusal cost
// those that it has.
func TestTooManyTargets(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range maxTargets {
		names = append(names, fmt.Sprintf("target-%d", i))
	}
	names = append(names, "target-0", "one-more", "another", "target-1")
	refused := map[string]bool{"one-more": true, "another": true}
	var answers []*deployerv1.ResolvedTarget
	asked := 0
	c := newConversation(&observer{resolve: func(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
		asked++
		return resolvesAll(ctx, name)
	}})
	c.stream = asks(names, &answers)
	if _, err := c.result(t.Context()); !errors.Is(err, ErrProtocol) { // it ends without a result
		t.Fatal(err)
	}
	if len(answers) != len(names) || asked != len(names)-len(refused) {
		t.Fatalf("expected %d answers, of which %d are resolved, but found %d and %d", len(names), len(names)-len(refused),
			len(answers), asked)
	}
	for i, name := range names {
		problem := answers[i].GetError()
		if (problem != nil) != refused[name] || problem != nil && (problem.GetReason() != reasonTooManyTargets || !strings.Contains(problem.GetMessage(), name)) {
			t.Errorf("%s: expected it to be refused: %t, but found %v", name, refused[name], problem)
		}
	}
}

// Whatever a plugin takes for a name, nobody keeps more of it than a name can have.
func TestNamesThatAreNone(t *testing.T) {
	t.Parallel()
	var answers []*deployerv1.ResolvedTarget
	var asked []string
	c := newConversation(&observer{resolve: func(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
		asked = append(asked, name)
		return nil, errors.New(strings.Repeat("\xff", maxMessage+1))
	}})
	c.stream = asks([]string{strings.Repeat("x", 1<<20), "", strings.Repeat("x", maxText)}, &answers)
	if _, err := c.result(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Fatal(err)
	}
	want := []string{strings.Repeat("x", maxText) + " … (cut)", "", strings.Repeat("x", maxText)}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, answer := range answers {
		if message := answer.GetError().GetMessage(); message == "" || len(message) > 4*maxMessage || strings.Contains(message, "\xff") {
			t.Errorf("expected a text that can be sent, but found %.100q", message)
		}
	}
}

// A question can be a request to the API server, as a provider status is, and both share what a call may have of them.
func TestEndlessQuestions(t *testing.T) {
	t.Parallel()
	requests := 0
	c := newConversation(&observer{
		save: func(context.Context, []byte) error { requests++; return nil },
		resolve: func(context.Context, string) (*v1alpha1.ResolvedTarget, error) {
			requests++
			return nil, errors.New("no")
		},
	})
	sequence := uint64(0)
	c.stream = stream{send: func(*deployerv1.HostMessage) error { return nil },
		recv: func() (*deployerv1.PluginMessage, error) {
			if sequence++; sequence%2 == 0 {
				return saved(sequence), nil
			}
			return resolveTarget(sequence, "a"), nil
		}}
	began := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), began.Add(300*time.Millisecond))
	defer cancel()
	if _, err := c.result(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("expected that the deadline has passed, but found: %v", err)
	}
	if most := requestBurst + int(time.Since(began).Seconds()*requestsPerSecond) + 1; requests < 1 || requests > most {
		t.Errorf("expected %d requests at most, but found %d", most, requests)
	}
}

// While the host resolves, the plugin is not silent; and what is asked of the API server has an end.
func TestResolvingTakesItsTime(t *testing.T) {
	t.Parallel()
	var answers []*deployerv1.ResolvedTarget
	var c *conversation
	c = newConversation(&observer{resolve: func(ctx context.Context, _ string) (*v1alpha1.ResolvedTarget, error) {
		c.silentChecks()
		if checks := c.silentChecks(); checks != 0 {
			t.Errorf("expected no silence, but found %d checks", checks)
		}
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("expected the question to have an end")
		}
		return nil, context.DeadlineExceeded
	}})
	c.stream = asks([]string{"a"}, &answers)
	if _, err := c.result(t.Context()); !errors.Is(err, ErrProtocol) || len(answers) != 1 {
		t.Errorf("expected an answer and nothing else, but found %v (%v)", answers, err)
	}
}
