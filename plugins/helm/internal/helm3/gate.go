package helm3

import (
	"bytes"
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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// gate lets requests to the server through as long as its context lasts, and ends those that are under way with it. Helm's requests have no
// context.
type gate struct {
	ctx    context.Context // that of an operation
	server *url.URL
	next   http.RoundTripper
	slots  chan struct{}
	note   func(error)
}

// RoundTrip sends a request. It keeps what the API server refuses, and takes the values of Secrets out of it.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.ctx.Err(); err != nil {
		closeBody(r)
		return nil, err
	}
	if err := target.CheckServer(r, g.server); err != nil {
		closeBody(r)
		g.note(err)
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(g.ctx, cancel) //nolint:contextcheck // requests of Helm do not inherit that of the operation
	release := sync.OnceFunc(func() { stop(); cancel() })
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		release()
		closeBody(r)
		return nil, g.ended(ctx.Err())
	}
	res, err := g.next.RoundTrip(r.WithContext(ctx))
	<-g.slots
	if err != nil {
		release()
		err = g.ended(err)
		g.note(err)
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		if err := g.refused(r, res); err != nil {
			release()
			return nil, g.ended(err)
		}
	}
	res.Body = &body{ReadCloser: res.Body, release: release}
	return res, nil
}

// closeBody closes the body of a request that is not sent, as a RoundTripper has to.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was sent; the error of that is returned
	}
}

// ended returns the error of the context if that is why a request has failed.
func (g *gate) ended(err error) error {
	if g.ctx.Err() != nil {
		return g.ctx.Err()
	}
	return err
}

// refused reads an answer that is an error.
func (g *gate) refused(r *http.Request, res *http.Response) error {
	const longest = 1 << 20
	content, err := io.ReadAll(io.LimitReader(res.Body, longest))
	_ = res.Body.Close()
	if err != nil {
		return fmt.Errorf("read the answer of the target cluster: %w", err)
	}
	status := metav1.Status{}
	if json.Unmarshal(content, &status) == nil && status.Status == metav1.StatusFailure {
		if strings.Contains(r.URL.Path+"/", "/secrets/") && mayQuote(status) {
			status.Message = fmt.Sprintf("the API server cannot accept Secret %q; what it says is left out, because it may quote values: "+
				"all of data must be base64 and all of stringData text, so that numbers and booleans need quotes", secretOf(r, status))
			status.Details = nil
			if content, err = rewrite(res, status); err != nil {
				return err
			}
		} else if name := namelessObject(r, status); name != "" {
			status.Message = name + ": " + status.Message
			if content, err = rewrite(res, status); err != nil {
				return err
			}
		}
		// Helm asks for objects to see whether they exist.
		if r.Method != http.MethodGet || res.StatusCode != http.StatusNotFound {
			g.note(&apierrors.StatusError{ErrStatus: status})
		}
	}
	res.Body = io.NopCloser(bytes.NewReader(content))
	return nil
}

// rewrite makes a status the answer, of which it returns the content.
func rewrite(res *http.Response, status metav1.Status) ([]byte, error) {
	content, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	res.ContentLength = int64(len(content))
	res.Header.Set("Content-Length", fmt.Sprint(len(content)))
	return content, nil
}

// namelessObject returns kind and name of an object that the API server could not read, such as one with a number for a text. It says
// nothing of which one it was; empty if it does.
func namelessObject(r *http.Request, s metav1.Status) string {
	if s.Reason != metav1.StatusReasonBadRequest {
		return ""
	}
	o := sent(r)
	if o.Name == "" || strings.Contains(s.Message, strconv.Quote(o.Name)) {
		return ""
	}
	return fmt.Sprintf("%s %q", o.Kind, o.Name)
}

// mayQuote tells whether an error about a Secret may repeat what was sent, as in package apply. Reasons that are not about the content do
// not, and neither do the findings of a validation: they have the kind, while an error about reading the request has not.
func mayQuote(s metav1.Status) bool {
	switch s.Reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonGone, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonRequestEntityTooLarge:
		return false
	case metav1.StatusReasonInvalid:
		return s.Details == nil || s.Details.Kind != "Secret"
	default:
		return true
	}
}

func secretOf(r *http.Request, s metav1.Status) string {
	if s.Details != nil && s.Details.Name != "" {
		return s.Details.Name
	}
	if name := path.Base(r.URL.Path); name != "secrets" {
		return name
	}
	return sent(r).Name // a new one
}

// sent returns the head of the object that a request has sent; an empty one if it has sent none.
func sent(r *http.Request) metav1.PartialObjectMetadata {
	var o metav1.PartialObjectMetadata
	if r.GetBody == nil {
		return o
	}
	content, err := r.GetBody()
	if err != nil {
		return o
	}
	defer func() { _ = content.Close() }() // it is in memory
	if err := json.NewDecoder(content).Decode(&o); err != nil {
		return metav1.PartialObjectMetadata{}
	}
	return o
}

// body ends the context of a request when its answer is read.
type body struct {
	io.ReadCloser

	release func()
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
