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
	"strconv"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

const (
	// attemptTime bounds one attempt.
	attemptTime = time.Minute
	// maxRetryAfter bounds the effect of the header Retry-After.
	maxRetryAfter = time.Minute
	firstPause    = 500 * time.Millisecond
	maxPause      = 30 * time.Second
	// maxForbidden is the time for new attempts at a forbidden request. The Pod has less than five minutes left after
	// the end of main.
	maxForbidden = time.Minute

	// reachTime bounds one attempt to reach the API server, and maxUnreachable the sum of the pauses between them: with
	// a job of less than a minute, the Pod has even less.
	reachTime      = 5 * time.Second
	maxUnreachable = 15 * time.Second
)

// errUnreachable is the error of a Pod without a way to the API server.
var errUnreachable = errors.New("the API server cannot be reached")

// server sends the uploads to the API server.
type server struct {
	// address has the scheme, the host and the port.
	address string
	// tokenFile may be replaced at any time.
	tokenFile string
	tls       *tls.Config
	client    *http.Client
	log       *slog.Logger

	// sleep and random come from the standard library, except in tests.
	sleep  func(time.Duration)
	random func() float64
}

// connect finds the address of the API server and the certificates of its authorities. It makes no connection yet.
func connect(access string, log *slog.Logger) (*server, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("find the API server: " +
			"KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set, as they are in a Pod")
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
	config := &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return &server{
		address:   "https://" + net.JoinHostPort(host, port),
		tokenFile: filepath.Join(access, layout.TokenFile), tls: config, log: log,
		client: &http.Client{
			Timeout: attemptTime,
			// No proxy: the API server is in the cluster.
			Transport: &http.Transport{TLSClientConfig: config},
			// The uploads are for no other server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sleep: time.Sleep, random: rand.Float64,
	}, nil
}

// reach finds out whether the API server can be reached. It makes no request.
func (s *server) reach() error {
	rested := time.Duration(0)
	for attempt := 0; ; attempt++ {
		err := s.shakeHands()
		if err == nil {
			return nil
		}
		if rested >= maxUnreachable {
			return fmt.Errorf("%w at %s: %w", errUnreachable, s.address, err)
		}
		rest := pause(attempt, s.random(), 0)
		s.log.Warn("cannot reach the API server yet", "reason", err, "nextAttemptIn", rest.Round(time.Millisecond))
		s.sleep(rest)
		rested += rest
	}
}

// shakeHands makes a connection and closes it.
func (s *server) shakeHands() error {
	ctx, cancel := context.WithTimeout(context.Background(), reachTime)
	defer cancel()
	dialer := tls.Dialer{Config: s.tls}
	connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(s.address, "https://"))
	if err != nil {
		return err
	}
	_ = connection.Close() // it was not used
	return nil
}

// temporaryError is the reason of a failed attempt if another one may succeed.
type temporaryError struct {
	reason string
	// after is the wish of the API server in the header Retry-After.
	after time.Duration
	// forbidden: new attempts are made for maxForbidden only.
	forbidden bool
}

func (e *temporaryError) Error() string { return e.reason }

// apply creates a Secret or replaces its fields. It tries until it succeeds, or the API server refuses.
func (s *server) apply(namespace string, document *secret) error {
	name := document.Metadata.Name
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("write Secret as JSON: %w", err)
	}
	address := fmt.Sprintf("%s/api/v1/namespaces/%s/secrets/%s?fieldManager=%s&force=true",
		s.address, url.PathEscape(namespace), url.PathEscape(name), url.QueryEscape(layout.FieldManager))
	forbidden := time.Duration(0)
	for attempt := 0; ; attempt++ {
		err := s.patch(address, body)
		if err == nil {
			return nil
		}
		temporary, ok := errors.AsType[*temporaryError](err)
		if !ok || temporary.forbidden && forbidden >= maxForbidden {
			return fmt.Errorf("write Secret %s/%s: %w", namespace, name, err)
		}
		rest := pause(attempt, s.random(), temporary.after)
		s.log.Warn("cannot upload yet", "secret", name, "reason", temporary.reason,
			"nextAttemptIn", rest.Round(time.Millisecond))
		s.sleep(rest)
		if temporary.forbidden {
			forbidden += rest
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
		return nil // the body only repeats the Secret
	}
	if err != nil {
		return &temporaryError{reason: err.Error()}
	}
	return explain(response, answer)
}

// explain returns an unsuccessful answer as an error. A forbidden request may be allowed soon: the run's Role may not
// have reached each of several API servers yet, and a quota has room again after a deletion.
func explain(response *http.Response, answer []byte) error {
	found := fmt.Sprintf("the API server answers %d (%s)", response.StatusCode, http.StatusText(response.StatusCode))
	after := retryAfter(response.Header.Get("Retry-After"))
	switch code := response.StatusCode; {
	case code >= 500,
		code == http.StatusUnauthorized, // the token is being replaced
		code == http.StatusRequestTimeout,
		code == http.StatusConflict, // a quota is counted, or the Secret written, at the same time
		code == http.StatusTooManyRequests:
		return &temporaryError{reason: found, after: after}
	case code == http.StatusForbidden:
		return &temporaryError{after: after, forbidden: true, reason: found + because(answer) +
			"; allow the run's ServiceAccount to create and patch it, and look for a quota or policy against it"}
	case code == http.StatusNotFound:
		return errors.New(found + "; create its namespace again")
	case code == http.StatusRequestEntityTooLarge:
		return errors.New(found + "; have the image keep and export less")
	default:
		return errors.New(found + "; ask the operator to look for it in the API server's log")
	}
}

// because returns the API server's message about a forbidden request, in one line. Such a message speaks only of
// names and rights; others may quote the Secret.
func because(answer []byte) string {
	const enough = 500
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &status) != nil || status.Message == "" {
		return ""
	}
	text := strings.Join(strings.Fields(status.Message), " ")
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "..."
	}
	return ": " + text
}

// retryAfter reads the header; the API server writes it in seconds.
func retryAfter(header string) time.Duration {
	seconds, err := strconv.Atoi(header)
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
}

// pause returns the time to wait after an attempt, counted from 0. It doubles each time, and luck (from 0 to 1)
// shortens it by up to half, to spread the attempts of many Pods. It is never shorter than the API server's wish.
func pause(attempt int, luck float64, after time.Duration) time.Duration {
	longest := min(firstPause<<min(attempt, 10), maxPause)
	return max(longest-time.Duration(luck*float64(longest/2)), after)
}
