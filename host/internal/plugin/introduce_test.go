package plugin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// A plugin that lists its types in another order after a restart is the same one.
func TestRecognizeTypesInAnyOrder(t *testing.T) {
	t.Parallel()
	types := []string{"a", "b"}
	p := &Plugin{}
	for range 2 {
		info, err := hostside.ReadInfo(&deployerv1.GetInfoResponse{Name: "plugin", DeployItemTypes: types})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.recognize(&info); err != nil {
			t.Errorf("%q: %v", types, err)
		}
		p.info = &info
		slices.Reverse(types)
	}
}

// A plugin has access to the host cluster if it asks for it and the operator grants it, and else the log says so.
func TestNoHostCluster(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		asks, granted, has bool
		logged             string
	}{
		{false, false, false, ""},
		{true, true, true, ""},
		{true, false, false, "the plugin gets no access to the host cluster, which it asks for; plugins.keeper.hostCluster"},
		{false, true, false,
			"the plugin is granted access to the host cluster, which it does not ask for; remove plugins.keeper.hostCluster"},
	} {
		log := &records{}
		p := &Plugin{settings: &settings{}, log: log.logger()}
		if test.granted {
			p.settings.HostClusters = map[string]HostCluster{
				"keeper": func(context.Context) (*sdk.HostCluster, error) { return &sdk.HostCluster{}, nil },
			}
		}
		got := p.hostClusterFor(&Info{Name: "keeper", Capabilities: Capabilities{HostCluster: test.asks}})
		if (got != nil) != test.has || len(log.with(test.logged)) != len(log.all()) ||
			(len(log.all()) == 0) != (test.logged == "") {
			t.Errorf("%+v: found access %t, log %v", test, got != nil, log.all())
		}
	}
}

// A plugin without its access to the host cluster is not called, and the error has the reason.
func TestHostClusterUnavailable(t *testing.T) {
	t.Parallel()
	h := runHost(t, pluginDir(t, "raw_keeper"), func(o *Options) {
		o.HostClusters = map[string]HostCluster{"keeper": func(ctx context.Context) (*sdk.HostCluster, error) {
			return nil, errors.Join(errors.New("there is no ServiceAccount"), ctx.Err())
		}}
	})
	p, call := h.plugin("raw_keeper"), Call{DeployItem: deployItem("item")}
	want := Error{Operation: "AccessHostCluster", Reason: "HostClusterUnavailable", Message: "there is no ServiceAccount"}
	_, callErr := p.Call(t.Context(), Reconcile, call, &observer{})
	_, renderErr := p.Render(t.Context(), call)
	_, holdingsErr := p.Holdings(t.Context())
	for what, err := range map[string]error{
		"Call": callErr, "Render": renderErr, "Holdings": holdingsErr, "Collect": p.Collect(t.Context(), nil),
	} {
		var got Error
		if !errors.As(err, &got) {
			t.Errorf("%s: expected an Error, but found %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrInterrupted)
	if _, err := p.Call(ctx, Reconcile, call, &observer{}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("expected the cause of the end of the call, but found %v", err)
	}
}
