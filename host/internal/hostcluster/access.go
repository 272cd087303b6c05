// Package hostcluster gives plugins access to the cluster that the host runs in, each as a ServiceAccount of the operator's choice.
//
// A deployer that runs something beside the host, such as Pods, needs a client of that cluster, and must not have the rights of the host. So it
// gets a kubeconfig with a token for its ServiceAccount, which comes with each call. The text stays the same until half of the token's life is
// over, so that a plugin can keep its client for it, and a call that got it last has the other half.
package hostcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// lifetime is how long a token is asked to live. The API server may give it less, but not less than ten minutes.
	lifetime = time.Hour
	// usePart of its life is how long a token is handed out.
	usePart = 2
	// requestTimeout bounds one request to either cluster.
	requestTimeout = 30 * time.Second
)

// Options say whose access is given. All are required.
type Options struct {
	// Plugin is the name of the plugin, for messages.
	Plugin string
	// ServiceAccount of the host cluster that the plugin is to be.
	ServiceAccount types.NamespacedName
	// Tokens are issued by the host cluster.
	Tokens target.TokenRequester
	// Cluster is how the host itself reaches the host cluster. None of its credentials is handed over. It must not change.
	Cluster *rest.Config
	// Installation is shared by all who run under one host.
	Installation *Installation
	Clock        clock.PassiveClock
}

// Access is that of one plugin. It may be used concurrently.
type Access struct {
	options Options
	current shared[kubeconfig]
}

// New returns the access of a plugin. It makes no request.
func New(o Options) *Access { return &Access{options: o} }

// kubeconfig is one with a token. It does not change.
type kubeconfig struct {
	text []byte
	// replaceAt is when one with another token is made.
	replaceAt time.Time
}

// Get returns the access, whose kubeconfig must not be changed. The error is a sentence for operator and user that wraps that of an API server;
// all are worth another try. Get blocks while it needs a request, until ctx ends at the latest.
func (a *Access) Get(ctx context.Context) (*sdk.HostCluster, error) {
	installation, err := a.options.Installation.UID(ctx)
	if err != nil {
		return nil, fmt.Errorf("give the plugin %q access to the host cluster: %w", a.options.Plugin, err)
	}
	usable := func(k *kubeconfig) bool { return a.options.Clock.Now().Before(k.replaceAt) }
	current, err := a.current.get(ctx, usable, a.issue)
	if err != nil {
		return nil, fmt.Errorf("give the plugin %q access to the host cluster: %w", a.options.Plugin, err)
	}
	return &sdk.HostCluster{Kubeconfig: current.text, Namespace: a.options.ServiceAccount.Namespace, Installation: installation}, nil
}

// issue makes a kubeconfig with a new token.
func (a *Access) issue(ctx context.Context) (*kubeconfig, error) {
	cluster, err := target.OwnCluster(a.options.Cluster)
	if err != nil {
		return nil, err
	}
	asked, seconds := a.options.Clock.Now(), int64(lifetime/time.Second)
	status, err := a.options.Tokens.RequestToken(ctx, a.options.ServiceAccount, authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds})
	if err != nil {
		return nil, a.explain(err)
	}
	if status.Token == "" {
		return nil, errors.New("the answer of its API server to the request for a token holds none")
	}
	text, err := a.write(cluster, status.Token)
	if err != nil {
		return nil, err
	}
	return &kubeconfig{text: text, replaceAt: asked.Add(useOf(asked, status.ExpirationTimestamp.Time))}, nil
}

// useOf is how long a token is handed out that was asked for at some time and ends at another. If its life seems longer than what was asked
// for, the clock of the host is slow; if it seems to be over, the clock is fast, and the token is handed out once.
func useOf(asked, ends time.Time) time.Duration {
	return min(ends.Sub(asked), lifetime) / usePart
}

// explain adds to an error of the API server what the operator can do about it, where that is known.
func (a *Access) explain(err error) error {
	field := "plugins." + a.options.Plugin + ".hostCluster.serviceAccount"
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ServiceAccount %q in it; create it, or correct %s of the host configuration: %w", a.options.ServiceAccount, field, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("the namespace of the ServiceAccount %q is being deleted; correct %s of the host configuration: %w", a.options.ServiceAccount, field, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("its API server refuses the host a token for the ServiceAccount %q; the host needs the right to create serviceaccounts/token "+
			"for it in the namespace %q: %w", a.options.ServiceAccount, a.options.ServiceAccount.Namespace, err)
	default:
		return fmt.Errorf("request a token for the ServiceAccount %q: %w", a.options.ServiceAccount, err)
	}
}

func (a *Access) write(cluster *clientcmdv1.Cluster, token string) ([]byte, error) {
	const name = "host"
	text, err := json.Marshal(clientcmdv1.Config{
		APIVersion: clientcmdv1.SchemeGroupVersion.Version, Kind: "Config", CurrentContext: name,
		Clusters:  []clientcmdv1.NamedCluster{{Name: name, Cluster: *cluster}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{Name: name, AuthInfo: clientcmdv1.AuthInfo{Token: token}}},
		Contexts: []clientcmdv1.NamedContext{{
			Name: name, Context: clientcmdv1.Context{Cluster: name, AuthInfo: name, Namespace: a.options.ServiceAccount.Namespace},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	return text, nil
}
