package deployer_test

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// requestLog notes the requests to the target, as "METHOD /path".
type requestLog struct {
	mu  sync.Mutex
	all []string
	// before may refuse a request, after may lose its answer.
	before, after func(*http.Request) error
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.all = append(l.all, r.Method+" "+r.URL.Path)
		before, after := l.before, l.after
		l.mu.Unlock()
		if before != nil {
			if err := before(r); err != nil {
				return nil, err
			}
		}
		response, err := next.RoundTrip(r)
		if err == nil && after != nil {
			if err := after(r); err != nil {
				_ = response.Body.Close()
				return nil, err
			}
		}
		return response, err
	})
}

// take returns the requests since it was called last.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

func writesIn(requests []string) []string {
	var writes []string
	for _, r := range requests {
		if !strings.HasPrefix(r, http.MethodGet) {
			writes = append(writes, r)
		}
	}
	return writes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// set says which requests fail, and which answers get lost; nil for none.
func (l *requestLog) set(before, after func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

// orderLog notes what Helm is asked to do.
type orderLog struct {
	mu  sync.Mutex
	all []helm.Request
}

// take returns the requests to Helm since it was called last.
func (l *orderLog) take() []helm.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// listener is Helm with an orderLog.
type listener struct {
	helm.Helm

	orders *orderLog
}

func (l *listener) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	l.orders.mu.Lock()
	l.orders.all = append(l.orders.all, *req)
	l.orders.mu.Unlock()
	return l.Helm.Run(ctx, req, observer)
}
