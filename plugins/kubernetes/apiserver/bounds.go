package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/pergola-deploy/pergola/sdk/httperror"
)

const (
	// maxBody bounds the body of an answer in bytes, but not that of a watch: the client bounds its events. Lists come
	// in pages.
	maxBody = 64 << 20
	// bodyTime is the time for the rest of an answer, as a multiple of that for its beginning.
	bodyTime = 2
	// maxClientPause is the longest pause before another try by the client itself.
	maxClientPause = time.Second
)

// bounded bounds the time and the size of answers. For an answer with a longer pause it returns a *BusyError: client-go
// would sleep in the call for all of the pause.
//
// In a context of WithBreaker each further request fails at once after an unanswered one.
type bounded struct {
	next   http.RoundTripper
	answer time.Duration // until an answer begins
}

// RoundTrip implements http.RoundTripper.
func (t *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	breaker, _ := req.Context().Value(breakerKey{}).(*breaker)
	if err := breaker.tripped(req.URL.Host); err != nil {
		closeBody(req)
		return nil, err
	}
	note := func(err error) {
		var busy *BusyError
		var late net.Error
		if errors.As(err, &busy) || req.Context().Err() == nil && errors.As(err, &late) && late.Timeout() {
			breaker.trip(req.URL.Host, err)
		}
	}
	res, err := t.send(req, note)
	note(err)
	return res, err
}

// send returns an answer whose body calls note with an error of its reader.
func (t *bounded) send(req *http.Request, note func(error)) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	late := time.AfterFunc(t.answer, func() { cancel(LateError{t.answer}) })
	res, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		late.Stop()
		err = causeOf(ctx, err)
		cancel(nil)
		return nil, err
	}
	if pause := pauseOf(res); pause > maxClientPause {
		late.Stop()
		cancel(nil)
		_ = res.Body.Close() // its content is unused
		return nil, &BusyError{After: pause, Code: res.StatusCode}
	}
	body := &boundedBody{
		ReadCloser: res.Body, ctx: ctx, left: maxBody, note: note, end: func() { late.Stop(); cancel(nil) },
	}
	if req.URL.Query().Get("watch") == "true" {
		late.Stop()
		body.left = -1
	} else {
		late.Reset(bodyTime * t.answer)
	}
	res.Body = body
	return res, nil
}

// causeOf returns the reason for the end of a request: a late answer, or else the error of the transport.
func causeOf(ctx context.Context, err error) error {
	if late := (LateError{}); errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}

// pauseOf returns the pause an answer asks for before the next request; zero for none. Proxies send a time, which
// client-go does not know.
func pauseOf(res *http.Response) time.Duration {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode < http.StatusInternalServerError {
		return 0
	}
	return httperror.RetryAfter(res)
}

// boundedBody is the body of an answer.
type boundedBody struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // of the request; the body ends with it
	left int64           // bytes; negative for any number
	note func(error)
	end  func()
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("the answer of the target is larger than %d MiB", maxBody>>20)
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil {
		// Also for io.EOF: a server may end its answer properly, but too early, once it sees that the client gives up.
		err = causeOf(b.ctx, err)
		b.note(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
