package chartsource

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/download"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/index"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/keyring"
	"github.com/pergola-deploy/pergola/sdk"
)

// fromRepository gets the archive of a chart in a repository: first the index, then the archive that this names.
func (f *Fetcher) fromRepository(ctx context.Context, o repositoryOrigin, credentials *sdk.Credentials) (*cache.Entry, error) {
	ours := keyring.ForURL(credentials.ChartRepositories, o.url)
	versions, err := f.versions(ctx, o, ours, credentials.ChartRepositories)
	if err != nil {
		return nil, err
	}
	version := versions.Pick(o.wanted)
	if version == nil {
		return nil, fail(ReasonNotFound, "fetch %s: the repository has the chart in %d versions, of which the newest is %s, but in none that fits %q; "+
			"choose another, or publish it", o, len(versions), versions[0].Version, o.version)
	}
	digest, err := digestOf(version.Digest)
	if err != nil {
		return nil, fail(ReasonArchiveInvalid, "fetch %s: the digest that the index has for version %s cannot be right: %w", o, version.Version, err)
	}
	if len(version.URLs) == 0 {
		return nil, fail(ReasonArchiveInvalid, "fetch %s: the index has no address for version %s", o, version.Version)
	}
	return f.firstOf(ctx, o, version, digest, ours, credentials)
}

// firstOf tries the addresses of a version in turn.
func (f *Fetcher) firstOf(ctx context.Context, o repositoryOrigin, version *index.Version, digest string, ours *sdk.ChartRepositoryCredentials,
	credentials *sdk.Credentials,
) (*cache.Entry, error) {
	var failed error
	for _, address := range version.URLs {
		entry, err := f.chartAt(ctx, o, version, address, digest, ours, credentials)
		if err == nil {
			return entry, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		// What may change by itself is told rather than what does not: with it the call is retried.
		if failed == nil || endsJob(failed) && !endsJob(err) {
			failed = err
		}
	}
	return nil, failed
}

func endsJob(err error) bool {
	for _, code := range sdk.Codes(err) {
		if code.Unrecoverable() {
			return true
		}
	}
	return false
}

// chartAt gets the archive of a version from one of its addresses.
func (f *Fetcher) chartAt(ctx context.Context, o repositoryOrigin, version *index.Version, address, digest string, ours *sdk.ChartRepositoryCredentials,
	credentials *sdk.Credentials,
) (*cache.Entry, error) {
	what := chartOf{repository: o, version: version.Version}
	if strings.HasPrefix(address, "oci://") {
		ref, errs := parseRef(address, field.NewPath("urls"))
		inRegistry, ok := ref.(registryOrigin)
		if len(errs) > 0 || !ok {
			return nil, fail(ReasonArchiveInvalid, "fetch %s: the index has an address that is no reference to a chart in an OCI registry", what)
		}
		entry, err := f.fromRegistry(ctx, inRegistry, credentials)
		if err != nil {
			return nil, err
		}
		if err := hasDigest(digest)(what, entry.Digest(), nil); err != nil {
			entry.Release()
			return nil, err
		}
		return entry, nil
	}
	u, err := resolveURL(o.url, address)
	if err != nil {
		return nil, fail(ReasonArchiveInvalid, "fetch %s: the index has an address that is none: %w", what, err)
	}
	what.at = u
	theirs := ours
	if keyring.Origin(u) != keyring.Origin(o.url) {
		theirs = keyring.ForURL(credentials.ChartRepositories, u)
	}
	return f.fileAt(ctx, f.archiveAt(what, u, theirs, credentials.ChartRepositories, digest))
}

// chartOf names a version for people.
type chartOf struct {
	repository repositoryOrigin
	version    string
	at         *url.URL
}

func (c chartOf) String() string {
	named := c.repository
	named.version = c.version
	if c.at == nil {
		return named.String()
	}
	return fmt.Sprintf("%s from %s", named, download.Display(c.at))
}

// indexOf names the index of a repository for people.
type indexOf struct{ url *url.URL }

func (i indexOf) String() string { return "the index of chart repository " + download.Display(i.url) }

// versions returns the versions that the repository has of the chart.
func (f *Fetcher) versions(ctx context.Context, o repositoryOrigin, ours *sdk.ChartRepositoryCredentials, all []sdk.ChartRepositoryCredentials,
) (index.Versions, error) {
	at := place{
		what: indexOf{url: o.url}, url: o.url.JoinPath("index.yaml"), credentials: ours, all: all, kind: "index", limit: f.config.IndexBytes,
		check: func(fmt.Stringer, string, []byte) error { return nil },
	}
	file, err := f.fileAt(ctx, at)
	if err != nil {
		return nil, err
	}
	defer file.Release()
	// What an index says is known by its digest: whoever has got it may know.
	key := file.Digest() + " " + o.name
	if known, ok := f.parsed.Get(key); ok {
		if versions, ok := known.(index.Versions); ok {
			return versions, nil
		}
	}
	versions, err := f.parses.Do(ctx, key, func(ctx context.Context) (index.Versions, error) {
		versions, err := f.parse(ctx, file.Digest(), o.name)
		if err == nil {
			f.parsed.Add(key, versions)
		}
		return versions, err
	})
	switch {
	case errors.Is(err, index.ErrNoChart):
		return nil, fail(ReasonNotFound, "fetch %s: %w; check helmChartName, or publish the chart", o, err)
	case err != nil:
		f.memos.Remove(f.keyAt(at)) // the next call shall see at once that the index has been mended
		return nil, explain(at.what, err)
	}
	return versions, nil
}

// parse reads an index from the cache. It goes by the digest: whoever else waits for it may do so longer than the caller keeps the file.
func (f *Fetcher) parse(ctx context.Context, digest, chart string) (index.Versions, error) {
	select {
	case f.parsing <- struct{}{}:
		defer func() { <-f.parsing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	entry, err := f.cache.Get(digest)
	if err != nil {
		return nil, err
	}
	if entry == nil {
		return nil, errGone
	}
	defer entry.Release()
	content, err := entry.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close() //nolint:errcheck // it was only read
	return index.Find(seekUntilEnd{untilEnd{ctx, content}, content}, chart)
}

// seekUntilEnd is untilEnd for a file.
type seekUntilEnd struct {
	untilEnd
	io.Seeker
}

// errGone says that somebody has removed a file of the cache while it was in use.
var errGone = errors.New("the index is gone from the cache")

// digestOf returns the digest of an index, which is in hex with or without the algorithm in front, as packages cache and sdk have it.
func digestOf(text string) (string, error) {
	const algorithm = "sha256:"
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return "", nil
	}
	sum := strings.TrimPrefix(text, algorithm)
	if decoded, err := hex.DecodeString(sum); err != nil || len(decoded) != 32 {
		return "", errors.New("expected a SHA-256 in hex, but found something else")
	}
	return algorithm + sum, nil
}

// resolveURL returns the address of an archive, which may be relative to that of the repository. As with Helm the query of the repository's
// address, which some authenticate with, goes along with a relative one.
func resolveURL(repository *url.URL, address string) (*url.URL, error) {
	ref, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("it cannot be parsed") // the error would quote it
	}
	u := repository.JoinPath("/").ResolveReference(ref)
	if !ref.IsAbs() && ref.Host == "" && u.RawQuery == "" {
		u.RawQuery = repository.RawQuery
	}
	u, invalid := parseURL(u.String(), nil)
	if invalid != nil {
		return nil, errors.New(invalid.Detail)
	}
	return u, nil
}
