package chartsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/download"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/keyring"
	"github.com/pergola-deploy/pergola/sdk"
)

// fieldOfRepositories is that of the Context which has the credentials for chart repositories.
const fieldOfRepositories = "configurations.helmChartRepoCredentials"

// raw puts an archive of a provider configuration into a file.
func (f *Fetcher) raw(o rawOrigin) (*cache.Entry, error) {
	return f.store(o, bytes.NewReader(o.content), int64(len(o.content)), f.config.ArchiveBytes, isArchive)
}

// place is a file at an address.
type place struct {
	what fmt.Stringer
	url  *url.URL
	// credentials for the address; nil for none. Of all of the call, the authorities count for their servers after a redirect, too.
	credentials *sdk.ChartRepositoryCredentials
	all         []sdk.ChartRepositoryCredentials
	// kind, limit and check are what the file should be.
	kind  string
	limit int64
	check check
	// digest that the file must have; empty for any. A file with a digest does not change.
	digest string
}

// archiveAt is the place of an archive.
func (f *Fetcher) archiveAt(what fmt.Stringer, u *url.URL, credentials *sdk.ChartRepositoryCredentials, all []sdk.ChartRepositoryCredentials, digest string) place {
	return place{
		what: what, url: u, credentials: credentials, all: all, kind: "archive", limit: f.config.ArchiveBytes, check: isArchive, digest: digest,
	}
}

// authorization is the value of the header that is sent to the place; empty for none.
func (at place) authorization() string {
	if at.credentials == nil {
		return ""
	}
	return at.credentials.AuthHeader
}

// trust is how servers are known. Authorities that cannot be read matter only if they are for the place itself.
func (at place) trust() []download.Trust {
	var trust []download.Trust
	add := func(c sdk.ChartRepositoryCredentials) {
		if u, err := url.Parse(c.URL); err == nil && len(c.CAData) > 0 {
			trust = append(trust, download.Trust{Origin: keyring.Origin(u), CAData: c.CAData})
		}
	}
	for _, c := range at.all {
		if download.IsCAData(c.CAData) {
			add(c)
		}
	}
	if at.credentials != nil {
		add(*at.credentials)
	}
	return trust
}

// keyAt is the key of a place. Who trusts other servers may be told other things.
func (f *Fetcher) keyAt(at place) string {
	return f.keyOf(func(h hash.Hash) {
		keyring.HashFields(h, at.authorization())
		for _, t := range at.trust() {
			keyring.HashFields(h, t.Origin, string(t.CAData))
		}
	}, at.kind, at.url.String(), at.digest)
}

// fileAt gets a file from a place.
func (f *Fetcher) fileAt(ctx context.Context, at place) (*cache.Entry, error) {
	a := access{field: fieldOfRepositories, server: at.url.Host, tried: at.authorization() != ""}
	unusable := func(problem string) error {
		a.problems = []string{fmt.Sprintf("those for %s: %s", displayText(at.credentials.URL), problem)}
		return a.refused(at.what)
	}
	if at.credentials != nil && at.credentials.Problem != "" {
		return nil, unusable(at.credentials.Problem)
	}
	client, err := f.http(at.trust()...)
	if err != nil {
		return nil, unusable(err.Error())
	}
	return f.file(ctx, f.keyAt(at), func(ctx context.Context, known memo) (memo, *cache.Entry, error) {
		content, err := download.Get{URL: at.url, Authorization: at.authorization(), Known: known.validators}.Do(ctx, client)
		var status *download.StatusError
		switch {
		case errors.As(err, &status) && isRefusal(status.Status):
			return memo{}, nil, a.refused(at.what)
		case err != nil:
			return memo{}, nil, explain(at.what, err)
		case content.Unchanged:
			return known, nil, nil
		}
		defer content.Body.Close() //nolint:errcheck // it was read to its end, or is not wanted
		entry, err := f.store(at.what, content.Body, content.Size, at.limit, at.check, hasDigest(at.digest))
		if err != nil {
			return memo{}, nil, explain(at.what, err)
		}
		return memo{fixed: at.digest != "", validators: content.Validators}, entry, nil
	})
}

// displayText is an address of the Context for people.
func displayText(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a repository"
	}
	return download.Display(u)
}

// check looks at a file before it is one of the cache, at its digest and its first bytes.
type check func(what fmt.Stringer, digest string, begin []byte) error

// isArchive is the check of archives.
func isArchive(what fmt.Stringer, _ string, begin []byte) error {
	if isGzip(begin) {
		return nil
	}
	return fail(ReasonArchiveInvalid, "fetch %s: expected a gzipped tar, as \"helm package\" makes it, but found %s", what, describeContent(begin))
}

// hasDigest returns a check for a digest; empty for any.
func hasDigest(want string) check {
	return func(what fmt.Stringer, found string, _ []byte) error {
		if want == "" || found == want {
			return nil
		}
		return fail(ReasonDigestMismatch, "fetch %s: expected the digest %s, but found %s; the archive was replaced or spoiled after it was published, "+
			"publish it again", what, want, found)
	}
}

// store reads a file into the cache. announced is how large it is said to be; -1 if that is not known.
func (f *Fetcher) store(what fmt.Stringer, from io.Reader, announced, limit int64, checks ...check) (*cache.Entry, error) {
	if announced > limit {
		return nil, &cache.TooLargeError{Limit: limit}
	}
	w, err := f.cache.Create(limit)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	var h head
	if _, err := io.Copy(io.MultiWriter(w, &h), from); err != nil {
		return nil, err
	}
	for _, check := range checks {
		if err := check(what, w.Digest(), h.begin); err != nil {
			return nil, err
		}
	}
	return w.Commit()
}
