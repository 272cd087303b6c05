package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// keeper is a deployer that keeps something in the host cluster, and tells what it has got of that. A test may do so.
type keeper struct{ credited }

func accessOf(cluster *sdk.HostCluster) map[string]any {
	if cluster == nil {
		return map[string]any{"none": true}
	}
	return map[string]any{"kubeconfig": string(cluster.Kubeconfig), "namespace": cluster.Namespace,
		"installation": cluster.Installation}
}

func (keeper) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return &sdk.Response{Exports: accessOf(req.HostCluster)}, nil
}

func (keeper) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	document, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Seen", "access": accessOf(req.HostCluster)})
	return &sdk.RenderResponse{Children: []sdk.Child{{Name: "a", Object: document}}}, err
}

// Holdings tells the access as the job of a holding, and others that can be of no deploy item.
func (keeper) Holdings(_ context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	if req.HostCluster == nil {
		return nil, nil
	}
	if req.HostCluster.Namespace == "broken" {
		panic("no holdings") //nolint:forbidigo // what is tested
	}
	return &sdk.HoldingsResponse{Holdings: []sdk.Holding{
		{Namespace: "Shop", Name: "item", UID: "1"}, {Namespace: "shop", Name: "a/b", UID: "1"},
		{Namespace: "shop", Name: "item"},
		{Namespace: "shop", Name: "item", UID: types.UID(strings.Repeat("1", maxText+1))},
		{Namespace: "shop", Name: "item", UID: "1", JobID: fmt.Sprint(accessOf(req.HostCluster))},
	}}, nil
}

func (keeper) Collect(_ context.Context, req *sdk.CollectRequest) error {
	return sdk.ConfigurationError("Told", "%v %v", req.Holdings, accessOf(req.HostCluster))
}

// granting is a host whose keeper has an access from a function.
func granting(t *testing.T, access HostCluster) *host {
	t.Helper()
	return runHost(t, pluginDir(t, "keeper"),
		func(o *Options) { o.HostClusters = map[string]HostCluster{"keeper": access} })
}

func gives(namespace string) HostCluster {
	return func(context.Context) (*sdk.HostCluster, error) {
		return &sdk.HostCluster{Kubeconfig: []byte(theSecret), Namespace: namespace, Installation: "here"}, nil
	}
}

var accessInPods = map[string]any{"kubeconfig": theSecret, "namespace": "pods", "installation": "here"}

func TestHostCluster(t *testing.T) {
	t.Parallel()
	h := granting(t, gives("pods"))
	p := h.plugin("keeper")
	if c := p.Info().Capabilities; !c.HostCluster || !c.Collect {
		t.Errorf("found %+v", c)
	}
	call := Call{DeployItem: deployItem("item")}
	outcome, err := p.Call(t.Context(), Reconcile, call, &observer{})
	if err != nil || outcome.Succeeded == nil {
		t.Fatalf("%+v, %v", outcome, err)
	}
	var got map[string]any
	if err := json.Unmarshal(outcome.Succeeded.Exports, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(accessInPods, got); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}
	rendered, err := p.Render(t.Context(), call)
	if err != nil || len(rendered.Children) != 1 || !strings.Contains(string(rendered.Children[0].Object), theSecret) {
		t.Errorf("Render: %+v, %v", rendered, err)
	}
	for _, record := range h.log.all() {
		if text, err := json.Marshal(record); err != nil || strings.Contains(string(text), theSecret) {
			t.Errorf("the log has the access: %s (%v)", text, err)
		}
	}
}

// A plugin that is granted nothing gets nothing, and works; so does one that asks for nothing.
func TestNoHostCluster(t *testing.T) {
	t.Parallel()
	for file, tc := range map[string]struct {
		granted string
		want    string
		logged  string
	}{
		"keeper": {granted: "echo", want: `"none":true`,
			logged: "the plugin gets no access to the host cluster, which it asks for; plugins.keeper.hostCluster"},
		"echo": {granted: "echo", want: `"name":"item"`,
			logged: "the plugin is granted access to the host cluster, which it does not ask for; remove plugins.echo.hostCluster"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			h := runHost(t, pluginDir(t, file),
				func(o *Options) { o.HostClusters = map[string]HostCluster{tc.granted: gives("pods")} })
			outcome, err := h.plugin(file).Call(t.Context(), Reconcile, Call{DeployItem: deployItem("item")}, &observer{})
			if err != nil || outcome.Succeeded == nil || !strings.Contains(string(outcome.Succeeded.Exports), tc.want) {
				t.Errorf("expected %s, but found %+v, %v", tc.want, outcome, err)
			}
			if len(h.log.with(tc.logged)) != 1 {
				t.Errorf("expected the log to say once: %s", tc.logged)
			}
		})
	}
}

// What keeps a plugin from its access keeps it from being called, and the reason is told.
func TestHostClusterUnavailable(t *testing.T) {
	t.Parallel()
	p := granting(t, func(ctx context.Context) (*sdk.HostCluster, error) {
		return nil, errors.Join(errors.New("there is no ServiceAccount"), ctx.Err())
	}).plugin("keeper")
	call := Call{DeployItem: deployItem("item")}
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

func TestHoldings(t *testing.T) {
	t.Parallel()
	h := granting(t, gives("pods"))
	p := h.plugin("keeper")
	got, err := p.Holdings(t.Context())
	want := []sdk.Holding{{Namespace: "shop", Name: "item", UID: "1", JobID: fmt.Sprint(accessInPods)}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("holdings: %v (-want +got):\n%s", err, diff)
	}
	if strange := h.log.with("the plugin keeps something for what can be no deploy item"); len(strange) != 1 || fmt.Sprint(strange[0]["count"]) != "4" {
		t.Errorf("expected the log to say that four can be of no deploy item, but found %v", strange)
	}
	var told Error
	if err := p.Collect(t.Context(), want); !errors.As(err, &told) || told.Message != fmt.Sprint(want,
		accessInPods) || !slices.Contains(told.Codes, v1alpha1.ErrorConfigurationProblem) {
		t.Errorf("expected the plugin to be told of the holdings, but found %v", err)
	}

	none, err := start(t, "keeper").plugin("keeper").Holdings(t.Context())
	if err != nil || len(none) != 0 {
		t.Errorf("expected nothing, but found %v, %v", none, err)
	}
	_, err = granting(t, gives("broken")).plugin("keeper").Holdings(t.Context())
	if told := (Error{}); !errors.As(err, &told) || told.Reason != sdk.ReasonPanic {
		t.Errorf("expected to hear of the panic, but found %v", err)
	}
	if _, err := start(t, "echo").plugin("echo").Holdings(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Errorf("expected a plugin that does not collect to refuse, but found %v", err)
	}
}

func TestResolveRegistryCredentials(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	p := h.plugin("echo")
	call := Call{DeployItem: deployItem("secret")}
	asking := func(found *sdk.RegistryCredentials, err error) *observer {
		return &observer{secret: func(_ context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error) {
			if secret != (types.NamespacedName{Namespace: "shop", Name: "pull"}) {
				return nil, fmt.Errorf("asked for %v", secret)
			}
			return found, err
		}}
	}
	for name, tc := range map[string]struct {
		reason string
		found  *sdk.RegistryCredentials
		err    error
		want   Outcome
	}{
		"found": {
			reason: "whole", found: &sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(theSecret)},
			want: Outcome{Succeeded: &Succeeded{Exports: []byte(`{"config":"` + theSecret + `","problem":"","secret":"pull"}`)}},
		},
		"problem": {
			reason: "the plugin judges it", found: &sdk.RegistryCredentials{Secret: "pull", Problem: "there is none"},
			want: Outcome{Succeeded: &Succeeded{Exports: []byte(`{"config":"","problem":"there is none","secret":"pull"}`)}},
		},
		"error": {
			reason: "it is worth another try", err: errors.New("connection refused"),
			want: Outcome{Errors: []Error{{Operation: "ResolveRegistryCredentials", Reason: "HostError",
				Message: "connection refused"}}},
		},
	} {
		outcome, err := p.Call(t.Context(), Reconcile, call, asking(tc.found, tc.err))
		if diff := cmp.Diff(&tc.want, outcome); diff != "" || err != nil {
			t.Errorf("%s: %s: %v (-want +got):\n%s", name, tc.reason, err, diff)
		}
	}
	for _, record := range h.log.all() {
		if text, err := json.Marshal(record); err != nil || strings.Contains(string(text), theSecret) {
			t.Errorf("the log has credentials: %s (%v)", text, err)
		}
	}
	call.DeployItem = deployItem("secrets")
	asked := 0
	outcome, err := p.Call(t.Context(), Reconcile, call, &observer{secret: func(context.Context,
		types.NamespacedName) (*sdk.RegistryCredentials, error) {
		asked++
		return &sdk.RegistryCredentials{}, nil
	}})
	if err != nil || asked != maxSecrets || len(outcome.Errors) != 1 || outcome.Errors[0].Reason != reasonTooManySecrets || !strings.Contains(outcome.Errors[0].Message, `"shop/pull-50"`) {
		t.Errorf("expected a call to be able to ask for %d Secrets, but it was %d: %+v, %v", maxSecrets, asked, outcome, err)
	}
}
