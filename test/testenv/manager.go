package testenv

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// StartManager starts a manager for a test, at whose end it is stopped. setup gives it what it runs.
func StartManager(t testing.TB, config *rest.Config, options manager.Options, setup func(manager.Manager) error) {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	options.Scheme, options.Metrics = scheme, server.Options{BindAddress: "0"}
	options.Controller.SkipNameValidation = new(true) // of all managers of this process
	m, err := manager.New(config, options)
	if err == nil {
		err = setup(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
