package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// messagesPerSecond is how many messages of one call are handled in the long run, and messageBurst how many at once. A
	// plugin that says more has to wait, which gRPC's flow control sees to.
	messagesPerSecond = 200
	messageBurst      = 1000
	// requestsPerSecond is how many of them may be provider statuses and questions in the long run, and requestBurst how
	// many at once: each can be a request to the API server.
	requestsPerSecond = 10
	requestBurst      = 100
	// maxTargets is how many Targets a plugin may ask for in one call, each as often as it likes, and maxSecrets how many
	// Secrets.
	maxTargets = 50
	maxSecrets = 50
	// resolveTimeout is how long it may take to resolve one: the plugin says nothing else meanwhile.
	resolveTimeout = 15 * time.Second
	// resultGrace is how long a call may go on after its result.
	resultGrace = time.Second
)

// conversation is what host and plugin say to each other during one call.
type conversation struct {
	stream      stream
	observer    Observer
	pace        *rate.Limiter // of all messages
	requestPace *rate.Limiter // of those that are requests to the API server
	// targets and secrets are those that the plugin has asked for.
	targets map[string]bool
	secrets map[types.NamespacedName]bool

	// waits counts how often the host has begun or ceased to wait for the plugin, to say something or to take an answer to
	// what it has said: it is odd while the host waits. seen is what it was at the last health check, and checks how many
	// checks ago it became that.
	waits  atomic.Uint64
	seen   uint64
	checks int

	mu     sync.Mutex // a gRPC stream takes one sender at a time, and none after the call
	closed bool
}

func newConversation(observer Observer) *conversation {
	return &conversation{
		observer: observer, targets: map[string]bool{}, secrets: map[types.NamespacedName]bool{},
		pace: rate.NewLimiter(messagesPerSecond, messageBurst), requestPace: rate.NewLimiter(requestsPerSecond, requestBurst),
	}
}

var errClosed = errors.New("the call has ended")

func (c *conversation) send(m *deployerv1.HostMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if err := c.stream.Send(m); !errors.Is(err, io.EOF) {
		return err
	}
	return nil // the plugin has ended the call; receiving tells how
}

func (c *conversation) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// listen notes that the host waits for the plugin from now until it calls over.
func (c *conversation) listen() (over func()) {
	c.waits.Add(1)
	return func() { c.waits.Add(1) }
}

// silentChecks is called at each health check, and returns since how many of them the host has been waiting for the
// plugin.
func (c *conversation) silentChecks() int {
	waits := c.waits.Load()
	if waits%2 == 0 || waits != c.seen {
		c.seen, c.checks = waits, 0
		return 0
	}
	c.checks++
	return c.checks
}

func (c *conversation) recv() (*deployerv1.PluginMessage, error) {
	defer c.listen()()
	return c.stream.Recv()
}

// result listens to the plugin until it gives its result.
func (c *conversation) result(ctx context.Context) (*deployerv1.Result, error) {
	for {
		m, err := c.recv()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: it ended the call without a result", ErrProtocol)
		}
		if err != nil {
			return nil, err
		}
		switch content := m.GetContent().(type) {
		case *deployerv1.PluginMessage_Result:
			return content.Result, nil
		case *deployerv1.PluginMessage_ProviderStatus:
			if err := c.save(ctx, content.ProviderStatus); err != nil {
				return nil, err
			}
		case *deployerv1.PluginMessage_ResolveTarget:
			if err := c.resolve(ctx, content.ResolveTarget); err != nil {
				return nil, err
			}
		case *deployerv1.PluginMessage_ResolveRegistryCredentials:
			if err := c.resolveCredentials(ctx, content.ResolveRegistryCredentials); err != nil {
				return nil, err
			}
		case *deployerv1.PluginMessage_Progress:
			c.observer.Progress(bounded(content.Progress.GetStep()), bounded(content.Progress.GetMessage()))
		case *deployerv1.PluginMessage_Event:
			c.observer.Event(content.Event.GetWarning(), bounded(content.Event.GetReason()), bounded(content.Event.GetMessage()))
		default: // a heartbeat, or what a newer plugin says that this host does not know
		}
		if err := waitForTurn(ctx, c.pace); err != nil {
			return nil, err
		}
	}
}

// waitForTurn blocks until the pace allows one more. The error says that this would be after the deadline, or that the
// call was cancelled.
func waitForTurn(ctx context.Context, pace *rate.Limiter) error {
	if pace.Wait(ctx) != nil {
		return status.FromContextError(cmp.Or(ctx.Err(), context.DeadlineExceeded)).Err()
	}
	return nil
}

// ends waits for the end of a call that has given its result, so that the next one for its item does not meet what is
// left of it. It reports false if the plugin says more, or does not end the call soon; cancel ends it then.
func (c *conversation) ends(cancel context.CancelFunc) bool {
	timer := time.AfterFunc(resultGrace, cancel)
	_, err := c.recv()
	return timer.Stop() && err != nil
}

// save saves a provider status and tells the plugin how that went. A plugin that does not take the answer is silent.
func (c *conversation) save(ctx context.Context, in *deployerv1.ProviderStatus) error {
	if err := waitForTurn(ctx, c.requestPace); err != nil {
		return err
	}
	err := c.observer.SaveProviderStatus(ctx, in.GetDocument())
	defer c.listen()()
	return c.send(hostside.Acknowledgement(in.GetSequence(), err))
}

// The errors about what a plugin asks for and that it is the call's own matter to refuse.
const (
	operationResolve            = "ResolveOtherTarget"
	operationResolveCredentials = "ResolveRegistryCredentials"
	reasonTooManyTargets        = "TooManyTargets"
	reasonTooManySecrets        = "TooManySecrets"
	reasonHostError             = "HostError"
)

// answer answers a question of the plugin. A plugin that does not take the answer is silent. Neither content nor errors
// are logged.
func (c *conversation) answer(ctx context.Context, find func(context.Context) *deployerv1.HostMessage) error {
	if err := waitForTurn(ctx, c.requestPace); err != nil {
		return err
	}
	finding, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found := find(finding)
	defer c.listen()()
	return c.send(found)
}

// resolve answers a question for a Target.
func (c *conversation) resolve(ctx context.Context, in *deployerv1.ResolveTarget) error {
	return c.answer(ctx, func(ctx context.Context) *deployerv1.HostMessage {
		// A name that was cut is none that a Target could have.
		target, err := c.target(ctx, cut(in.GetName(), maxText))
		return hostside.TargetAnswer(in.GetSequence(), target, told(operationResolve, err))
	})
}

// resolveCredentials answers a question for the credentials of a Secret.
func (c *conversation) resolveCredentials(ctx context.Context, in *deployerv1.ResolveRegistryCredentials) error {
	return c.answer(ctx, func(ctx context.Context) *deployerv1.HostMessage {
		// Names that were cut are none that a Secret could have.
		secret := types.NamespacedName{Namespace: cut(in.GetNamespace(), maxText), Name: cut(in.GetName(), maxText)}
		found, err := c.credentials(ctx, secret)
		return hostside.CredentialsAnswer(in.GetSequence(), found, told(operationResolveCredentials, err))
	})
}

func (c *conversation) credentials(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error) {
	if !admit(c.secrets, secret, maxSecrets) {
		return nil, Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: operationResolveCredentials,
			Reason: reasonTooManySecrets,
			Message: fmt.Sprintf("Secret %q: a call can ask for at most %d Secrets; let the deploy item name fewer", secret,
				maxSecrets),
		}
	}
	return c.observer.ResolveRegistryCredentials(ctx, secret)
}

// target returns a resolved Target as JSON.
func (c *conversation) target(ctx context.Context, name string) ([]byte, error) {
	if !admit(c.targets, name, maxTargets) {
		return nil, Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: operationResolve,
			Reason: reasonTooManyTargets,
			Message: fmt.Sprintf("Target %q: a call can ask for at most %d Targets; let the deploy item name fewer", name,
				maxTargets),
		}
	}
	resolved, err := c.observer.ResolveTarget(ctx, name)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(resolved)
	if err != nil {
		return nil, fmt.Errorf("marshal Target %q: %w", name, err)
	}
	return document, nil
}

// admit adds a key to those that were asked for, unless it would be one too many.
func admit[Key comparable](asked map[Key]bool, key Key, most int) bool {
	if !asked[key] && len(asked) == most {
		return false
	}
	asked[key] = true
	return true
}

// told returns an error as the plugin gets it.
func told(operation string, err error) *Error {
	if err == nil {
		return nil
	}
	if own := (Error{}); errors.As(err, &own) {
		return &own
	}
	return &Error{Operation: operation, Reason: reasonHostError, Message: err.Error()}
}
