package control

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// slowPlugins take until finish is closed to say what they are.
type slowPlugins struct {
	fakePlugins

	begun  atomic.Int32
	finish chan struct{}
}

func (p *slowPlugins) Details() ([]plugin.Detail, error) {
	p.begun.Add(1)
	<-p.finish
	return nil, nil
}

// Many who ask at once take no more of the processor than one, and for who has gone nothing is done.
func TestListsAreOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const staying, leaving = 4, 3
		plugins := &slowPlugins{finish: make(chan struct{})}
		server := &Server{plugins: plugins, log: slog.New(slog.DiscardHandler), listing: make(chan struct{}, 1)}
		var clients sync.WaitGroup
		ask := func(ctx context.Context) {
			clients.Go(func() {
				server.list(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, pluginsPath, http.NoBody))
			})
		}
		for range staying {
			ask(t.Context())
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		for range leaving {
			ask(ctx)
		}
		synctest.Wait()
		if begun := plugins.begun.Load(); begun != 1 {
			t.Errorf("expected one look at the plugins at a time, but found %d", begun)
		}
		leave()
		synctest.Wait()
		close(plugins.finish)
		clients.Wait()
		if begun := plugins.begun.Load(); begun != staying {
			t.Errorf("expected a look at the plugins for each of %d who waited, but found %d", staying, begun)
		}
	})
}
