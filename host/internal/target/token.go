package target

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// A token is handed out for a part of its life, at most for maxTokenUse, and then replaced. Who gets one can count on the
	// rest, four fifths of what a new one would have; and one that has become void before its time, because its ServiceAccount
	// was created anew or the API server has other keys, does harm no longer than that.
	tokenUsePart = 5
	maxTokenUse  = 10 * time.Minute
	// tokenTimeout bounds one request for a token.
	tokenTimeout = 30 * time.Second
)

// TokenRequester has tokens issued for ServiceAccounts of a cluster: for Targets, of the Landscaper cluster.
type TokenRequester interface {
	// RequestToken returns a token for a ServiceAccount. An error is that of the API server, such as NotFound. It is called
	// concurrently for different Targets.
	RequestToken(
		ctx context.Context, serviceAccount types.NamespacedName, spec authenticationv1.TokenRequestSpec,
	) (authenticationv1.TokenRequestStatus, error)
}

// ClientTokenRequester is a TokenRequester that asks an API server. Its user needs the right to create serviceaccounts/token.
type ClientTokenRequester struct {
	// Client of the API server, usually a client.Client; its scheme has ServiceAccount and TokenRequest. Required.
	Client client.SubResourceClientConstructor
}

var _ TokenRequester = (*ClientTokenRequester)(nil)

// RequestToken implements TokenRequester.
func (c *ClientTokenRequester) RequestToken(
	ctx context.Context, serviceAccount types.NamespacedName, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: serviceAccount.Namespace, Name: serviceAccount.Name}}
	request := &authenticationv1.TokenRequest{Spec: spec}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return authenticationv1.TokenRequestStatus{}, err //nolint:wrapcheck // the contract is to return the API server's error
	}
	return request.Status, nil
}

// issuer logs in for Targets that name a ServiceAccount.
type issuer struct {
	requester TokenRequester
	// own is the client configuration of the host itself, from which selfConfig takes the cluster.
	own   *rest.Config
	clock clock.PassiveClock
}

// account is a login of one version of a Target, together with the latest token for it.
type account struct {
	login *login
	name  types.NamespacedName

	latest atomic.Pointer[token]
	flight singleflight.Group
}

// token was issued for an account. It does not change.
type token struct {
	text string
	// replaceAt is when a new one is asked for.
	replaceAt time.Time
}

// content returns the content that a plugin gets: a kubeconfig with a token for the account. An error that says what the user
// or the operator can do about it is one that problem understands.
func (i *issuer) content(ctx context.Context, a *account) (string, error) {
	cluster := a.login.cluster
	if cluster == nil {
		own, err := OwnCluster(i.own)
		if err != nil {
			return "", err
		}
		cluster = own
	}
	text, err := i.token(ctx, a)
	if err != nil {
		return "", fmt.Errorf("request a token for ServiceAccount %q: %w", a.name, err)
	}
	return contentWith(cluster, text)
}

// token returns the latest token of the account, or a new one if it is to be replaced. All who wait for it share one request,
// which goes on if the first of them gives up, until tokenTimeout at the latest.
func (i *issuer) token(ctx context.Context, a *account) (string, error) {
	if latest := a.latest.Load(); latest.usable(i.clock.Now()) {
		return latest.text, nil
	}
	answer := a.flight.DoChan("", func() (any, error) {
		if latest := a.latest.Load(); latest.usable(i.clock.Now()) {
			return latest, nil // it came between the look above and the request
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
		defer cancel()
		return i.issue(ctx, a)
	})
	select {
	case result := <-answer:
		if result.Err != nil {
			return "", result.Err
		}
		return result.Val.(*token).text, nil //nolint:forcetypeassert // the function above returns nothing else
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// issue asks for a new token and remembers it.
func (i *issuer) issue(ctx context.Context, a *account) (*token, error) {
	asked := i.clock.Now()
	seconds := a.login.expiration
	status, err := i.requester.RequestToken(ctx, a.name, authenticationv1.TokenRequestSpec{
		Audiences: a.login.audiences, ExpirationSeconds: &seconds,
	})
	if err != nil {
		return nil, err
	}
	if status.Token == "" {
		return nil, errors.New("the answer of the API server holds no token")
	}
	issued := &token{text: status.Token, replaceAt: asked.Add(useOf(asked, seconds, status.ExpirationTimestamp.Time))}
	a.latest.Store(issued)
	return issued, nil
}

// useOf returns for how long a token is handed out that was asked for at some time, for so many seconds, and ends at another.
// The API server may have shortened its life; if that seems longer than what was asked for, the clock of the host is slow. If
// it seems to be over, the clock is fast: such a token is handed out once.
func useOf(asked time.Time, seconds int64, ends time.Time) time.Duration {
	life := min(ends.Sub(asked), time.Duration(seconds)*time.Second)
	return min(life/tokenUsePart, maxTokenUse)
}

// usable tells whether a token, which may be nil, can still be handed out.
func (t *token) usable(now time.Time) bool {
	return t != nil && now.Before(t.replaceAt)
}

// noTokens says that a Target needs a token and the Resolver has none to give.
func noTokens(l *login) Problem {
	return invalid(l.field, "is not supported by this host, which has no tokens to give; use the field kubeconfig")
}

// problem tells what the user or the operator can do about an error; it is false if that is unknown.
func (a *account) problem(err error) (Problem, bool) {
	problem := Problem{Reason: ReasonTokenForbidden, Field: a.login.field + ".serviceAccount.name"}
	switch {
	case apierrors.IsNotFound(err):
		problem.Reason = ReasonServiceAccountNotFound
		problem.Message = fmt.Sprintf("there is no ServiceAccount %q; create it, or correct the Target", a.name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		problem.Message = fmt.Sprintf("no token can be had for ServiceAccount %q, because its namespace is being deleted; "+
			"delete deploy items before their namespace", a.name)
	case apierrors.IsForbidden(err):
		problem.Message = fmt.Sprintf("the API server refuses the host a token for ServiceAccount %q; "+
			"the host needs the right to create serviceaccounts/token in namespace %q", a.name, a.name.Namespace)
	default:
		return Problem{}, false
	}
	return problem, true
}
