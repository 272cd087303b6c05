package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// issuing returns tokens that are numbered and live for some time of a clock.
func issuing(now func() time.Time, life time.Duration) *tokens {
	return &tokens{issue: func(_ context.Context, n int64) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{
			Token: fmt.Sprintf("t0ps3cret-%d", n), ExpirationTimestamp: metav1.NewTime(now().Add(life)),
		}, nil
	}}
}

func failing(err error) *tokens {
	return &tokens{issue: func(context.Context, int64) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{}, err
	}}
}

const selfContent = `{"selfConfig":{"serviceAccount":{"name":"deployer"}}}`

// withTokens is a Resolver of a Target in the cache and, if it is told so, in the API server.
func withTokens(t *testing.T, o Options, cached *v1alpha1.Target, live ...client.Object) *Resolver {
	t.Helper()
	o.Cluster = &rest.Config{Host: "https://own", BearerToken: "t0ps3cret-of-the-host"}
	return NewResolver(newCache(t, cached), newStore(t, live...), o)
}

func TestTargetWithToken(t *testing.T) {
	t.Parallel()
	accounts := corev1.Resource("serviceaccounts")
	oidc, err := yaml.YAMLToJSON([]byte(oidcContent("audience: [a, b]", "expirationSeconds: 900")))
	if err != nil {
		t.Fatal(err)
	}
	asked := &askedFor{Account: types.NamespacedName{Namespace: "foo", Name: "deployer"}, Seconds: 86400}
	const field = `Target "foo/my-target": selfConfig.serviceAccount.name: `
	type want struct {
		server   string
		asked    *askedFor
		reason   Reason
		code     v1alpha1.ErrorCode
		err      string
		requests int64
	}
	for name, tc := range map[string]struct {
		reason, config string
		tokens         *tokens
		want           want
	}{
		"self": {"The cluster is the host's own.", selfContent, issuing(time.Now, time.Hour),
			want{server: "https://own", asked: asked, requests: 1}},
		"oidc": {"The cluster is that of the content.", string(oidc), issuing(time.Now, time.Hour), want{
			server: "https://example.org:6443", requests: 1,
			asked: &askedFor{Account: asked.Account, Audiences: []string{"a", "b"}, Seconds: 900},
		}},
		"no tokens": {"A host without tokens says so.", selfContent, nil, want{
			reason: ReasonContentInvalid, code: v1alpha1.ErrorConfigurationProblem,
			err: `Target "foo/my-target": selfConfig: is not supported by this host, which has no tokens to give; use the ` +
				`field kubeconfig`,
		}},
		"no account": {"A ServiceAccount may still come; the live Target is asked too.", selfContent,
			failing(apierrors.NewNotFound(accounts, "deployer")), want{
				reason: ReasonServiceAccountNotFound, asked: asked, requests: 2,
				err: field + `there is no ServiceAccount "foo/deployer"; create it, or correct the Target`,
			}},
		"forbidden": {"The missing right and the account without it are named.", selfContent,
			failing(apierrors.NewForbidden(accounts, "deployer", nil)), want{
				reason: ReasonTokenForbidden, asked: asked, requests: 2,
				err: field + `the API server refuses the host, which is "system:serviceaccount:a:b", a token for ` +
					`ServiceAccount "foo/deployer"; it needs the right to create serviceaccounts/token in namespace "foo", by a ` +
					`RoleBinding there for this user, such as pergola-target-tokens of docs/host-configuration.md; the chart has ` +
					`rbac.targetTokenNamespaces`,
			}},
		"failure": {"Any other failure says nothing about the Target.", selfContent,
			failing(errors.New("connection refused")), want{
				asked: asked, requests: 1,
				err: `resolve Target "foo/my-target": request a token for ServiceAccount "foo/deployer": connection refused`,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o Options
			if tc.tokens != nil {
				o.Tokens = tc.tokens
				o.User = func(context.Context) string { return "system:serviceaccount:a:b" }
			}
			target := inlineTarget("1", tc.config)
			resolved, err := withTokens(t, o, target, target).Target(t.Context(), newItem("my-target"))
			got := want{}
			if resolved != nil {
				checkHarmless(t, resolved.Content)
				config := load(t, resolved.Content)
				got.server = config.Clusters["target"].Server
				if token := config.AuthInfos["target"].Token; token != "t0ps3cret-1" {
					t.Errorf("%s\nthe token is %q", tc.reason, token)
				}
			}
			if tc.tokens != nil {
				got.requests, got.asked = tc.tokens.requests.Load(), tc.tokens.last.Load()
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
		})
	}
}

// TestNamespaceThatGoes: an API server says so as the host expects it to.
func TestNamespaceThatGoes(t *testing.T) {
	t.Parallel()
	_, admin := testenv.ForTest(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "going-"}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "deployer"}}
	if err := admin.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), namespace); err != nil { // which nobody here finishes
		t.Fatal(err)
	}
	target := inlineTarget("1", selfContent)
	target.Namespace = namespace.Name
	_, err := withTokens(t, Options{Tokens: admin}, target, target).Named(t.Context(), namespace.Name, "my-target")
	want := fmt.Sprintf("Target %q: selfConfig.serviceAccount.name: no token can be had for ServiceAccount %q, because "+
		"its namespace is being deleted; delete deploy items before their namespace", namespace.Name+"/my-target",
		namespace.Name+"/deployer")
	problem := (*Error)(nil)
	if !errors.As(err, &problem) || problem.Reason != ReasonTokenForbidden || err.Error() != want {
		t.Errorf("want %s, got %v", want, err)
	}
}

func TestTokenReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		asked  int64         // seconds
		life   time.Duration // as the clock of the host sees it
		use    time.Duration // the age at which the first token is not handed out any more
	}{
		"a day":      {"At most ten minutes.", 86400, 24 * time.Hour, 10 * time.Minute},
		"shortest":   {"A fifth of its life.", 600, 10 * time.Minute, 2 * time.Minute},
		"shortened":  {"What the API server gives counts.", 86400, 10 * time.Minute, 2 * time.Minute},
		"slow clock": {"A token lives no longer than was asked for.", 600, time.Hour, 2 * time.Minute},
		"fast clock": {"A token that seems over is handed out once.", 600, -time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Now())
			start := clock.Now()
			resolver := withTokens(t, Options{Tokens: issuing(clock.Now, tc.life), Clock: clock}, inlineTarget("1", fmt.Sprintf(
				`{"selfConfig":{"serviceAccount":{"name":"deployer"},"expirationSeconds":%d}}`, tc.asked)))
			resolve := func(age time.Duration, want int64) {
				t.Helper()
				clock.SetTime(start.Add(age))
				resolved, err := resolver.Target(t.Context(), newItem("my-target"))
				if token := fmt.Sprintf("t0ps3cret-%d", want); err != nil || !strings.Contains(resolved.Content, token) {
					t.Errorf("%s\nat the age of %v: want %s, found %v (%v)", tc.reason, age, token, resolved, err)
				}
			}
			resolve(0, 1)
			if tc.use > 0 {
				resolve(0, 1)
				resolve(tc.use-time.Second, 1)
			}
			resolve(tc.use, 2)
		})
	}
}

func TestTokenPerVersion(t *testing.T) {
	t.Parallel()
	cached, issuer := newCache(t), issuing(time.Now, time.Hour)
	resolver := NewResolver(cached, newStore(t), Options{Tokens: issuer, Cluster: &rest.Config{Host: "https://own"}})
	other := inlineTarget("1", selfContent)
	other.Name = "other"
	for i, tc := range []struct {
		reason string
		target *v1alpha1.Target
		want   int64
	}{
		{"the first", inlineTarget("1", selfContent), 1},
		{"the same version", inlineTarget("1", selfContent), 1},
		{"who touches a Target wants a new token", inlineTarget("2", selfContent), 2},
		{"another Target", other, 3},
	} {
		cached.put(t, tc.target)
		_, err := resolver.Target(t.Context(), newItem(tc.target.Name))
		if got := issuer.requests.Load(); err != nil || got != tc.want {
			t.Errorf("%d: %s: want %d requests, got %d (%v)", i, tc.reason, tc.want, got, err)
		}
	}
}

// TestConcurrentTokens: many items of a new Target cause one request; who gives up, also the first, stops nobody else.
// An API server that hangs is given up, for all who wait.
func TestConcurrentTokens(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers bool
		want    error
	}{"answers": {true, nil}, "hangs": {false, context.DeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answer, issuer := make(chan struct{}), issuing(time.Now, time.Hour)
				issue := issuer.issue
				issuer.issue = func(ctx context.Context, n int64) (authenticationv1.TokenRequestStatus, error) {
					select {
					case <-answer:
						return issue(ctx, n)
					case <-ctx.Done():
						return authenticationv1.TokenRequestStatus{}, ctx.Err()
					}
				}
				resolver := withTokens(t, Options{Tokens: issuer}, inlineTarget("1", selfContent))
				impatient, giveUp := context.WithCancel(t.Context())
				began := time.Now()
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
					start(t.Context(), tc.want)
				}
				synctest.Wait()
				giveUp()
				synctest.Wait()
				if tc.answers {
					close(answer)
				}
				workers.Wait()
				if got := issuer.requests.Load(); got != 1 {
					t.Errorf("want 1 request, got %d", got)
				}
				if took := time.Since(began); tc.answers != (took == 0) || !tc.answers && took != requestTimeout {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
