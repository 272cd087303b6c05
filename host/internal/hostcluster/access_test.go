package hostcluster

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
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

var account = types.NamespacedName{Namespace: "pods", Name: "runner"}

// requester is a target.TokenRequester made of a function, which gets the number of the request.
type requester struct {
	request  func(ctx context.Context, n int64) (authenticationv1.TokenRequestStatus, error)
	requests atomic.Int64
}

var _ target.TokenRequester = (*requester)(nil)

func (r *requester) RequestToken(
	ctx context.Context, asked types.NamespacedName, spec authenticationv1.TokenRequestSpec,
) (authenticationv1.TokenRequestStatus, error) {
	if asked != account || *spec.ExpirationSeconds != 3600 || len(spec.Audiences) > 0 {
		return authenticationv1.TokenRequestStatus{}, fmt.Errorf("asked for %v, %+v", asked, spec)
	}
	return r.request(ctx, r.requests.Add(1))
}

// issuing returns a requester whose tokens are numbered and live for some time of a clock.
func issuing(now func() time.Time, life time.Duration) *requester {
	return &requester{request: func(_ context.Context, n int64) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{Token: fmt.Sprintf("t0ps3cret-%d", n), ExpirationTimestamp: metav1.NewTime(now().Add(life))}, nil
	}}
}

func failing(err error) *requester {
	return &requester{request: func(context.Context, int64) (authenticationv1.TokenRequestStatus, error) {
		return authenticationv1.TokenRequestStatus{}, err
	}}
}

// namespaces is a client.Reader of kube-system.
type namespaces struct {
	client.Reader

	err   error
	reads atomic.Int64
}

func (n *namespaces) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	n.reads.Add(1)
	if key != (client.ObjectKey{Name: "kube-system"}) {
		return fmt.Errorf("asked for %v", key)
	}
	object.SetUID("the-cluster")
	return n.err
}

// access is that of a plugin named runner, to a host cluster at https://own.
func access(tokens target.TokenRequester, reader client.Reader, now clock.PassiveClock) *Access {
	return New(Options{
		Plugin: "runner", ServiceAccount: account, Tokens: tokens, Clock: now, Installation: NewInstallation(reader),
		Cluster: &rest.Config{Host: "https://own", BearerToken: "t0ps3cret-of-the-host"},
	})
}

func get(t *testing.T, a *Access) *sdk.HostCluster {
	t.Helper()
	got, err := a.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAccess(t *testing.T) {
	t.Parallel()
	got := get(t, access(issuing(time.Now, time.Hour), &namespaces{}, clock.RealClock{}))
	if got.Namespace != "pods" || got.Installation != "the-cluster" {
		t.Errorf("found %v", got)
	}
	config, err := clientcmd.Load(got.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	user := config.AuthInfos[current.AuthInfo]
	if server := config.Clusters[current.Cluster].Server; server != "https://own" || user.Token != "t0ps3cret-1" || current.Namespace != "pods" {
		t.Errorf("expected another login to the host cluster, but found %q, %q, %q", server, user.Token, current.Namespace)
	}
	if strings.Contains(string(got.Kubeconfig), "of-the-host") {
		t.Error("the credentials of the host are in the kubeconfig")
	}
}

func TestNoAccess(t *testing.T) {
	t.Parallel()
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	terminating := apierrors.NewForbidden(accounts, "runner", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		reason string
		tokens error
		reader error
		want   string
	}{
		"no account": {
			reason: "it may still come", tokens: apierrors.NewNotFound(accounts, "runner"),
			want: `there is no ServiceAccount "pods/runner" in it; create it, or correct plugins.runner.hostCluster.serviceAccount of the host configuration: `,
		},
		"forbidden": {
			reason: "the missing right is named", tokens: apierrors.NewForbidden(accounts, "runner", errors.New("no")),
			want: `its API server refuses the host a token for the ServiceAccount "pods/runner"; the host needs the right to create serviceaccounts/token for it in the namespace "pods": `,
		},
		"namespace goes": {
			reason: "no right would help", tokens: terminating,
			want: `the namespace of the ServiceAccount "pods/runner" is being deleted; correct plugins.runner.hostCluster.serviceAccount of the host configuration: `,
		},
		"down":     {reason: "it comes back", tokens: errors.New("connection refused"), want: `request a token for the ServiceAccount "pods/runner": connection refused`},
		"no token": {reason: "it would be no credential at all", want: `the answer of its API server to the request for a token holds none`},
		"no right to tell clusters apart": {
			reason: "the missing right is named", reader: apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("no")),
			want: `the host may not read the namespace kube-system of the cluster with the deploy items; allow "get" for it: `,
		},
		"items' cluster down": {
			reason: "it comes back", reader: errors.New("connection refused"),
			want: `read the namespace kube-system of the cluster with the deploy items: connection refused`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := access(failing(tc.tokens), &namespaces{err: tc.reader}, clock.RealClock{}).Get(t.Context())
			if want := `give the plugin "runner" access to the host cluster: ` + tc.want; got != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: expected %s, but found %v, %v", tc.reason, want, got, err)
			}
			for _, cause := range []error{tc.tokens, tc.reader} {
				if cause != nil && !errors.Is(err, cause) {
					t.Errorf("%s: the error of the API server is not wrapped: %v", tc.reason, err)
				}
			}
		})
	}
}

func TestReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		life   time.Duration // as the clock of the host sees it
		// usable and useless are ages at which the first token is still handed out, and is not any more.
		usable, useless time.Duration
	}{
		"usual":      {"half of its life", time.Hour, 30*time.Minute - time.Second, 30 * time.Minute},
		"shortened":  {"what the API server gives counts", 10 * time.Minute, 5*time.Minute - time.Second, 5 * time.Minute},
		"slow clock": {"it lives no longer than was asked for", 5 * time.Hour, 30*time.Minute - time.Second, 30 * time.Minute},
		"fast clock": {"one that seems over is handed out once", -time.Minute, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := clocktesting.NewFakePassiveClock(time.Now())
			start := now.Now()
			reader := &namespaces{}
			a := access(issuing(now.Now, tc.life), reader, now)
			at := func(age time.Duration, token string) []byte {
				t.Helper()
				now.SetTime(start.Add(age))
				got := get(t, a)
				if !strings.Contains(string(got.Kubeconfig), token) {
					t.Errorf("%s: expected %s at the age of %s", tc.reason, token, age)
				}
				return got.Kubeconfig
			}
			first := at(0, "t0ps3cret-1")
			if tc.usable >= 0 {
				if diff := cmp.Diff(first, at(tc.usable, "t0ps3cret-1")); diff != "" {
					t.Errorf("%s: expected the same text as long as the token is the same:\n%s", tc.reason, diff)
				}
			}
			at(tc.useless, "t0ps3cret-2")
			if reads := reader.reads.Load(); reads != 1 {
				t.Errorf("expected the installation to be read once, but it was %d times", reads)
			}
		})
	}
}

// A failure is not remembered, be it of one cluster or of the other.
func TestAfterFailure(t *testing.T) {
	t.Parallel()
	tokens, reader := failing(errors.New("connection refused")), &namespaces{err: errors.New("connection refused")}
	a := access(tokens, reader, clock.RealClock{})
	if _, err := a.Get(t.Context()); err == nil {
		t.Fatal("expected an error")
	}
	reader.err = nil
	if _, err := a.Get(t.Context()); err == nil {
		t.Fatal("expected an error")
	}
	tokens.request = issuing(time.Now, time.Hour).request
	get(t, a)
}

// Many calls at once cause one request; who gives up, also the first, stops nobody else.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		tokens := issuing(time.Now, time.Hour)
		issue := tokens.request
		tokens.request = func(ctx context.Context, n int64) (authenticationv1.TokenRequestStatus, error) {
			select {
			case <-answer:
				return issue(ctx, n)
			case <-ctx.Done():
				return authenticationv1.TokenRequestStatus{}, ctx.Err()
			}
		}
		a := access(tokens, &namespaces{}, clock.RealClock{})
		impatient, giveUp := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		call := func(ctx context.Context, wantErr error) {
			callers.Go(func() {
				if _, err := a.Get(ctx); !errors.Is(err, wantErr) {
					t.Errorf("expected the error %v, but found %v", wantErr, err)
				}
			})
		}
		call(impatient, context.Canceled)
		synctest.Wait()
		for range 50 {
			call(t.Context(), nil)
		}
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(answer)
		callers.Wait()
		if got := tokens.requests.Load(); got != 1 {
			t.Errorf("expected 1 request, but found %d", got)
		}
	})
}

// A request that is never answered ends, and with it the wait for it.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := &requester{request: func(ctx context.Context, _ int64) (authenticationv1.TokenRequestStatus, error) {
			<-ctx.Done()
			return authenticationv1.TokenRequestStatus{}, ctx.Err()
		}}
		start := time.Now()
		_, err := access(tokens, &namespaces{}, clock.RealClock{}).Get(t.Context())
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != requestTimeout {
			t.Errorf("expected to give up after %s, but found %v after %s", requestTimeout, err, took)
		}
	})
}
