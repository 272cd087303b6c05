package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// fakeStream is a call whose plugin is made of functions.
type fakeStream struct {
	stream
	send func(*deployerv1.HostMessage) error
	recv func() (*deployerv1.PluginMessage, error)
}

func (s fakeStream) Send(m *deployerv1.HostMessage) error     { return s.send(m) }
func (s fakeStream) Recv() (*deployerv1.PluginMessage, error) { return s.recv() }

func resolveSecret(sequence uint64, name string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveRegistryCredentials{
		ResolveRegistryCredentials: &deployerv1.ResolveRegistryCredentials{Sequence: sequence, Namespace: "shop", Name: name},
	}}
}

// script returns these messages one after the other, and then the end of the call.
func script(says ...*deployerv1.PluginMessage) func() (*deployerv1.PluginMessage, error) {
	return func() (*deployerv1.PluginMessage, error) {
		if len(says) == 0 {
			return nil, io.EOF
		}
		next := says[0]
		says = says[1:]
		return next, nil
	}
}

// converse has a plugin say these messages and end its call, and returns what the host has answered.
func converse(t *testing.T, o *observer, says ...*deployerv1.PluginMessage) []*deployerv1.HostMessage {
	t.Helper()
	var answers []*deployerv1.HostMessage
	c := newConversation(o)
	c.stream = fakeStream{
		recv: script(says...), send: func(m *deployerv1.HostMessage) error { answers = append(answers, m); return nil },
	}
	if _, err := c.result(t.Context()); !errors.Is(err, ErrProtocol) { // it ends without a result
		t.Fatal(err)
	}
	return answers
}

// resolver is the observer of a host that has the Target and the Secret "a", and says of others what is wrong.
func resolver() *observer {
	problem := func(name string) error {
		if name == "missing" {
			return fmt.Errorf("resolve: %w", hostside.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
				Operation: "Resolve", Reason: "NotFound", Message: "there is none"})
		}
		return errors.New("the API server is away")
	}
	return &observer{
		resolve: func(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
			if name != "a" {
				return nil, problem(name)
			}
			return &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content"}, nil
		},
		secret: func(_ context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error) {
			if secret.Name != "a" {
				return nil, problem(secret.Name)
			}
			return &sdk.RegistryCredentials{Secret: secret.String(), DockerConfig: []byte(theSecret), Problem: "old"}, nil
		},
	}
}

// A plugin that asks several questions at once gets as many answers, each with its sequence, and one that is refused
// spoils no other.
func TestResolve(t *testing.T) {
	t.Parallel()
	got := converse(t, resolver(), resolveTarget(7, "a"), resolveSecret(8, "a"), resolveTarget(9, "missing"),
		resolveSecret(10, "broken"))
	document := marshalled(t, &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content"})
	target := func(answer *deployerv1.ResolvedTarget) *deployerv1.HostMessage {
		return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: answer}}
	}
	secret := func(answer *deployerv1.ResolvedRegistryCredentials) *deployerv1.HostMessage {
		return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{
			ResolvedRegistryCredentials: answer}}
	}
	want := []*deployerv1.HostMessage{
		target(&deployerv1.ResolvedTarget{Sequence: 7, Target: document}),
		secret(&deployerv1.ResolvedRegistryCredentials{Sequence: 8, Credentials: &deployerv1.RegistryCredentials{
			Secret: "shop/a", DockerConfig: []byte(theSecret), Error: "old"}}),
		target(&deployerv1.ResolvedTarget{Sequence: 9, Error: &deployerv1.Error{
			Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Resolve", Reason: "NotFound", Message: "there is none"}}),
		secret(&deployerv1.ResolvedRegistryCredentials{Sequence: 10, Error: &deployerv1.Error{
			Operation: "ResolveRegistryCredentials", Reason: "HostError", Message: "the API server is away"}}),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// Reports are taken in their order, and those of a warning as such.
func TestReports(t *testing.T) {
	t.Parallel()
	event := func(warning bool, message string) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Event{
			Event: &deployerv1.Event{Warning: warning, Reason: "Reason", Message: message}}}
	}
	var got []string
	converse(t, &observer{
		progress: func(step, message string) { got = append(got, step+": "+message) },
		event: func(warning bool, reason, message string) {
			got = append(got, fmt.Sprint(warning, " ", reason, ": ", message))
		},
	}, progress("step", "message"), event(false, "an event"), event(true, "a warning"))
	want := []string{"step: message", "false Reason: an event", "true Reason: a warning"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// The plugin learns whether its provider status is saved, and why it is not.
// Rule (plugin-authors.md#provider-status): The deployer's provider status is saved when the deployer asks for it.
func TestSaveProviderStatus(t *testing.T) {
	t.Parallel()
	for told, err := range map[string]error{
		"": nil, "the object \uFFFD has been modified": errors.New("the object \xff has been modified"),
	} {
		var got []string
		answers := converse(t, &observer{save: func(_ context.Context, document []byte) error {
			got = append(got, string(document))
			return err
		}}, saved(7))
		want := []*deployerv1.HostMessage{{Content: &deployerv1.HostMessage_Acknowledgement{
			Acknowledgement: &deployerv1.Acknowledgement{Sequence: 7, Error: told}}}}
		if diff := cmp.Diff(want, answers, protocmp.Transform()); diff != "" || !slices.Equal(got, []string{"{}"}) {
			t.Errorf("saved %q, answers (-want +got):\n%s", got, diff)
		}
	}
}

// How many different Targets or Secrets a call asks for is bounded; how often it asks for one is not, nor does a
// refusal cost those that it has.
func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	for reason, question := range map[string]func(uint64, string) *deployerv1.PluginMessage{
		reasonTooManyTargets: resolveTarget, reasonTooManySecrets: resolveSecret,
	} {
		var says []*deployerv1.PluginMessage
		for i := range maxTargets {
			says = append(says, question(1, fmt.Sprintf("name-%d", i)))
		}
		says = append(says, question(1, "name-0"), question(1, "one-more"), question(1, "name-1"))
		for i, answer := range converse(t, resolver(), says...) {
			problem := answer.GetResolvedTarget().GetError()
			if problem == nil {
				problem = answer.GetResolvedRegistryCredentials().GetError()
			}
			if refused := problem.GetReason() == reason; refused != (i == maxTargets+1) ||
				refused && !strings.Contains(problem.GetMessage(), "one-more") {
				t.Errorf("question %d: found %v", i, problem)
			}
		}
	}
}

// Whatever a plugin takes for a name, nobody keeps more of it than a name can have.
func TestNamesThatAreNone(t *testing.T) {
	t.Parallel()
	var asked []string
	answers := converse(t, &observer{resolve: func(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
		asked = append(asked, name)
		return nil, errors.New(strings.Repeat("\xff", hostside.MaxMessage+1))
	}}, resolveTarget(1, strings.Repeat("x", 1<<20)), resolveTarget(2, ""))
	if diff := cmp.Diff([]string{strings.Repeat("x", hostside.MaxText) + " … (cut)", ""}, asked); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, answer := range answers {
		message := answer.GetResolvedTarget().GetError().GetMessage()
		if message == "" || len(message) > 4*hostside.MaxMessage || strings.Contains(message, "\xff") {
			t.Errorf("expected a text that can be sent, but found %.100q", message)
		}
	}
}

// A plugin that says the same without end has to wait. A question can be a request to the API server, as a provider
// status is, and both share what a call may have of them.
func TestEndlessMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says          []*deployerv1.PluginMessage
		atOnce, later int
	}{
		"reports":  {[]*deployerv1.PluginMessage{progress("step", "message")}, messageBurst, messagesPerSecond},
		"requests": {[]*deployerv1.PluginMessage{saved(1), resolveTarget(2, "a")}, requestBurst, requestsPerSecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			heard, said := 0, 0
			c := newConversation(&observer{
				progress: func(string, string) { heard++ },
				save:     func(context.Context, []byte) error { heard++; return nil },
				resolve: func(context.Context, string) (*v1alpha1.ResolvedTarget, error) {
					heard++
					return nil, errors.New("no")
				},
			})
			c.stream = fakeStream{send: func(*deployerv1.HostMessage) error { return nil },
				recv: func() (*deployerv1.PluginMessage, error) {
					said++
					return test.says[said%len(test.says)], nil
				}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := c.result(ctx); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s: expected that the deadline has passed, but found: %v", name, err)
			}
			if want := test.atOnce + 10*test.later; heard < want-1 || heard > want+1 {
				t.Errorf("%s: expected %d, but found %d", name, want, heard)
			}
		})
	}
}

// A plugin is silent while the host waits for it to say something or to take an answer, and not while the host works.
func TestSilence(t *testing.T) {
	t.Parallel()
	var c *conversation
	checks := func() int {
		c.silence.check() // the first one sees what there is
		return c.silence.check()
	}
	expect := func(want int, reason string) {
		if got := checks(); got != want {
			t.Errorf("%s: expected %d checks, but found %d", reason, want, got)
		}
	}
	c = newConversation(&observer{
		save: func(context.Context, []byte) error { expect(0, "the host saves"); return nil },
		resolve: func(ctx context.Context, _ string) (*v1alpha1.ResolvedTarget, error) {
			expect(0, "the host resolves")
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("expected the question to have an end")
			}
			return nil, context.DeadlineExceeded
		},
	})
	next := script(saved(1), resolveTarget(2, "a"))
	c.stream = fakeStream{
		recv: func() (*deployerv1.PluginMessage, error) {
			expect(1, "the host waits for the plugin to say something")
			return next()
		},
		send: func(*deployerv1.HostMessage) error {
			expect(1, "the host waits for the plugin to take the answer")
			return nil
		},
	}
	if _, err := c.result(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Errorf("expected that the call has ended, but found: %v", err)
	}
	expect(0, "the call has ended")
}
