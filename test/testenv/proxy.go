package testenv

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is in front of an API server, for a Target whose requests a test wants to see or to stop. Whoever comes to it is the administrator.
type Proxy struct {
	server *httptest.Server
}

// StartProxy starts a proxy that has each request served by what wrap makes of the way to the API server. It must be stopped.
func StartProxy(config *rest.Config, wrap func(next *httputil.ReverseProxy) http.Handler) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	return &Proxy{server: httptest.NewServer(wrap(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // that of the transport counts
		},
		Transport:     transport,
		FlushInterval: -1, // for watches
	}))}, nil
}

// Kubeconfig leads to the API server by way of the proxy.
func (p *Proxy) Kubeconfig() ([]byte, error) {
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxied"] = &clientcmdapi.Cluster{Server: p.server.URL}
	kubeconfig.AuthInfos["proxied"] = &clientcmdapi.AuthInfo{Token: "for the proxy"}
	kubeconfig.Contexts["proxied"] = &clientcmdapi.Context{Cluster: "proxied", AuthInfo: "proxied"}
	kubeconfig.CurrentContext = "proxied"
	out, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig of the proxy: %w", err)
	}
	return out, nil
}

// Stop closes all connections.
func (p *Proxy) Stop() {
	p.server.CloseClientConnections()
	p.server.Close()
}
