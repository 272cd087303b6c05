package fetch

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/url"

	"github.com/pergola-deploy/pergola/sdk"
)

// fieldOfRepositories is the field of a Context with the credentials for addresses.
const fieldOfRepositories = "configurations.helmChartRepoCredentials"

// Address is content at an address of http or https.
type Address struct {
	URL *url.URL
	// Own are the credentials for the address; nil for none. All are those of the call: their authorities count for
	// their servers, also after a redirect.
	Own *sdk.ChartRepositoryCredentials
	All []sdk.ChartRepositoryCredentials
	// Digest of the content; empty for any. Content with a digest does not change.
	Digest string
	// Limit bounds the content, in bytes. Check verifies it; nil for none. Addresses with the same URL, credentials and
	// Digest have the same Check and Limit, or another Use.
	Limit int64
	Check Check
	Use   string
}

// FromAddress returns the content at an address, to be released, as File does. A repeated request has the validators
// of the last answer. The error is an *Error, one of net/http, or the cause of ctx.
func (f *Fetcher) FromAddress(ctx context.Context, at Address) (*File, error) {
	own := sdk.ChartRepositoryCredentials{}
	if at.Own != nil {
		own = *at.Own
	}
	if own.Problem == "" && len(own.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(own.CAData) {
		own.Problem = errCAData.Error()
	}
	a := access{field: fieldOfRepositories, server: at.URL.Host, tried: own.AuthHeader != ""}
	if own.Problem != "" {
		a.problems = []string{own.Problem}
		return nil, a.refused()
	}
	// With trust in other servers there may be another answer.
	key := []any{"address", at.Use, at.URL.String(), at.Digest, own.AuthHeader}
	for _, c := range at.All {
		if len(c.CAData) > 0 {
			key = append(key, c.URL, c.CAData)
		}
	}
	return f.File(ctx, KeyOf(key...), func(ctx context.Context, known Memo) (Memo, *File, error) {
		answer, err := f.get(ctx, at, own, known)
		if err != nil {
			return Memo{}, nil, err
		}
		defer answer.Body.Close() //nolint:errcheck // it was read to its end, or is not wanted
		switch status := answer.StatusCode; {
		case status == http.StatusOK:
		case status == http.StatusNotModified && known.etag+known.modified != "":
			return known, nil, nil
		case isRefusal(status):
			return Memo{}, nil, a.refused()
		case status == http.StatusNotFound, status == http.StatusGone:
			return Memo{}, nil, Errorf(NotFound, "there is nothing at this address: status %d (%s); check the "+
				"address, or publish the chart", status, http.StatusText(status))
		default:
			return Memo{}, nil, statusError("server", status)
		}
		found, err := f.cache.store(bodyOf(answer.Body), at.Limit, at.Check, HasDigest(at.Digest))
		return Memo{
			Fixed: at.Digest != "", etag: answer.Header.Get("ETag"), modified: answer.Header.Get("Last-Modified"),
		}, found, err
	})
}

// get sends a request for an address. The caller closes the body of the answer.
func (f *Fetcher) get(
	ctx context.Context, at Address, own sdk.ChartRepositoryCredentials, known Memo,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Authorization": own.AuthHeader, "User-Agent": f.config.UserAgent,
		"If-None-Match": known.etag, "If-Modified-Since": known.modified,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return f.router.trusting(own, at.All).client().Do(req)
}
