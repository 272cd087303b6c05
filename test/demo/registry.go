package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/google/go-containerregistry/pkg/registry"
	helm "helm.sh/helm/v3/pkg/registry"

	"github.com/pergola-deploy/pergola/test/charts"
)

const registryUser, registryPassword = "demo", "not-for-everybody"

// startRegistry starts the registry that has the chart of the helm example. It asks for a password.
func startRegistry() (*httptest.Server, error) {
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != registryUser || password != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="demo"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}))
	client, err := helm.NewClient(helm.ClientOptPlainHTTP(), helm.ClientOptWriter(io.Discard),
		helm.ClientOptBasicAuth(registryUser, registryPassword))
	if err == nil {
		_, err = client.Push(charts.Pack("plain"), server.Listener.Addr().String()+"/charts/plain:1.0.0")
	}
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("put the chart into the demo's registry: %w", err)
	}
	return server, nil
}
