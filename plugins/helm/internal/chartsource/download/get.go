package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// StatusError is an answer that is not the content.
type StatusError struct {
	Status int
}

// Error names the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server has answered with status %d (%s)", e.Status, http.StatusText(e.Status))
}

// Validators are how a server knows again what it has sent.
type Validators struct {
	ETag, LastModified string
}

// Get asks for content with GET.
type Get struct {
	URL *url.URL
	// Authorization is the value of the header; empty for none.
	Authorization string
	// Known is what the caller has; zero for nothing.
	Known Validators
}

// Content is what was asked for.
type Content struct {
	// Unchanged says that it is still what the caller has. Then there is nothing else.
	Unchanged bool
	Validators
	// Body is to be closed.
	Body io.ReadCloser
	// Size is what the server has announced; -1 if it has not.
	Size int64
}

// Do sends the request. The error is a *StatusError, one of this package, that of the connection, or the cause of ctx.
func (g Get) Do(ctx context.Context, client *http.Client) (*Content, error) {
	req := (&http.Request{Method: http.MethodGet, URL: g.URL, Host: g.URL.Host, Header: http.Header{}}).WithContext(ctx)
	for name, value := range map[string]string{
		"Authorization": g.Authorization, "If-None-Match": g.Known.ETag, "If-Modified-Since": g.Known.LastModified,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, Bare(err)
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return &Content{
			Validators: Validators{ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")},
			Body:       resp.Body,
			Size:       resp.ContentLength,
		}, nil
	case resp.StatusCode == http.StatusNotModified && g.Known != Validators{}:
		return &Content{Unchanged: true}, resp.Body.Close()
	default:
		return nil, errors.Join(&StatusError{Status: resp.StatusCode}, resp.Body.Close())
	}
}

// AddressError is how net/http tells of a request that had no answer, with the address.
type AddressError = url.Error

// BrokenError is an answer that has broken off.
type BrokenError struct{ Err error }

// Error says why.
func (e *BrokenError) Error() string { return fmt.Sprintf("the answer has broken off: %v", e.Err) }

// Unwrap returns Err.
func (e *BrokenError) Unwrap() error { return e.Err }

// Bare returns an error without what others have added to it, such as net/http the address, which may have a secret in it.
func Bare(err error) error {
	var broken *BrokenError
	var about *AddressError
	switch {
	case errors.As(err, &broken):
		return broken
	case errors.As(err, &about):
		return about.Err
	default:
		return err
	}
}

// Is tells whether an error is one of this package.
func Is(err error) bool {
	for _, ours := range []error{ErrDowngrade, ErrTooManyRedirects, ErrStalled, ErrProtocol, ErrCAData} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return errors.As(err, new(*StatusError)) || errors.As(err, new(*BrokenError))
}
