package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// KubeconfigLoader finds a kubeconfig in kubectl's order: the named file, $KUBECONFIG, the home directory.
func KubeconfigLoader(named string, overrides *clientcmd.ConfigOverrides) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = named
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// FindCluster loads the access to a cluster.
func FindCluster(loader clientcmd.ClientConfig) (*rest.Config, error) {
	cluster, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("find the cluster: there is no kubeconfig with a cluster at %s; "+
			"name one with --kubeconfig or $KUBECONFIG", strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	return cluster, nil
}

// WithAdvice adds advice to errors of clients about missing definitions and unreachable API servers.
func WithAdvice(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster lacks CustomResourceDefinitions; `pergola crds | kubectl create -f -` installs "+
			"the missing ones, and leaves the others as they are: %w", err)
	}
	// Drop the request details; only the dial error matters.
	var request *url.Error
	var dialed *net.OpError
	if errors.As(err, &request) && errors.As(request, &dialed) && dialed.Op == "dial" {
		server := request.URL
		if parsed, parseErr := url.Parse(server); parseErr == nil {
			server = parsed.Scheme + "://" + parsed.Host
		}
		return fmt.Errorf("connect to the cluster: the API server %s cannot be reached: %w", server, dialed.Err)
	}
	return err
}
