package chartsource

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

// fromRepository gets the archive of a chart in a repository: first the index, then an archive at an address in it.
func (f *Fetcher) fromRepository(
	ctx context.Context, o repositoryOrigin, credentials *sdk.Credentials,
) (*fetch.File, error) {
	all := credentials.ChartRepositories
	own := fetch.CredentialsFor(all, o.url)
	index := fetch.Address{
		URL: o.url.JoinPath("index.yaml"), Own: own, All: all, Limit: f.config.IndexBytes, Use: "index",
	}
	v, err := f.lookUp(ctx, index, o)
	if err != nil {
		return nil, err
	}
	digest, err := normalizeDigest(v.Digest)
	if err != nil {
		return nil, fetch.Errorf(fetch.Invalid, "the index has an invalid digest for version %s: %w", v.Version, err)
	}
	o.version = v.Version
	failed := fetch.Errorf(fetch.Invalid, "the index has no address for version %s", v.Version)
	for i, address := range v.URLs {
		var archive *fetch.File
		at := fetch.Address{Own: own, All: all, Digest: digest, Limit: f.config.ArchiveBytes, Check: isArchive}
		if ref, ok := strings.CutPrefix(address, "oci://"); ok {
			archive, err = f.versionInRegistry(ctx, ref, digest, credentials)
		} else if at.URL, err = resolveURL(o.url, address); err == nil {
			if fetch.ServerOf(at.URL) != fetch.ServerOf(o.url) {
				at.Own = fetch.CredentialsFor(all, at.URL)
			}
			archive, err = f.files.FromAddress(ctx, at)
			err = about(fmt.Sprintf("%s from %s", o, fetch.Display(at.URL)), err)
		}
		if err == nil {
			return archive, nil
		}
		err = about(o.String(), err)
		if ctx.Err() != nil {
			return nil, err
		}
		// A retry may help against some errors; these are reported rather than the others, to have the call retried.
		if i == 0 || endsJob(failed) && !endsJob(err) {
			failed = err
		}
	}
	return nil, failed
}

// versionInRegistry gets the archive of a version in a registry, according to the index.
func (f *Fetcher) versionInRegistry(
	ctx context.Context, address, digest string, credentials *sdk.Credentials,
) (*fetch.File, error) {
	ref, errs := parseRef(address, nil)
	o, ok := ref.(registryOrigin)
	if len(errs) > 0 || !ok {
		return nil, fetch.Errorf(fetch.Invalid, "the index has an invalid reference to a chart in a registry")
	}
	archive, err := f.components.Artifact(ctx, o.ref, credentials.Registries, f.want())
	if err != nil {
		return nil, about(o.String(), err)
	}
	if err := fetch.HasDigest(digest)(archive.Digest, nil); err != nil {
		archive.Release()
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

// maxListedBytes bounds a helm.Listed as JSON.
const maxListedBytes = 1 << 20

// lookUp returns the wanted version of a chart. A worker reads the index, once for all jobs with the same wish.
func (f *Fetcher) lookUp(ctx context.Context, at fetch.Address, o repositoryOrigin) (*helm.ChartVersion, error) {
	what := "the index of chart repository " + fetch.Display(o.url)
	index, err := f.files.FromAddress(ctx, at)
	if err != nil {
		return nil, about(what, err)
	}
	defer index.Release()
	key := fetch.KeyOf("listed", index.Digest, o.name, o.version)
	file, err := f.files.File(ctx, key, func(ctx context.Context, _ fetch.Memo) (fetch.Memo, *fetch.File, error) {
		result, err := f.config.Helm.Run(ctx, &helm.Request{
			Action: helm.Index, Chart: helm.Chart{Path: index.Path},
			Wanted: helm.Wanted{Name: o.name, Version: o.version}, Limits: f.config.Limits,
		}, silent{})
		if err != nil {
			return fetch.Memo{}, nil, aboutIndex(err)
		}
		document, err := json.Marshal(result.Listed)
		if err != nil {
			return fetch.Memo{}, nil, err
		}
		file, err := f.files.Store(bytes.NewReader(document), maxListedBytes)
		return fetch.Memo{Fixed: true}, file, err
	})
	if err != nil {
		return nil, about(what, err)
	}
	defer file.Release()
	document, err := os.ReadFile(file.Path)
	var listed helm.Listed
	if err == nil {
		err = json.Unmarshal(document, &listed)
	}
	switch {
	case err != nil:
		return nil, about(what, fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err))
	case listed.Versions == 0:
		return nil, fetch.Errorf(fetch.NotFound,
			"the repository has no chart of this name; check helmChartName, or publish it")
	case listed.Found == nil:
		return nil, fetch.Errorf(fetch.NotFound, "the repository has %d versions of the chart, the newest %s, but none "+
			"for %q; choose another, or publish it", listed.Versions, listed.Newest, o.version)
	}
	return listed.Found, nil
}

// aboutIndex explains an error of the worker with the index.
func aboutIndex(err error) error {
	failure, ok := errors.AsType[*helm.Error](err)
	switch {
	case !ok:
		return err
	case failure.Kind == helm.ChartInvalid:
		return fetch.Errorf(fetch.Invalid,
			"its index.yaml cannot be read: %w; check that helmChartRepoUrl is the address of a chart repository", err)
	case failure.Kind == helm.LimitExceeded:
		return fetch.Errorf(fetch.TooLarge, "%w", err)
	default:
		return fetch.Errorf(fetch.Unavailable, "%w", err)
	}
}

// silent is the observer of an index: it changes nothing and has nothing to report.
type silent struct{}

var errNoChange = errors.New("reading an index changes nothing")

func (silent) Changing(context.Context) error { return errNoChange }
func (silent) Rendered(context.Context, []helm.Object) ([]helm.Object, error) {
	return nil, errNoChange
}
func (silent) Found(context.Context, []helm.Found) error { return errNoChange }
func (silent) Progress(string, string)                   {}
func (silent) Warning(string, string)                    {}
func (silent) Log(string)                                {}

// isArchive is the check of archives.
func isArchive(_ string, begin []byte) error {
	if isGzip(begin) {
		return nil
	}
	return fetch.Errorf(fetch.Invalid, `expected a gzipped tar, as "helm package" makes it, but found %s`,
		describeContent(begin))
}

// isGzip reports whether a file with these first bytes is one of gzip, with its only method of compression.
func isGzip(begin []byte) bool { return bytes.HasPrefix(begin, []byte{0x1f, 0x8b, 0x08}) }

// describeContent names the apparent type of a file, without repeating any of it.
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

// normalizeDigest returns a digest of an index, in hex with or without the algorithm in front, in the form of sdk.
func normalizeDigest(text string) (string, error) {
	const algorithm = "sha256:"
	sum := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), algorithm)
	if sum == "" {
		return "", nil
	}
	if decoded, err := hex.DecodeString(sum); err != nil || len(decoded) != 32 {
		return "", errors.New("expected a SHA-256 in hex, but found something else")
	}
	return algorithm + sum, nil
}

// resolveURL returns the address of an archive, absolute or relative to the repository. As with Helm, a relative one
// gets the query of the repository's address, which may have credentials.
func resolveURL(repository *url.URL, address string) (*url.URL, error) {
	ref, err := url.Parse(address)
	if err != nil {
		return nil, fetch.Errorf(fetch.Invalid, "the index has an invalid address") // err would quote it
	}
	u := repository.JoinPath("/").ResolveReference(ref)
	if !ref.IsAbs() && ref.Host == "" && u.RawQuery == "" {
		u.RawQuery = repository.RawQuery
	}
	u, invalid := parseURL(u.String(), nil)
	if invalid != nil {
		return nil, fetch.Errorf(fetch.Invalid, "the index has an invalid address: %s", invalid.Detail)
	}
	return u, nil
}
