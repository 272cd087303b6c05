package chartsource_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

// TestManyItemsOneDownload: 100 items of one chart are one download, from a registry as from a repository.
func TestManyItemsOneDownload(t *testing.T) {
	t.Parallel()
	bearer := withLogin
	bearer.Auth = chartserver.Bearer
	registry, tagged, _ := registryWith(t, bearer)
	repository, _ := repositoryWith(t, withLogin)
	credentials := accessTo(repository.Server)
	credentials.Registries = loginFor(registry.Host()).Registries
	w := newWorld(t, registry.Server)
	for round := range 2 {
		var items sync.WaitGroup
		for range 100 {
			items.Go(func() {
				w.want(t, tagged, credentials, plain)
				w.want(t, ofRepository(repository.URL(), "plain", "*"), credentials, plain)
			})
		}
		items.Wait()
		// A manifest is asked for twice, once without a token.
		blobs, manifests := registry.Count(chartserver.Blob), registry.Count(chartserver.Manifest)
		files, indexes := repository.Count(chartserver.File), repository.Count(chartserver.Index)
		if blobs != 1 || manifests != 2+2*round || files != 1 || indexes != 1+round {
			t.Errorf("round %d: expected one download, but found %v and %v", round,
				registry.Requests(chartserver.Any), repository.Requests(chartserver.Any))
		}
		w.later()
	}
}

// TestCallerGoesAway: a download goes on for the others, and ends with the last of them.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	registry, tagged, _ := registryWith(t, chartserver.Options{})
	release := make(chan struct{})
	registry.Break(chartserver.Blob, chartserver.Hold(release))
	w := newWorld(t, registry.Server)
	first, leave := aborted(t)
	var items sync.WaitGroup
	items.Go(func() {
		if _, err := w.fetch(first, tagged); !errors.Is(err, errAborted) {
			t.Errorf("expected the first caller to leave, but found %v", err)
		}
	})
	await.That(t, patience, "a request for the blob", func() bool { return registry.Count(chartserver.Blob) == 1 })
	second, cancelSecond := context.WithCancel(t.Context())
	joined := make(chan struct{})
	items.Go(func() {
		defer cancelSecond()
		archive, err := w.fetch(notify{second, joined}, tagged)
		if err != nil {
			t.Errorf("expected the second caller to get the archive, but found %v", err)
			return
		}
		archive.Release()
	})
	<-joined
	leave()
	close(release)
	items.Wait()
	if got := registry.Count(chartserver.Blob); got != 1 {
		t.Errorf("expected one download, but found %v", registry.Requests(chartserver.Any))
	}
}

// notify tells when somebody begins to wait for its end.
type notify struct {
	context.Context //nolint:containedctx // it is one
	waiting         chan struct{}
}

func (n notify) Done() <-chan struct{} {
	select {
	case <-n.waiting:
	default:
		close(n.waiting)
	}
	return n.Context.Done()
}

// TestAuthorityDecidesWhoGets: what was downloaded from somebody whose certificate only one caller trusts is for that
// caller only.
func TestAuthorityDecidesWhoGets(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{})
	chart := ofURL(files.Put("plain.tgz", plain))
	w := newWorld(t)
	w.want(t, chart, trustIn(files.Server), plain)
	w.wantError(t, chart, nil, chartsource.ReasonUnavailable, "not trusted")
}

// TestDigestIsNoKey: who knows the digest of a chart, and can have an index say so, does not get it from the cache.
func TestDigestIsNoKey(t *testing.T) {
	t.Parallel()
	private, chart := repositoryWith(t, withLogin)
	liar := chartserver.StartRepository(t, chartserver.Options{PlainHTTP: true})
	add(t, liar, plain, chartserver.At("nothing.tgz"))
	w := newWorld(t)
	w.want(t, chart, accessTo(private.Server), plain)
	w.wantError(t, ofRepository(liar.URL(), "plain", ""), nil, chartsource.ReasonNotFound, "nothing.tgz")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, registries := range map[string][]fetch.Registry{
		"Twice":  {{Host: "docker.io"}, {Host: "index.docker.io"}},
		"Nobody": {{}},
		"CAData": {{Host: "r.example.org", CAData: []byte("none")}},
	} {
		config := chartsource.Config{Config: fetch.Config{Dir: t.TempDir(), Registries: registries}}
		if f, err := chartsource.New(config); err == nil {
			t.Errorf("%s: expected an error, but found %v", name, f.Close())
		}
	}
}

// TestInsecureRegistry: the operator can have any certificate taken.
func TestInsecureRegistry(t *testing.T) {
	t.Parallel()
	registry, tagged, _ := registryWith(t, chartserver.Options{})
	w := newWorldWith(t, chartsource.Config{Config: fetch.Config{
		Registries: []fetch.Registry{{Host: registry.Host(), InsecureSkipTLSVerify: true}},
	}})
	w.want(t, tagged, nil, plain)
	newWorld(t).wantError(t, tagged, nil, chartsource.ReasonUnavailable, "not trusted")
}

func TestNoSource(t *testing.T) {
	t.Parallel()
	newWorld(t).refuses(t, chartsource.Request{Credentials: &sdk.Credentials{}}, chartsource.ReasonSourceInvalid)
	if got := (chartsource.Source{}).NeedsResolver(); got != "" {
		t.Errorf("expected no resolver for no source, but found %q", got)
	}
}

// unfinished is the address of archives that begin and do not end, with the number of those that are being sent.
func unfinished(t *testing.T, size int) (url string, open *atomic.Int32) {
	t.Helper()
	open = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		_, _ = w.Write([]byte{0x1f, 0x8b, 8, 0})
		_, _ = w.Write(make([]byte, size))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL, open
}

// TestAbandonedDownloads: a download ends with the last caller that wants it, and leaves nothing.
// Rule (helm.md#for-operators): A download ends with its last job.
func TestAbandonedDownloads(t *testing.T) {
	t.Parallel()
	server, open := unfinished(t, 1<<20)
	dir := t.TempDir()
	w := newWorldWith(t, chartsource.Config{Config: fetch.Config{Dir: dir}})
	var callers sync.WaitGroup
	ctx, leave := aborted(t)
	for n := range 50 {
		chart := ofURL(fmt.Sprintf("%s/c.tgz?n=%d", server, n/2)) // two for each
		callers.Go(func() {
			if _, err := w.fetch(ctx, chart); !errors.Is(err, errAborted) {
				t.Errorf("expected the caller to leave, but found %v", err)
			}
		})
	}
	await.That(t, patience, "25 downloads", func() bool { return open.Load() == 25 })
	leave()
	callers.Wait()
	await.That(t, patience, "the end of the downloads", func() bool { return open.Load() == 0 })
	await.That(t, patience, "the end of their files", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "*", "new-*"))
		return err == nil && len(left) == 0
	})
}

// TestUnfinishedDownloadsCount: what is being downloaded is part of the cache's size, and one download always has room.
// Rule (helm.md#for-operators): A running download counts in the size of the cache.
func TestUnfinishedDownloadsCount(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
	chart := ofURL(files.Put("plain.tgz", plain))
	server, _ := unfinished(t, 2000)
	w := newWorldWith(t, chartsource.Config{Config: fetch.Config{MaxBytes: 1000, MaxAge: time.Nanosecond}})
	fetched := func() error {
		archive, err := w.fetch(t.Context(), chart)
		if err == nil {
			archive.Release()
		}
		return err
	}
	if err := fetched(); err != nil {
		t.Fatal(err)
	}
	ctx, leave := aborted(t)
	var caller sync.WaitGroup
	caller.Go(func() { _, _ = w.fetch(ctx, ofURL(server+"/c.tgz")) })
	await.That(t, patience, "a full cache", func() bool {
		refused, ok := errors.AsType[*sdk.Error](fetched())
		return ok && refused.Reason == chartsource.ReasonCache && len(refused.Codes) == 0
	})
	leave()
	caller.Wait()
	await.That(t, patience, "room again", func() bool { return fetched() == nil })
}
