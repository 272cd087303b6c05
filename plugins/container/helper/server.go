package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// attemptTime is how long one attempt may take.
const attemptTime = time.Minute

// server is the API server, as far as it is written to.
type server struct {
	// address has the scheme, the host and the port.
	address string
	// tokenFile may be replaced at any time.
	tokenFile string
	client    *http.Client
	log       *slog.Logger

	// sleep and random are those of the standard library, except in tests.
	sleep  func(time.Duration)
	random func() float64
}

// connect finds out where the API server is and which authorities vouch for it. It makes no connection yet.
func connect(access string, log *slog.Logger) (*server, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("find the API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set, as they are in a Pod")
	}
	file := filepath.Join(access, layout.AuthoritiesFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificates of the API server's authorities: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read certificates of the API server's authorities: there is none in %s", file)
	}
	return &server{
		address: "https://" + net.JoinHostPort(host, port), tokenFile: filepath.Join(access, layout.TokenFile), log: log,
		client: &http.Client{
			Timeout: attemptTime,
			// No proxy: the API server is in the cluster.
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}},
			// What is uploaded is for nobody else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sleep: time.Sleep, random: rand.Float64,
	}, nil
}

// apply writes a Secret, whether or not it exists. It tries until it succeeds, or the API server refuses, for a while if that may pass.
func (s *server) apply(namespace string, document *secret) error {
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("write Secret as JSON: %w", err)
	}
	address := fmt.Sprintf("%s/api/v1/namespaces/%s/secrets/%s?fieldManager=%s&force=true",
		s.address, url.PathEscape(namespace), url.PathEscape(document.Metadata.Name), url.QueryEscape(layout.FieldManager))
	refused := time.Duration(0)
	for attempt := 0; ; attempt++ {
		err := s.patch(address, body)
		again, ok := errors.AsType[*temporaryError](err)
		if ok && again.refusal != nil && refused >= mostRefused {
			err, ok = again.refusal, false
		}
		if !ok {
			if err != nil {
				return fmt.Errorf("write Secret %s/%s: %w", namespace, document.Metadata.Name, err)
			}
			return nil
		}
		rest := pause(attempt, s.random(), again.after)
		s.log.Warn("cannot upload yet", "secret", document.Metadata.Name, "reason", again.reason, "nextAttemptIn", rest.Round(time.Millisecond))
		s.sleep(rest)
		if again.refusal != nil {
			refused += rest
		}
	}
}

// patch makes one attempt. The error is a *temporaryError if another one may succeed.
func (s *server) patch(address string, body []byte) error {
	token, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPatch, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "pergola-container-helper/"+version)
	response, err := s.client.Do(request)
	if err != nil {
		return &temporaryError{reason: err.Error()}
	}
	defer func() { _ = response.Body.Close() }() // the answer has been read, as far as it matters
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if response.StatusCode/100 == 2 {
		return nil // whatever becomes of the answer, which only repeats what is written
	}
	if err != nil {
		return &temporaryError{reason: err.Error()}
	}
	return judge(response, answer)
}
