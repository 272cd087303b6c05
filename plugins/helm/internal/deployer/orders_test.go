package deployer_test

import (
	"context"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

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
