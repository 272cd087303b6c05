package helm3

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// transport sends requests to the server during its context, and ends those under way with it: Helm's have no context.
type transport struct {
	ctx    context.Context // that of an operation
	server *url.URL
	next   http.RoundTripper
	// hide removes secret values from the texts of API servers.
	hide func(string) string
	// warn gets the warnings of the API server.
	warn func(about, text string)
}

// RoundTrip sends a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(target.WithBreakerOf(r.Context(), t.ctx))
	stop := context.AfterFunc(t.ctx, cancel) //nolint:contextcheck // Helm's requests do not inherit it
	release := sync.OnceFunc(func() { stop(); cancel() })
	ctx = target.WithWarnings(target.WithHidden(ctx, t.hide), func(text string) { t.warn(described(r), text) })
	res, err := t.send(r.WithContext(ctx))
	if err != nil {
		release()
		if t.ctx.Err() != nil {
			return nil, t.ctx.Err()
		}
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, release: release}
	return res, nil
}

func (t *transport) send(r *http.Request) (*http.Response, error) {
	err := t.ctx.Err()
	if err == nil {
		err = target.CheckServer(r, t.server)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was sent, and its own error is returned
		}
		return nil, err
	}
	res, err := t.next.RoundTrip(r)
	if err != nil || res.StatusCode < http.StatusBadRequest {
		return res, err
	}
	return res, t.noteRefusal(r, res)
}

// noteRefusal reads an error of the server, bounded by target.WithoutQuotes. It adds the name of the object where the
// API server leaves it out.
func (t *transport) noteRefusal(r *http.Request, res *http.Response) error {
	content, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it was read
	if err != nil {
		return fmt.Errorf("read the answer of the target cluster: %w", err)
	}
	status := metav1.Status{}
	if json.Unmarshal(content, &status) == nil && status.Status == metav1.StatusFailure {
		name := subject(r)
		if status.Reason == metav1.StatusReasonBadRequest && !strings.Contains(status.Message, strconv.Quote(name)) {
			status.Message = fmt.Sprintf("%q: %s", name, status.Message)
		}
		if content, err = json.Marshal(status); err != nil {
			return fmt.Errorf("write the answer of the target cluster: %w", err)
		}
	}
	res.ContentLength = int64(len(content))
	res.Header.Set("Content-Length", strconv.Itoa(len(content)))
	res.Body = io.NopCloser(bytes.NewReader(content))
	return nil
}

// subject returns the name of a request's object: at the end of the path, or for a new one in the body.
func subject(r *http.Request) string {
	var sent metav1.PartialObjectMetadata
	if r.Method == http.MethodPost && r.GetBody != nil {
		if content, err := r.GetBody(); err == nil {
			_ = json.NewDecoder(content).Decode(&sent) // without a name the error is the server's own
			_ = content.Close()                        // it is in memory
		}
	}
	return cmp.Or(sent.Name, path.Base(r.URL.Path))
}

// described returns the resource and name of a request's object, for messages.
func described(r *http.Request) string {
	resource := path.Base(r.URL.Path)
	if r.Method != http.MethodPost {
		resource = path.Base(path.Dir(r.URL.Path))
	}
	return fmt.Sprintf("%s %q", resource, subject(r))
}

// body ends the context of a request at the end of its answer.
type body struct {
	io.ReadCloser

	release func()
}

// Close closes the answer.
func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
