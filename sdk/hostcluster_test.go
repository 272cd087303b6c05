package sdk_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func hostCluster() *sdk.HostCluster {
	return &sdk.HostCluster{Kubeconfig: []byte(theSecret), Namespace: "pods", Installation: "1234"}
}

// keeping is a deployer that keeps something, and tells which access it was called with, by operation.
type keeping struct {
	askedFor

	clusters  map[string]*sdk.HostCluster
	kept      []sdk.Holding
	collected *[]sdk.Holding
	err       error
}

func (k keeping) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	k.clusters["Reconcile"] = req.HostCluster
	return nil, nil
}

func (k keeping) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	k.clusters["Diff"] = req.HostCluster
	return nil, nil
}

func (k keeping) Holdings(_ context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	k.clusters["Holdings"] = req.HostCluster
	req.Log.Info("asked")
	if k.kept == nil {
		return nil, k.err
	}
	return &sdk.HoldingsResponse{Holdings: k.kept}, k.err
}

func (k keeping) Collect(_ context.Context, req *sdk.CollectRequest) error {
	k.clusters["Collect"] = req.HostCluster
	req.Log.Info("told")
	*k.collected = req.Holdings
	return k.err
}

func newKeeping() keeping {
	return keeping{askedFor: askedFor{map[string]*sdk.Credentials{}}, clusters: map[string]*sdk.HostCluster{}, collected: new([]sdk.Holding)}
}

func TestHostClusterComesWithEachCall(t *testing.T) {
	t.Parallel()
	for reason, given := range map[string]*sdk.HostCluster{"all of it arrives": hostCluster(), "it was not granted": nil} {
		k := newKeeping()
		p := sdktest.New(t, k, append(options(), sdk.HostClusterAccess())...)
		call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", document("")), HostCluster: given}
		p.Reconcile(t.Context(), call)
		if _, err := p.Diff(t.Context(), call); err != nil {
			t.Error(err)
		}
		if _, err := p.Holdings(t.Context(), given); err != nil {
			t.Error(err)
		}
		if err := p.Collect(t.Context(), given, nil); err != nil {
			t.Error(err)
		}
		want := map[string]*sdk.HostCluster{"Reconcile": given, "Diff": given, "Holdings": given, "Collect": given}
		if diff := cmp.Diff(want, k.clusters); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

func TestCapabilitiesOfACollector(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deployer             sdk.Deployer
		options              []sdk.Option
		hostCluster, collect bool
	}{
		"Neither": {fake{}, nil, false, false},
		"Access":  {fake{}, []sdk.Option{sdk.HostClusterAccess()}, true, false},
		"Collect": {newKeeping(), nil, false, true},
		"Both":    {newKeeping(), []sdk.Option{sdk.HostClusterAccess()}, true, true},
	} {
		got := sdktest.New(t, tc.deployer, append(options(), tc.options...)...).Info().Capabilities
		if got.HostCluster != tc.hostCluster || got.Collect != tc.collect {
			t.Errorf("%s: found %+v", name, got)
		}
	}
	strict := fake{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		return nil, req.DecodeConfig(&status{})
	}}
	sdktest.Conform(t, sdktest.New(t, collecting{strict}, append(options(), sdk.HostClusterAccess())...),
		sdktest.Case{Name: "plain", Call: sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", document(""))}})
}

// collecting is a deployer that keeps nothing.
type collecting struct{ fake }

func (collecting) Holdings(context.Context, *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	return nil, nil
}

func (collecting) Collect(context.Context, *sdk.CollectRequest) error { return nil }

func TestHoldings(t *testing.T) {
	t.Parallel()
	k := newKeeping()
	k.kept = []sdk.Holding{
		{Namespace: "shop", Name: "web", UID: "1", JobID: "job"}, {Namespace: "shop", Name: "db", UID: "2"}, {Name: "\xff"},
	}
	p := sdktest.New(t, k, options()...)
	got, err := p.Holdings(t.Context(), nil)
	want := []sdk.Holding{k.kept[0], k.kept[1], {Name: "\uFFFD"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("holdings: %v (-want +got):\n%s", err, diff)
	}
	if err := p.Collect(t.Context(), nil, k.kept[:2]); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(k.kept[:2], *k.collected); diff != "" {
		t.Errorf("what is to be collected (-want +got):\n%s", diff)
	}

	k.err = sdk.ConfigurationError("Broken", "it is broken")
	p = sdktest.New(t, k, options()...)
	var failed *sdktest.Failed
	_, holdingsErr := p.Holdings(t.Context(), nil)
	for _, err := range []error{holdingsErr, p.Collect(t.Context(), nil, nil)} {
		if !errors.As(err, &failed) || failed.Errors[0].Reason != "Broken" || failed.Errors[0].Message != "it is broken" || len(failed.Codes()) != 1 {
			t.Errorf("expected the deployer's error, but found %v", err)
		}
	}

	p = sdktest.New(t, fake{}, options()...)
	_, holdingsErr = p.Holdings(t.Context(), nil)
	for _, err := range []error{holdingsErr, p.Collect(t.Context(), nil, nil)} {
		if err == nil || errors.As(err, &failed) || !strings.Contains(err.Error(), "does not collect") {
			t.Errorf("expected a deployer that does not collect to say so, but found %v", err)
		}
	}
}

func TestResolveRegistryCredentials(t *testing.T) {
	t.Parallel()
	given := &sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(theSecret)}
	got := map[string]*sdk.RegistryCredentials{}
	p := sdktest.New(t, fake{reconcile: func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		for _, name := range []string{"pull", "gone"} {
			var err error
			if got[name], err = req.ResolveRegistryCredentials(ctx, req.DeployItem.Namespace, name); err != nil {
				return nil, err
			}
		}
		var err error
		got["elsewhere"], err = req.ResolveRegistryCredentials(ctx, "elsewhere", "pull")
		return nil, err
	}}, options()...)
	result := p.Reconcile(t.Context(), sdktest.Call{
		DeployItem: sdktest.DeployItem("example.org/test", document("")), Secrets: map[string]*sdk.RegistryCredentials{"pull": given},
	})
	if result.Succeeded == nil {
		t.Fatal(result)
	}
	if diff := cmp.Diff(given, got["pull"]); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"gone": `there is no Secret "default/gone"`, "elsewhere": `Secret "elsewhere/pull": it is of another namespace`} {
		if c := got[name]; len(c.DockerConfig) > 0 || !strings.HasPrefix(c.Problem, want) {
			t.Errorf("%s: expected the problem %s, but found %v", name, want, c)
		}
	}
	if diff := cmp.Diff([]sdktest.Message{{ResolveSecret: "default/pull"}, {ResolveSecret: "default/gone"}, {ResolveSecret: "elsewhere/pull"}}, result.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if _, err := (&sdk.Request{}).ResolveRegistryCredentials(t.Context(), "shop", "pull"); err == nil {
		t.Error("expected an error of a request that has nobody to ask")
	}
}

// Whoever logs a request for debugging must not publish what is in it.
func TestHostClusterIsNotPrinted(t *testing.T) {
	t.Parallel()
	given := hostCluster()
	encoded := base64.StdEncoding.EncodeToString(given.Kubeconfig) // as JSON has bytes
	for name, value := range map[string]any{
		"pointer": given, "value": *given, "request": &sdk.Request{DeployItem: &v1alpha1.DeployItem{}, HostCluster: given},
		"holdings": &sdk.HoldingsRequest{HostCluster: given}, "collect": sdk.CollectRequest{HostCluster: given}, "list": []any{*given},
	} {
		texts := []string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, value))
		}
		if text, err := json.Marshal(value); err == nil {
			texts = append(texts, string(text))
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("careless", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("careless", "value", value)
		for _, text := range append(texts, log.String()) {
			if strings.Contains(text, theSecret) || strings.Contains(text, encoded) || strings.Contains(text, fmt.Sprintf("%x", theSecret)) || strings.Contains(text, "116 48 112") {
				t.Errorf("%s shows the secret: %s", name, text)
			}
		}
	}
	const want = `{Kubeconfig:(9 bytes) Namespace:"pods" Installation:"1234"}`
	if got := fmt.Sprint(given); got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
}
