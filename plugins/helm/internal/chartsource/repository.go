package chartsource

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/pergola-deploy/pergola/sdk"
)

// fieldOfRepositories is that of the Context which has the credentials for chart repositories.
const fieldOfRepositories = "configurations.helmChartRepoCredentials"

// place is a file at an address.
type place struct {
	what string
	url  *url.URL
	// own are the credentials for the address; nil for none. Of all of the call, the authorities count for their
	// servers after a redirect, too.
	own *sdk.ChartRepositoryCredentials
	all []sdk.ChartRepositoryCredentials
	// isIndex says that it is the index of a repository, and not an archive, which has a digest; empty for any.
	isIndex bool
	digest  string
}

// fileAt gets a file from a place.
func (f *Fetcher) fileAt(ctx context.Context, at place) (*file, error) {
	own := sdk.ChartRepositoryCredentials{}
	if at.own != nil {
		own = *at.own
	}
	if own.Problem == "" && len(own.CAData) > 0 && !x509.NewCertPool().AppendCertsFromPEM(own.CAData) {
		own.Problem = errCAData.Error()
	}
	a := access{field: fieldOfRepositories, server: at.url.Host, tried: own.AuthHeader != ""}
	if own.Problem != "" {
		a.problems = []string{own.Problem}
		return nil, about(at.what, a.refused())
	}
	// Who trusts other servers may be told other things.
	key := []any{at.isIndex, at.url.String(), at.digest, own.AuthHeader}
	for _, c := range at.all {
		if len(c.CAData) > 0 {
			key = append(key, c.URL, c.CAData)
		}
	}
	limit, checks := f.config.ArchiveBytes, []check{isArchive, hasDigest(at.digest)}
	if at.isIndex {
		limit, checks = f.config.IndexBytes, nil
	}
	found, err := f.file(ctx, keyOf(key...), func(ctx context.Context, known memo) (memo, *file, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url.String(), nil)
		if err != nil {
			return memo{}, nil, err
		}
		for name, value := range map[string]string{
			"Authorization": own.AuthHeader, "User-Agent": f.config.UserAgent,
			"If-None-Match": known.etag, "If-Modified-Since": known.modified,
		} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		answer, err := f.router.trusting(own, at.all).client().Do(req)
		if err != nil {
			return memo{}, nil, err
		}
		defer answer.Body.Close() //nolint:errcheck // it was read to its end, or is not wanted
		switch status := answer.StatusCode; {
		case status == http.StatusOK:
		case status == http.StatusNotModified && known.etag+known.modified != "":
			return known, nil, nil
		case isRefusal(status):
			return memo{}, nil, a.refused()
		case status == http.StatusNotFound, status == http.StatusGone:
			return memo{}, nil, faultf(ReasonNotFound, "there is nothing at this address: the server has answered with "+
				"status %d (%s); check the address, or publish the chart", status, http.StatusText(status))
		default:
			return memo{}, nil, statusFault("server", status)
		}
		found, err := f.cache.store(bodyOf(answer.Body), limit, checks...)
		// A file with a digest does not change.
		return memo{
			fixed: at.digest != "", etag: answer.Header.Get("ETag"), modified: answer.Header.Get("Last-Modified"),
		}, found, err
	})
	if err != nil {
		return nil, about(at.what, err)
	}
	return found, nil
}

// fromRepository gets the archive of a chart in a repository: first the index, then the archive that this names.
func (f *Fetcher) fromRepository(ctx context.Context, o repositoryOrigin, credentials *sdk.Credentials) (*file, error) {
	all := credentials.ChartRepositories
	own := credentialsFor(all, o.url)
	index := place{
		what: "the index of chart repository " + display(o.url), url: o.url.JoinPath("index.yaml"),
		own: own, all: all, isIndex: true,
	}
	versions, err := f.versions(ctx, index, o.name)
	if err != nil {
		return nil, err
	}
	v := versions.pick(o.version, o.constraint)
	if v == nil {
		return nil, faultf(ReasonNotFound, "the repository has the chart in %d versions, of which the newest is %s, "+
			"but in none that fits %q; choose another, or publish it", len(versions), versions[0].Version, o.version)
	}
	digest, err := normalizeDigest(v.Digest)
	if err != nil {
		return nil, faultf(ReasonArchiveInvalid, "the digest that the index has for version %s cannot be right: %w",
			v.Version, err)
	}
	o.version = v.Version
	failed := faultf(ReasonArchiveInvalid, "the index has no address for version %s", v.Version)
	for i, address := range v.URLs {
		var archive *file
		at := place{own: own, all: all, digest: digest}
		if ref, ok := strings.CutPrefix(address, "oci://"); ok {
			archive, err = f.versionInRegistry(ctx, ref, digest, credentials)
		} else if at.url, err = resolveURL(o.url, address); err == nil {
			if serverOf(at.url) != serverOf(o.url) {
				at.own = credentialsFor(all, at.url)
			}
			at.what = fmt.Sprintf("%s from %s", o, display(at.url))
			archive, err = f.fileAt(ctx, at)
		}
		if err == nil {
			return archive, nil
		}
		err = about(o.String(), err)
		if ctx.Err() != nil {
			return nil, err
		}
		// What may change by itself is reported rather than what does not: with it the call is retried.
		if i == 0 || endsJob(failed) && !endsJob(err) {
			failed = err
		}
	}
	return nil, failed
}

// versionInRegistry gets the archive of a version that the index says to be in a registry.
func (f *Fetcher) versionInRegistry(
	ctx context.Context, address, digest string, credentials *sdk.Credentials,
) (*file, error) {
	ref, errs := parseRef(address, nil)
	o, ok := ref.(registryOrigin)
	if len(errs) > 0 || !ok {
		return nil, faultf(ReasonArchiveInvalid, "the index has an address that is no reference to a chart in a registry")
	}
	archive, err := f.fromRegistry(ctx, o, credentials)
	if err != nil {
		return nil, err
	}
	if err := hasDigest(digest)(archive.digest, nil); err != nil {
		f.cache.release(archive, 1)
		return nil, err
	}
	return archive, nil
}

func endsJob(err error) bool {
	for _, code := range sdk.Codes(err) {
		if code.Unrecoverable() {
			return true
		}
	}
	return false
}

// versions returns the versions that an index has of a chart.
func (f *Fetcher) versions(ctx context.Context, at place, chart string) (versions, error) {
	index, err := f.fileAt(ctx, at)
	if err != nil {
		return nil, err
	}
	defer f.cache.release(index, 1)
	select {
	case f.parsing <- struct{}{}:
		defer func() { <-f.parsing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	document, err := os.ReadFile(index.path)
	if err != nil {
		return nil, about(at.what, f.cache.failed("read", err))
	}
	found, err := parseIndex(document, chart)
	switch {
	case err != nil:
		return nil, about(at.what, faultf(ReasonArchiveInvalid,
			"its index.yaml cannot be read: %w; check that helmChartRepoUrl is the address of a chart repository", err))
	case len(found) == 0:
		return nil, faultf(ReasonNotFound, "the repository has no chart of this name; check helmChartName, or publish it")
	}
	return found, nil
}

// isArchive is the check of archives.
func isArchive(_ string, begin []byte) error {
	if isGzip(begin) {
		return nil
	}
	return faultf(ReasonArchiveInvalid, `expected a gzipped tar, as "helm package" makes it, but found %s`,
		describeContent(begin))
}

// hasDigest returns a check for a digest; empty for any.
func hasDigest(want string) check {
	return func(found string, _ []byte) error {
		if want == "" || found == want {
			return nil
		}
		return faultf(ReasonDigestMismatch, "expected the digest %s, but found %s; the archive was replaced or spoiled "+
			"after it was published, publish it again", want, found)
	}
}

// sniffed is how many bytes tell what a file is.
const sniffed = 512

// isGzip tells by its first bytes whether a file is one of gzip, with the one method of compression that there is.
func isGzip(begin []byte) bool { return bytes.HasPrefix(begin, []byte{0x1f, 0x8b, 0x08}) }

// describeContent says what a file seems to be, without repeating any of it.
func describeContent(begin []byte) string {
	if len(begin) == 0 {
		return "nothing"
	}
	kind, _, _ := strings.Cut(http.DetectContentType(begin), ";")
	if kind == "application/octet-stream" {
		return "something unknown"
	}
	return kind
}

// normalizeDigest returns the digest of an index, which is in hex with or without the algorithm in front, as sdk has
// it.
func normalizeDigest(text string) (string, error) {
	sum := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), algorithm)
	if sum == "" {
		return "", nil
	}
	if decoded, err := hex.DecodeString(sum); err != nil || len(decoded) != 32 {
		return "", errors.New("expected a SHA-256 in hex, but found something else")
	}
	return algorithm + sum, nil
}

// resolveURL returns the address of an archive, which may be relative to that of the repository. As with Helm the
// query of the repository's address, which some authenticate with, goes along with a relative one.
func resolveURL(repository *url.URL, address string) (*url.URL, error) {
	ref, err := url.Parse(address)
	if err != nil {
		return nil, faultf(ReasonArchiveInvalid, "the index has an address that cannot be parsed") // err would quote it
	}
	u := repository.JoinPath("/").ResolveReference(ref)
	if !ref.IsAbs() && ref.Host == "" && u.RawQuery == "" {
		u.RawQuery = repository.RawQuery
	}
	u, invalid := parseURL(u.String(), nil)
	if invalid != nil {
		return nil, faultf(ReasonArchiveInvalid, "the index has an address that is none: %s", invalid.Detail)
	}
	return u, nil
}
