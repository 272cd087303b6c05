package target

import (
	"context"
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
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// A token is handed out for a part of its life, at most for maxTokenUse, and then replaced. Who gets one can count
	// on the rest, four fifths of what a new one would have; and one that has become void before its time, because its
	// ServiceAccount was created anew or the API server has other keys, does harm no longer than that.
	tokenUsePart = 5
	maxTokenUse  = 10 * time.Minute
	// requestTimeout bounds one request that several wait for.
	requestTimeout = 30 * time.Second
)

// TokenRequester has tokens issued for ServiceAccounts of a cluster: for Targets, of the Landscaper cluster.
type TokenRequester interface {
	// RequestToken returns a token for a ServiceAccount. An error is that of the API server, such as NotFound. It is
	// called concurrently for different Targets.
	RequestToken(
		ctx context.Context, serviceAccount types.NamespacedName, spec authenticationv1.TokenRequestSpec,
	) (authenticationv1.TokenRequestStatus, error)
}

// ClientTokenRequester is a TokenRequester that asks an API server. Its user needs the right to create
// serviceaccounts/token.
type ClientTokenRequester struct {
	// Client of the API server, usually a client.Client; its scheme has ServiceAccount and TokenRequest. Required.
	Client client.SubResourceClientConstructor
}

var _ TokenRequester = (*ClientTokenRequester)(nil)

// RequestToken implements TokenRequester.
func (c *ClientTokenRequester) RequestToken(
	ctx context.Context, serviceAccount types.NamespacedName, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: serviceAccount.Namespace, Name: serviceAccount.Name,
	}}
	request := &authenticationv1.TokenRequest{Spec: spec}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return authenticationv1.TokenRequestStatus{}, err // the contract is to return the API server's error
	}
	return request.Status, nil
}

// shared is a value that a request gives, for all who want it. The zero value has none yet.
type shared[T any] struct {
	latest atomic.Pointer[T]
	flight singleflight.Group
}

// get returns the latest value, or asks for a new one if there is none that is usable. All who wait for it share one
// request, which goes on if the first of them gives up, until requestTimeout at the latest. A failure is not
// remembered.
func (s *shared[T]) get(
	ctx context.Context, usable func(*T) bool, request func(context.Context) (*T, error),
) (*T, error) {
	if latest := s.latest.Load(); latest != nil && usable(latest) {
		return latest, nil
	}
	answer := s.flight.DoChan("", func() (any, error) {
		if latest := s.latest.Load(); latest != nil && usable(latest) {
			return latest, nil // it came between the look above and the request
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		value, err := request(ctx)
		if err != nil {
			return nil, err
		}
		s.latest.Store(value)
		return value, nil
	})
	select {
	case result := <-answer:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*T), nil //nolint:forcetypeassert // the function above returns nothing else
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// issuer has tokens issued.
type issuer struct {
	requester TokenRequester
	// own is how the host itself reaches the cluster that issues the tokens.
	own   *rest.Config
	clock clock.PassiveClock
}

// kubeconfigs makes kubeconfigs with a token for one ServiceAccount, and keeps the latest one.
type kubeconfigs struct {
	issuer    *issuer
	account   types.NamespacedName
	audiences []string
	// seconds that a token is to live.
	seconds int64
	// cluster to log in to; nil for the one that issues the token.
	cluster *clientcmdv1.Cluster
	// name of the entries of the kubeconfig, and its namespace.
	name, namespace string
	// use is for how long a token of some life is handed out.
	use    func(life time.Duration) time.Duration
	latest shared[issued]
}

// issued is a kubeconfig with a token. It does not change.
type issued struct {
	text string
	// replaceAt is when one with another token is made.
	replaceAt time.Time
}

// get returns the latest kubeconfig, or one with a new token.
func (k *kubeconfigs) get(ctx context.Context) (string, error) {
	latest, err := k.latest.get(ctx, func(l *issued) bool { return k.issuer.clock.Now().Before(l.replaceAt) }, k.issue)
	if err != nil {
		return "", err
	}
	return latest.text, nil
}

// issue makes a kubeconfig with a new token. The API server may have shortened the token's life; if that seems longer
// than what was asked for, the clock of the host is slow. If it seems to be over, the clock is fast: such a token is
// handed out once.
func (k *kubeconfigs) issue(ctx context.Context) (*issued, error) {
	cluster := k.cluster
	if cluster == nil {
		own, err := ownCluster(k.issuer.own)
		if err != nil {
			return nil, err
		}
		cluster = own
	}
	asked := k.issuer.clock.Now()
	status, err := k.issuer.requester.RequestToken(ctx, k.account, authenticationv1.TokenRequestSpec{
		Audiences: k.audiences, ExpirationSeconds: &k.seconds,
	})
	if err != nil {
		return nil, fmt.Errorf("request a token for ServiceAccount %q: %w", k.account, err)
	}
	if status.Token == "" {
		return nil, fmt.Errorf("request a token for ServiceAccount %q: the answer of the API server holds no token",
			k.account)
	}
	text := tokenKubeconfig(k.name, k.namespace, cluster, status.Token)
	life := min(status.ExpirationTimestamp.Sub(asked), time.Duration(k.seconds)*time.Second)
	return &issued{text: text, replaceAt: asked.Add(k.use(life))}, nil
}

// account is a login of one version of a Target.
type account struct {
	field       string // of the content that it was read from
	kubeconfigs kubeconfigs
}

func newAccount(from *issuer, namespace string, l *login) *account {
	return &account{field: l.field, kubeconfigs: kubeconfigs{
		issuer: from, account: types.NamespacedName{Namespace: namespace, Name: l.serviceAccount}, name: "target",
		audiences: l.audiences, seconds: l.expiration, cluster: l.cluster,
		use: func(life time.Duration) time.Duration { return min(life/tokenUsePart, maxTokenUse) },
	}}
}

// problem tells what the user or the operator can do about an error; it is false if that is unknown.
func (a *account) problem(err error) (Problem, bool) {
	problem := Problem{Reason: ReasonTokenForbidden, Field: a.field + ".serviceAccount.name"}
	name := a.kubeconfigs.account
	switch {
	case apierrors.IsNotFound(err):
		problem.Reason = ReasonServiceAccountNotFound
		problem.Message = fmt.Sprintf("there is no ServiceAccount %q; create it, or correct the Target", name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		problem.Message = fmt.Sprintf("no token can be had for ServiceAccount %q, because its namespace is being deleted; "+
			"delete deploy items before their namespace", name)
	case apierrors.IsForbidden(err):
		problem.Message = fmt.Sprintf("the API server refuses the host a token for ServiceAccount %q; "+
			"the host needs the right to create serviceaccounts/token in namespace %q", name, name.Namespace)
	default:
		return Problem{}, false
	}
	return problem, true
}
