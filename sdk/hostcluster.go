package sdk

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// HostCluster is the access to the cluster that the host runs in, for a deployer that runs something there, such as Pods. It is that of a
// ServiceAccount which the operator has granted to the plugin in the HostConfiguration; the rights of the host itself are never handed over.
type HostCluster struct {
	// Kubeconfig holds a token, which the host replaces long before it ends: a deployer takes the kubeconfig of each request anew. It is
	// text that is equal as long as the token is the same. It belongs into no log and no error.
	Kubeconfig []byte `json:"-"`
	// Namespace of the ServiceAccount.
	Namespace string
	// Installation tells the deploy items of this host's cluster from those of others that use the same host cluster: the UID of the
	// namespace kube-system of the cluster that the deploy items are in. It belongs on what a Collector creates.
	Installation string
}

var _ fmt.Formatter = HostCluster{}

// Format prints what is no secret, whatever the verb.
func (h HostCluster) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Kubeconfig:(%d bytes) Namespace:%q Installation:%q}", len(h.Kubeconfig), h.Namespace, h.Installation)
}

// HostClusterAccess has the host hand over Request.HostCluster with each call, if the operator has granted it. Without it a plugin does not
// get it.
func HostClusterAccess() Option {
	return func(o *options) { o.hostCluster = true }
}

func hostClusterFromWire(in *deployerv1.HostCluster) *HostCluster {
	if in == nil {
		return nil
	}
	return &HostCluster{Kubeconfig: in.GetKubeconfig(), Namespace: in.GetNamespace(), Installation: in.GetInstallation()}
}

// Collector is a Deployer that keeps something outside of its deploy items' targets, which Delete removes, and which would be left behind when
// an item goes without it. One replica of the host calls both methods after items have gone, and from time to time.
type Collector interface {
	// Holdings tells what is kept for which deploy items of this installation, whether those are still there or not. It is asked about once an
	// hour, and soon after something may have been left behind. An error goes to the log of the host, and the question comes again.
	Holdings(ctx context.Context, req *HoldingsRequest) (*HoldingsResponse, error)
	// Collect removes what is kept for holdings that nobody needs any more. It does not wait for what takes its time: it is called again as long
	// as Holdings names them. An error goes to the log of the host; it keeps nothing else from being collected.
	Collect(ctx context.Context, req *CollectRequest) error
}

// HoldingsRequest asks what is kept.
type HoldingsRequest struct {
	// HostCluster as in Request.
	HostCluster *HostCluster
	Log         *slog.Logger
}

// HoldingsResponse tells what is kept.
type HoldingsResponse struct {
	Holdings []Holding
}

// Holding stands for what is kept for a deploy item, or for one job of it.
type Holding struct {
	// Namespace, Name and UID of the deploy item.
	Namespace, Name string
	UID             types.UID
	// JobID is the job that it is kept for; empty for what is kept as long as the deploy item is there.
	JobID string
}

// CollectRequest names what nobody needs any more: holdings of deploy items that are gone, and holdings of jobs that are over.
type CollectRequest struct {
	Holdings []Holding
	// HostCluster as in Request.
	HostCluster *HostCluster
	Log         *slog.Logger
}
