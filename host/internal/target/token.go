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
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// A token is handed out for a part of its life, at most for maxTokenUse, and then replaced. A receiver can count on
	// the rest, four fifths of a new token's life; and a token void before its time, because its ServiceAccount was
	// created anew or the API server has other keys, does harm no longer than that.
	tokenUsePart = 5
	maxTokenUse  = 10 * time.Minute
	// requestTimeout bounds one request shared by several callers.
	requestTimeout = 30 * time.Second
)

// kubeconfigs makes kubeconfigs with a token for one ServiceAccount, and keeps the latest one.
type kubeconfigs struct {
	login
	// namespace of the ServiceAccount.
	namespace string
	// tokens issues the tokens.
	tokens client.SubResourceClientConstructor
	// own is how the host itself reaches the issuer of the tokens.
	own   *rest.Config
	clock clock.PassiveClock
	// name of the entries of the kubeconfig, and the namespace in it.
	name, defaultNamespace string
	// user returns the name of the user of tokens; empty if it is not known. It may be nil.
	user func(context.Context) string
	// use is for how long a token of some life is handed out.
	use func(life time.Duration) time.Duration

	latest   atomic.Pointer[issued]
	requests singleflight.Group
}

// issued is a kubeconfig with a token. It does not change.
type issued struct {
	text string
	// replaceAt is the time for a kubeconfig with a new token.
	replaceAt time.Time
}

// get returns the latest kubeconfig, or one with a new token. Concurrent callers share one request. It goes on if the
// first of them gives up, until requestTimeout at the latest. A failure is not remembered.
func (k *kubeconfigs) get(ctx context.Context) (string, error) {
	if latest := k.latest.Load(); latest != nil && k.clock.Now().Before(latest.replaceAt) {
		return latest.text, nil
	}
	answer := k.requests.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		return k.issue(ctx)
	})
	select {
	case result := <-answer:
		text, _ := result.Val.(string)
		return text, result.Err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// issue makes a kubeconfig with a new token. The API server may have shortened the token's life; a life longer than
// requested means a slow clock of the host. A life already over means a fast clock: such a token is handed out once.
func (k *kubeconfigs) issue(ctx context.Context) (string, error) {
	cluster := k.cluster
	if cluster == nil {
		own, err := ownCluster(k.own)
		if err != nil {
			return "", err
		}
		cluster = own
	}
	asked := k.clock.Now()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.serviceAccount}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: k.audiences, ExpirationSeconds: &k.expiration},
	}
	err := k.tokens.SubResource("token").Create(ctx, account, request)
	if err == nil && request.Status.Token == "" {
		err = errors.New("the answer of the API server holds no token")
	}
	if err != nil {
		return "", fmt.Errorf("request a token for ServiceAccount %q: %w", k.account(), err)
	}
	text := tokenKubeconfig(k.name, k.defaultNamespace, cluster, request.Status.Token)
	life := min(request.Status.ExpirationTimestamp.Sub(asked), time.Duration(k.expiration)*time.Second)
	k.latest.Store(&issued{text: text, replaceAt: asked.Add(k.use(life))})
	return text, nil
}

// UserOf returns a function for the name of the user of a client; empty if the API server does not tell.
func UserOf(c client.Writer) func(context.Context) string {
	return func(ctx context.Context) string {
		review := &authenticationv1.SelfSubjectReview{}
		if err := c.Create(ctx, review); err != nil {
			return ""
		}
		return review.Status.UserInfo.Username
	}
}

func (k *kubeconfigs) account() string { return k.namespace + "/" + k.serviceAccount }

// refusal explains an error of get: named is the place with the name of the ServiceAccount, ifDeleted the advice if its
// namespace is being deleted, and grant the source of the missing right. The message is empty if the error is another
// one.
func (k *kubeconfigs) refusal(
	ctx context.Context, err error, named, ifDeleted, grant string,
) (_ Reason, message string) {
	switch {
	case apierrors.IsNotFound(err):
		return ReasonServiceAccountNotFound,
			fmt.Sprintf("there is no ServiceAccount %q; create it, or correct %s", k.account(), named)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ReasonTokenForbidden, fmt.Sprintf("no token can be had for ServiceAccount %q, because its namespace is "+
			"being deleted; %s", k.account(), ifDeleted)
	case apierrors.IsForbidden(err):
		host := "the host"
		if k.user != nil {
			if name := k.user(ctx); name != "" {
				host = fmt.Sprintf("the host, which is %q,", name)
			}
		}
		return ReasonTokenForbidden, fmt.Sprintf("the API server refuses %s a token for ServiceAccount %q; it needs the "+
			"right to create serviceaccounts/token in namespace %q, by %s", host, k.account(), k.namespace, grant)
	default:
		return "", ""
	}
}
