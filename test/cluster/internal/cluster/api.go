package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	requestTimeout = 5 * time.Second
	responseLimit  = 1 << 20
)

// api is the cluster's API as its administrator sees it, as far as waiting for
// the cluster needs it.
type api struct {
	address string
	client  *http.Client
}

// access returns the API of a cluster whose credentials have been issued.
func (c *Cluster) access(s state) (*api, error) {
	certificate, err := tls.LoadX509KeyPair(c.path("pki", "admin.crt"), c.path("pki", "admin.key"))
	if err != nil {
		return nil, fmt.Errorf("load the administrator's certificate: %w", err)
	}
	authority, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("load the authority's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &api{
		address: s.API,
		client: &http.Client{
			Timeout: requestTimeout,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{
				MinVersion:   tls.VersionTLS13,
				RootCAs:      roots,
				Certificates: []tls.Certificate{certificate},
			}},
		},
	}, nil
}

// get returns the body of the answer; any status but 200 is an error.
func (a *api) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+a.address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, responseLimit))
	if err != nil {
		return nil, fmt.Errorf("read answer to GET %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return body, nil
}

// nodeReady returns nil if the node is registered and ready.
func (a *api) nodeReady(ctx context.Context, name string) error {
	body, err := a.get(ctx, "/api/v1/nodes/"+name)
	if err != nil {
		return err
	}
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(body, &node); err != nil {
		return fmt.Errorf("parse node: %w", err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return fmt.Errorf("node is not ready: %s", condition.Message)
	}
	return fmt.Errorf("node has not reported")
}
