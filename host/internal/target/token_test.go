package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakeRequester is a TokenRequester made of a function, which gets the number of the request.
type fakeRequester struct {
	request  func(ctx context.Context, n int64) (authenticationv1.TokenRequestStatus, error)
	requests atomic.Int64
	// last is what was asked for by the last request.
	last atomic.Pointer[askedFor]
}

type askedFor struct {
	Account   types.NamespacedName
	Audiences []string
	Seconds   int64
}

var _ TokenRequester = (*fakeRequester)(nil)

func (f *fakeRequester) RequestToken(
	ctx context.Context, account types.NamespacedName, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	f.last.Store(&askedFor{Account: account, Audiences: spec.Audiences, Seconds: *spec.ExpirationSeconds})
	return f.request(ctx, f.requests.Add(1))
}

// issuing returns a requester whose tokens are numbered and live for some time of a clock.
func issuing(now func() time.Time, life time.Duration) *fakeRequester {
	return &fakeRequester{request: func(_ context.Context, n int64) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{
			Token: fmt.Sprintf("t0ps3cret-%d", n), ExpirationTimestamp: metav1.NewTime(now().Add(life)),
		}, nil
	}}
}

func failing(err error) *fakeRequester {
	return &fakeRequester{request: func(context.Context, int64) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{}, err
	}}
}

const selfContent = `{"selfConfig":{"serviceAccount":{"name":"deployer"}}}`

// ownConfig is how the host reaches the Landscaper cluster in these tests.
var ownConfig = &rest.Config{Host: "https://own", BearerToken: "t0ps3cret-of-the-host"}

func TestTargetWithToken(t *testing.T) {
	t.Parallel()
	accounts, name := schema.GroupResource{Resource: "serviceaccounts"}, "deployer"
	terminating := apierrors.NewForbidden(accounts, name, errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	account := types.NamespacedName{Namespace: "foo", Name: "deployer"}
	broken := errors.New("connection refused")
	const field = `Target "foo/my-target": selfConfig.serviceAccount.name: `

	type want struct {
		server, token string
		asked         *askedFor
		reason        Reason
		code          v1alpha1.ErrorCode
		err           string
		requests      int64
	}
	cases := map[string]struct {
		reason, config string
		requester      *fakeRequester
		want           want
	}{
		"self": {
			reason: "The cluster is the host's own.", config: selfContent, requester: issuing(time.Now, time.Hour),
			want: want{server: "https://own", token: "t0ps3cret-1", asked: &askedFor{Account: account, Seconds: 86400},
				requests: 1},
		},
		"oidc": {
			reason: "The cluster is that of the content.", config: oidcContent("audience: [a, b]", "expirationSeconds: 900"),
			requester: issuing(time.Now, time.Hour),
			want: want{
				server: "https://example.org:6443", token: "t0ps3cret-1", requests: 1,
				asked: &askedFor{Account: account, Audiences: []string{"a", "b"}, Seconds: 900},
			},
		},
		"no tokens": {
			reason: "A host without tokens says so.", config: selfContent,
			want: want{
				reason: ReasonContentInvalid, code: v1alpha1.ErrorConfigurationProblem,
				err: `Target "foo/my-target": selfConfig: is not supported by this host, which has no tokens to give; use the ` +
					`field kubeconfig`,
			},
		},
		"no account": {
			reason: "A ServiceAccount may still come; the live Target is asked too.", config: selfContent,
			requester: failing(apierrors.NewNotFound(accounts, name)),
			want: want{
				reason: ReasonServiceAccountNotFound, asked: &askedFor{Account: account, Seconds: 86400}, requests: 2,
				err: field + `there is no ServiceAccount "foo/deployer"; create it, or correct the Target`,
			},
		},
		"forbidden": {
			reason: "The missing right is named.", config: selfContent,
			requester: failing(apierrors.NewForbidden(accounts, name, nil)),
			want: want{
				reason: ReasonTokenForbidden, asked: &askedFor{Account: account, Seconds: 86400}, requests: 2,
				err: field + `the API server refuses the host a token for ServiceAccount "foo/deployer"; ` +
					`the host needs the right to create serviceaccounts/token in namespace "foo"`,
			},
		},
		"namespace goes": {
			reason: "No right would help.", config: selfContent, requester: failing(terminating),
			want: want{
				reason: ReasonTokenForbidden, asked: &askedFor{Account: account, Seconds: 86400}, requests: 2,
				err: field + `no token can be had for ServiceAccount "foo/deployer", because its namespace is being deleted; ` +
					`delete deploy items before their namespace`,
			},
		},
		"failure": {
			reason: "Any other failure says nothing about the Target.", config: selfContent, requester: failing(broken),
			want: want{
				asked: &askedFor{Account: account, Seconds: 86400}, requests: 1,
				err: `resolve Target "foo/my-target": request a token for ServiceAccount "foo/deployer": connection refused`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opts Options
			if tc.requester != nil {
				opts = Options{Tokens: tc.requester, Cluster: ownConfig}
			}
			target := inlineTarget("1", tc.config)
			resolver := NewResolver(newCache(target).reader(), newStore(target).reader(), opts)
			resolved, err := resolver.Target(t.Context(), newItem("my-target"))

			got := want{}
			if resolved != nil {
				checkHarmless(t, resolved.Content)
				config := load(t, resolved.Content)
				got.server, got.token = config.Clusters["target"].Server, config.AuthInfos["target"].Token
			}
			if tc.requester != nil {
				got.requests, got.asked = tc.requester.requests.Load(), tc.requester.last.Load()
			}
			var typed *Error
			if errors.As(err, &typed) {
				got.reason, got.code = typed.Reason, typed.Code()
			}
			if err != nil {
				got.err = err.Error()
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\nTarget() (-want +got):\n%s", tc.reason, diff)
			}
			if strings.Contains(got.err, "t0ps3cret") {
				t.Errorf("%s\nTarget(): the error holds a secret: %s", tc.reason, got.err)
			}
		})
	}
}

func TestTokenReplaced(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason          string
		asked           int64         // seconds
		life            time.Duration // as the clock of the host sees it
		usable, useless time.Duration // ages at which the first token is still handed out, and is not any more
	}{
		"a day": {
			reason: "At most ten minutes.", asked: 86400, life: 24 * time.Hour, usable: 10*time.Minute - time.Second,
			useless: 10 * time.Minute,
		},
		"shortest": {
			reason: "A fifth of its life.", asked: 600, life: 10 * time.Minute, usable: 2*time.Minute - time.Second,
			useless: 2 * time.Minute,
		},
		"shortened": {
			reason: "What the API server gives counts.", asked: 86400, life: 10 * time.Minute,
			usable: 2*time.Minute - time.Second, useless: 2 * time.Minute,
		},
		"slow clock": {
			reason: "A token lives no longer than was asked for.", asked: 600, life: time.Hour,
			usable: 2*time.Minute - time.Second, useless: 2 * time.Minute,
		},
		"fast clock": {
			reason: "A token that seems over is handed out once.", asked: 600, life: -time.Minute, usable: -1, useless: 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Now())
			start := clock.Now()
			requester := issuing(clock.Now, tc.life)
			target := inlineTarget("1", fmt.Sprintf(
				`{"selfConfig":{"serviceAccount":{"name":"deployer"},"expirationSeconds":%d}}`, tc.asked))
			resolver := NewResolver(newCache(target).reader(), newStore().reader(), Options{
				Tokens: requester, Cluster: ownConfig, Clock: clock,
			})
			resolve := func(age time.Duration, want int64) {
				t.Helper()
				clock.SetTime(start.Add(age))
				resolved, err := resolver.Target(t.Context(), newItem("my-target"))
				if err != nil {
					t.Fatal(err)
				}
				if token := fmt.Sprintf("t0ps3cret-%d", want); !strings.Contains(resolved.Content, token) {
					t.Errorf("%s\nat the age of %v: want %s, found %s", tc.reason, age, token, resolved.Content)
				}
			}
			resolve(0, 1)
			if tc.usable >= 0 {
				resolve(0, 1)
				resolve(tc.usable, 1)
			}
			resolve(tc.useless, 2)
		})
	}
}

func TestTokenPerVersion(t *testing.T) {
	t.Parallel()
	cached := newCache(inlineTarget("1", selfContent))
	requester := issuing(time.Now, time.Hour)
	resolver := NewResolver(cached.reader(), newStore().reader(), Options{Tokens: requester, Cluster: ownConfig})
	resolve := func(target *v1alpha1.Target, reason string, want int64) {
		t.Helper()
		cached.put(target)
		if _, err := resolver.Target(t.Context(), newItem(target.Name)); err != nil {
			t.Fatal(err)
		}
		if got := requester.requests.Load(); got != want {
			t.Errorf("%s: want %d requests, got %d", reason, want, got)
		}
	}
	resolve(inlineTarget("1", selfContent), "the first", 1)
	resolve(inlineTarget("1", selfContent), "the same version", 1)
	resolve(inlineTarget("2", selfContent), "who touches a Target wants a new token", 2)
	other := inlineTarget("1", selfContent)
	other.Name = "other"
	resolve(other, "another Target", 3)
}

// TestConcurrentTokens: many items of a new Target cause one request; who gives up, also the first, stops nobody else.
func TestConcurrentTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		requester := issuing(time.Now, time.Hour)
		issue := requester.request
		requester.request = func(ctx context.Context, n int64) (authenticationv1.TokenRequestStatus, error) {
			select {
			case <-answer:
				return issue(ctx, n)
			case <-ctx.Done():
				return authenticationv1.TokenRequestStatus{}, ctx.Err()
			}
		}
		resolver := NewResolver(newCache(inlineTarget("1", selfContent)).reader(), newStore().reader(),
			Options{Tokens: requester, Cluster: ownConfig})
		impatient, giveUp := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		start := func(ctx context.Context, wantErr error) {
			workers.Go(func() {
				if _, err := resolver.Target(ctx, newItem("my-target")); !errors.Is(err, wantErr) {
					t.Errorf("want error %v, got %v", wantErr, err)
				}
			})
		}
		start(impatient, context.Canceled)
		synctest.Wait()
		for range 50 {
			start(t.Context(), nil)
		}
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(answer)
		workers.Wait()
		if got := requester.requests.Load(); got != 1 {
			t.Errorf("want 1 request, got %d", got)
		}
	})
}

// TestTokenTimeout: an API server that hangs is given up, for all who wait.
func TestTokenTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requester := &fakeRequester{request: func(ctx context.Context, _ int64) (authenticationv1.TokenRequestStatus, error) {
			<-ctx.Done()
			return authenticationv1.TokenRequestStatus{}, ctx.Err()
		}}
		resolver := NewResolver(newCache(inlineTarget("1", selfContent)).reader(), newStore().reader(),
			Options{Tokens: requester, Cluster: ownConfig})
		began := time.Now()
		_, err := resolver.Target(t.Context(), newItem("my-target"))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != requestTimeout {
			t.Errorf("want to give up after %v, but it took %v and ended with %v", requestTimeout, took, err)
		}
	})
}
