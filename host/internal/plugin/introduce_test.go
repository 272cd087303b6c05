package plugin

import (
	"context"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
	"github.com/pergola-deploy/pergola/test/logged"
)

// A plugin stays what it was at its first start, and what its profile says.
func TestRecognize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, file, name string
		types              []string
		want               string
	}{
		{"the same types in another order", "file", "plugin", []string{"b", "a"}, ""},
		{"another type", "file", "plugin", []string{"a"}, "has become another plugin"},
		{"another name", "file", "other", []string{"a", "b"}, "has become another plugin"},
		{"a profile for another plugin", "helm", "plugin", []string{"a", "b"}, `has the file helm for plugins.helm`},
	} {
		info := func(name string, types []string) *Info {
			info, err := hostside.ReadInfo(&deployerv1.GetInfoResponse{Name: name, DeployItemTypes: types})
			if err != nil {
				t.Fatal(err)
			}
			return &info
		}
		p := &Plugin{
			file: test.file, program: &launch.Program{}, facts: facts{info: info("plugin", []string{"a", "b"})},
			settings: &settings{Options: Options{Profiles: map[string]Profile{"helm": {Plugin: "helm"}}}},
		}
		err := p.recognize(info(test.name, test.types))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
		}
	}
}

// A plugin has access to the host cluster if it asks for it and the operator grants it, and else the log says so.
// Rule (SECURITY.md#plugins): A plugin gets access to the host cluster only if the operator grants it.
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
		log := &logged.Records{}
		p := &Plugin{settings: &settings{}, log: log.Logger()}
		if test.granted {
			p.settings.HostClusters = map[string]HostCluster{
				"keeper": func(context.Context) (*sdk.HostCluster, error) { return &sdk.HostCluster{}, nil },
			}
		}
		got := p.hostClusterFor(&Info{Name: "keeper", Capabilities: Capabilities{HostCluster: test.asks}})
		if (got != nil) != test.has || len(log.With(test.logged)) != len(log.All()) ||
			(len(log.All()) == 0) != (test.logged == "") {
			t.Errorf("%+v: found access %t, log %v", test, got != nil, log.All())
		}
	}
}
