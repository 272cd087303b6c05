package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// resolveTimeout bounds an answer to the plugin; it says nothing else meanwhile.
	resolveTimeout = 15 * time.Second
	// resultGrace bounds a call after its result.
	resultGrace = time.Second
)

// stream is the wire of one call, for any operation.
type stream = grpc.BidiStreamingClient[deployerv1.HostMessage, deployerv1.PluginMessage]

// conversation is the exchange of messages during one call.
type conversation struct {
	stream   stream
	observer Observer
	limits   limits
	silence  silence

	mu     sync.Mutex // a gRPC stream takes one sender at a time, and none after the call
	closed bool
}

func newConversation(observer Observer) *conversation {
	return &conversation{observer: observer, limits: newLimits()}
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

func (c *conversation) recv() (*deployerv1.PluginMessage, error) {
	defer c.silence.listen()()
	return c.stream.Recv()
}

// result reads messages until the result.
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
			step, message := content.Progress.GetStep(), content.Progress.GetMessage()
			c.observer.Progress(hostside.Bounded(step), hostside.Bounded(message))
		case *deployerv1.PluginMessage_Event:
			reason, message := content.Event.GetReason(), content.Event.GetMessage()
			c.observer.Event(content.Event.GetWarning(), hostside.Bounded(reason), hostside.Bounded(message))
		default: // a heartbeat, or a message of a newer protocol
		}
		if err := waitForTurn(ctx, c.limits.messages); err != nil {
			return nil, err
		}
	}
}

// ends waits for the end of a call after its result, so that it does not overlap the next call of its item. It reports
// false if the plugin goes on; cancel ends the call then.
func (c *conversation) ends(cancel context.CancelFunc) bool {
	timer := time.AfterFunc(resultGrace, cancel)
	_, err := c.recv()
	return timer.Stop() && err != nil
}

// save saves a provider status and acknowledges it. A plugin which does not take the answer counts as silent.
func (c *conversation) save(ctx context.Context, in *deployerv1.ProviderStatus) error {
	if err := waitForTurn(ctx, c.limits.requests); err != nil {
		return err
	}
	err := c.observer.SaveProviderStatus(ctx, in.GetDocument())
	defer c.silence.listen()()
	return c.send(hostside.Acknowledgement(in.GetSequence(), err))
}

// The errors of answers to the plugin.
const (
	operationResolve            = "ResolveOtherTarget"
	operationResolveCredentials = "ResolveRegistryCredentials"
	reasonTooManyTargets        = "TooManyTargets"
	reasonTooManySecrets        = "TooManySecrets"
	reasonHostError             = "HostError"
)

// answer answers a question of the plugin; see save. Neither content nor errors are logged.
func (c *conversation) answer(ctx context.Context, find func(context.Context) *deployerv1.HostMessage) error {
	if err := waitForTurn(ctx, c.limits.requests); err != nil {
		return err
	}
	finding, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found := find(finding)
	defer c.silence.listen()()
	return c.send(found)
}

// resolve answers a question for a Target.
func (c *conversation) resolve(ctx context.Context, in *deployerv1.ResolveTarget) error {
	return c.answer(ctx, func(ctx context.Context) *deployerv1.HostMessage {
		// No Target has a name of such a length, so a cut does no harm.
		target, err := c.target(ctx, hostside.Cut(in.GetName(), hostside.MaxText))
		return hostside.TargetAnswer(in.GetSequence(), target, told(operationResolve, err))
	})
}

// resolveCredentials answers a question for the credentials of a Secret.
func (c *conversation) resolveCredentials(ctx context.Context, in *deployerv1.ResolveRegistryCredentials) error {
	return c.answer(ctx, func(ctx context.Context) *deployerv1.HostMessage {
		// No Secret has names of such a length, so a cut does no harm.
		secret := types.NamespacedName{
			Namespace: hostside.Cut(in.GetNamespace(), hostside.MaxText), Name: hostside.Cut(in.GetName(), hostside.MaxText),
		}
		found, err := c.credentials(ctx, secret)
		return hostside.CredentialsAnswer(in.GetSequence(), found, told(operationResolveCredentials, err))
	})
}

func (c *conversation) credentials(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error) {
	if !admit(c.limits.secrets, secret, maxSecrets) {
		return nil, hostside.Error{
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
	if !admit(c.limits.targets, name, maxTargets) {
		return nil, hostside.Error{
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

// told returns an error for the plugin.
func told(operation string, err error) *hostside.Error {
	if err == nil {
		return nil
	}
	if own := (hostside.Error{}); errors.As(err, &own) {
		return &own
	}
	return &hostside.Error{Operation: operation, Reason: reasonHostError, Message: err.Error()}
}
