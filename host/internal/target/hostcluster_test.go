package target

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk"
)

var runner = types.NamespacedName{Namespace: "pods", Name: "runner"}

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
func access(tokens *tokens, reader client.Reader, now clock.PassiveClock) *HostCluster {
	return NewHostCluster(HostClusterOptions{
		Plugin: "runner", ServiceAccount: runner, Tokens: tokens, Clock: now, Installation: NewInstallation(reader),
		Cluster: &rest.Config{Host: "https://own", BearerToken: "t0ps3cret-of-the-host"},
	})
}

func TestHostCluster(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Now())
	tokens := issuing(now.Now, 10*time.Minute) // the API server shortens their life
	start, reader := now.Now(), &namespaces{}
	a := access(tokens, reader, now)
	for _, tc := range []struct {
		age   time.Duration
		token string
	}{{0, "t0ps3cret-1"}, {5*time.Minute - time.Second, "t0ps3cret-1"}, {5 * time.Minute, "t0ps3cret-2"}} {
		now.SetTime(start.Add(tc.age))
		got, err := a.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := &sdk.HostCluster{Namespace: "pods", Installation: "the-cluster", Kubeconfig: []byte(
			tokenKubeconfig("host", "pods", &clientcmdv1.Cluster{Server: "https://own"}, tc.token))}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at the age of %s (-want +got):\n%s", tc.age, diff)
		}
	}
	if diff := cmp.Diff(&askedFor{Account: runner, Seconds: 3600}, tokens.last.Load()); diff != "" {
		t.Errorf("the token asked for (-want +got):\n%s", diff)
	}
	if reads := reader.reads.Load(); reads != 1 {
		t.Errorf("expected the installation to be read once, but it was %d times", reads)
	}
}

func TestNoHostCluster(t *testing.T) {
	t.Parallel()
	accounts := corev1.Resource("serviceaccounts")
	for name, tc := range map[string]struct {
		reason string
		tokens error
		reader error
		want   string
	}{
		"no account": {
			reason: "it may still come", tokens: apierrors.NewNotFound(accounts, "runner"),
			want: `there is no ServiceAccount "pods/runner"; create it, or correct ` +
				`plugins.runner.hostCluster.serviceAccount of the host configuration: `,
		},
		"down": {"it comes back",
			errors.New("connection refused"), nil, `request a token for ServiceAccount "pods/runner": connection refused`},
		"no token": {reason: "it would be no credential at all",
			want: `request a token for ServiceAccount "pods/runner": the answer of the API server holds no token`},
		"no right to tell clusters apart": {"the missing right is named", nil,
			apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", errors.New("no")),
			`the host may not read the namespace kube-system of the cluster with the deploy items; allow "get" for it: `},
		"items' cluster down": {"it comes back", nil, errors.New("connection refused"),
			`read the namespace kube-system of the cluster with the deploy items: connection refused`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := access(failing(tc.tokens), &namespaces{err: tc.reader}, clock.RealClock{}).Get(t.Context())
			if want := `give the plugin "runner" access to the host cluster: ` + tc.want; got != nil || err == nil ||
				!strings.HasPrefix(err.Error(), want) {
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

// TestMark: a host that may not know its installation does without, and asks again some time later; one that cannot
// know it for now does not do without.
func TestMark(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("namespaces"), "kube-system", errors.New("no rule"))
	for name, tc := range map[string]struct {
		err   error
		want  string
		fails bool
		reads int64
	}{
		"known":       {want: "the-cluster", reads: 1},
		"forbidden":   {err: forbidden, reads: 1},
		"unreachable": {err: errors.New("no answer"), fails: true, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &namespaces{err: tc.err}
			installation := NewInstallation(reader)
			for range 2 {
				got, err := installation.Mark(t.Context(), slog.New(slog.DiscardHandler))
				if got != tc.want || (err != nil) != tc.fails {
					t.Errorf("expected %q, but found %q, %v", tc.want, got, err)
				}
			}
			if got := reader.reads.Load(); got != tc.reads {
				t.Errorf("expected %d reads, but found %d", tc.reads, got)
			}
		})
	}
}
