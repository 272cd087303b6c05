package helm3

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// transport sends requests during its context, with its values, and ends those under way with it: Helm's have no
// context.
type transport struct {
	ctx  context.Context // that of an operation
	next http.RoundTripper
	// warn gets the warnings of the API server.
	warn func(about, text string)
}

// RoundTrip sends a request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.ctx.Err(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was sent, and its own error is returned
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(joined{Context: r.Context(), values: t.ctx})
	stop := context.AfterFunc(t.ctx, cancel) //nolint:contextcheck // Helm's requests do not inherit it
	release := sync.OnceFunc(func() { stop(); cancel() })
	ctx = apiserver.WithWarnings(ctx, func(text string) { t.warn(apiserver.Describe(r), text) })
	res, err := t.next.RoundTrip(r.WithContext(ctx)) //nolint:contextcheck // joined has the request's context
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

// joined is the context of a request, with the values of that of its operation.
type joined struct {
	context.Context //nolint:containedctx // a context itself

	values context.Context //nolint:containedctx // a context itself
}

// Value implements context.Context.
func (j joined) Value(key any) any {
	if value := j.Context.Value(key); value != nil {
		return value
	}
	return j.values.Value(key)
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
