package target

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk"
)

// hostTokenLife is how long a token for the host cluster is asked to live. The API server may give it less, but not
// less than ten minutes.
const hostTokenLife = time.Hour

// HostClusterOptions are the settings of a HostCluster. All are required.
type HostClusterOptions struct {
	// Plugin is the name of the plugin, for messages.
	Plugin string
	// ServiceAccount of the host cluster for the plugin.
	ServiceAccount types.NamespacedName
	// Tokens are issued by the host cluster. Its user needs the right to create serviceaccounts/token.
	Tokens client.SubResourceClientConstructor
	// User returns the name of that user, for messages; empty if it is not known. See UserOf.
	User func(context.Context) string
	// Cluster is how the host itself reaches the host cluster. None of its credentials is handed over. It must not
	// change.
	Cluster *rest.Config
	// Installation is shared by all plugins of a host.
	Installation *Installation
	Clock        clock.PassiveClock
}

// HostCluster is the access of one plugin to the cluster of the host, as a ServiceAccount of the operator's choice. It
// may be used concurrently.
//
// A deployer with work beside the host, such as Pods, needs a client of that cluster, and must not have the rights of
// the host. So it gets a kubeconfig with a token for its ServiceAccount, with each call. The text stays the same until
// half of the token's life is over: a plugin can keep its client for it, and the last call with it has the other half.
type HostCluster struct {
	options     HostClusterOptions
	kubeconfigs kubeconfigs
}

// NewHostCluster returns the access of a plugin. It makes no request.
func NewHostCluster(o HostClusterOptions) *HostCluster {
	return &HostCluster{options: o, kubeconfigs: kubeconfigs{
		login:     login{serviceAccount: o.ServiceAccount.Name, expiration: int64(hostTokenLife / time.Second)},
		namespace: o.ServiceAccount.Namespace, tokens: o.Tokens, user: o.User, own: o.Cluster, clock: o.Clock,
		name: "host", defaultNamespace: o.ServiceAccount.Namespace,
		use: func(life time.Duration) time.Duration { return life / 2 },
	}}
}

// Get returns the access. The error is a sentence for operator and user and wraps the error of an API server; all are
// worth another try. Get blocks while it needs a request, until ctx ends at the latest.
func (h *HostCluster) Get(ctx context.Context) (*sdk.HostCluster, error) {
	installation, err := h.options.Installation.UID(ctx)
	if err != nil {
		return nil, fmt.Errorf("give the plugin %q access to the host cluster: %w", h.options.Plugin, err)
	}
	kubeconfig, err := h.kubeconfigs.get(ctx)
	if err != nil {
		named := "plugins." + h.options.Plugin + ".hostCluster.serviceAccount of the host configuration"
		const grant = "a RoleBinding there for this user, such as container-token of docs/container-rights.yaml"
		if _, message := h.kubeconfigs.refusal(ctx, err, named, "correct "+named, grant); message != "" {
			err = fmt.Errorf("%s: %w", message, err)
		}
		return nil, fmt.Errorf("give the plugin %q access to the host cluster: %w", h.options.Plugin, err)
	}
	return &sdk.HostCluster{
		Kubeconfig: []byte(kubeconfig), Namespace: h.options.ServiceAccount.Namespace, Installation: installation,
	}, nil
}
