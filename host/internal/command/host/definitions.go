package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// definitionsInterval is the pause between two looks for a missing definition.
const definitionsInterval = time.Second

// awaitDefinitions blocks until the cluster serves the kinds of every host, or until ctx ends. Meanwhile log and
// /readyz name a missing kind.
func (l *launch) awaitDefinitions(ctx context.Context, cluster *rest.Config) error {
	look, err := l.definitions(cluster)
	if err != nil {
		return err
	}
	err = look()
	if !meta.IsNoMatchError(err) {
		return err
	}
	var missing atomic.Pointer[error]
	missing.Store(&err)
	endpoints, listenErr := telemetry.Listen(ctx, l.settings.ListenAddress,
		func() error { return cli.WithAdvice(*missing.Load()) }, func() []plugin.Status { return nil }, metrics.Registry)
	if listenErr != nil {
		return listenErr
	}
	l.log.Warn("host waits for CustomResourceDefinitions", "error", cli.WithAdvice(err).Error(),
		"listenAddress", endpoints.Server.Addr)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- endpoints.Start(serving) }()
	err = wait.PollUntilContextCancel(ctx, definitionsInterval, false, func(context.Context) (bool, error) {
		err := look()
		if err != nil {
			missing.Store(&err)
		}
		return err == nil, nil
	})
	stop() // the host listens there next
	return errors.Join(err, <-served)
}

// definitions returns a function with the error of a look for the kinds. It does not look itself.
func (l *launch) definitions(cluster *rest.Config) (look func() error, err error) {
	httpClient, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(cluster, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	kinds := []string{v1alpha1.DeployItemGVK.Kind, "Target", "Context"}
	if on, err := ownPod().locks(l.settings.Locking); err != nil {
		return nil, err
	} else if on {
		kinds = append(kinds, "SyncObject")
	}
	return func() error {
		for _, kind := range kinds {
			if _, err := mapper.RESTMapping(
				v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version,
			); err != nil {
				return fmt.Errorf("connect to the cluster: %w", err)
			}
		}
		return nil
	}, nil
}
