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
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// theSecret is part of all secrets of these tests.
const theSecret = "t0ps3cret"

func target() *sdk.Target {
	return &sdk.Target{Name: "prod", Type: "t", Labels: map[string]string{"a": "b"}, Content: []byte(theSecret)}
}

func credentials() *sdk.Credentials {
	return &sdk.Credentials{
		Registries: []sdk.RegistryCredentials{
			{Secret: "pull", DockerConfig: []byte(`{"auths":{"r.example.org":{"password":"` + theSecret + `"}}}`)},
			{Secret: "gone", Problem: `there is no Secret "gone"`},
		},
		ChartRepositories: []sdk.ChartRepositoryCredentials{
			{URL: "https://charts.example.org", CAData: []byte("PEM"), AuthHeader: "Bearer " + theSecret},
			{URL: "https://other.example.org", Problem: "both are set"},
		},
	}
}

func ocmConfig() *sdk.OCMConfig {
	return &sdk.OCMConfig{ConfigMap: "places", Content: []byte(theSecret)}
}

func hostCluster() *sdk.HostCluster {
	return &sdk.HostCluster{Kubeconfig: []byte(theSecret), Namespace: "pods", Installation: "1234"}
}

// keeper is a Collector that records what it is called with.
type keeper struct {
	fake

	kept, collected []sdk.Holding
	hostClusters    []*sdk.HostCluster
	err             error
}

func (k *keeper) Holdings(_ context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	req.Log.Info("asked")
	k.hostClusters = append(k.hostClusters, req.HostCluster)
	return &sdk.HoldingsResponse{Holdings: k.kept}, k.err
}

func (k *keeper) Collect(_ context.Context, req *sdk.CollectRequest) error {
	req.Log.Info("called")
	k.hostClusters, k.collected = append(k.hostClusters, req.HostCluster), req.Holdings
	return k.err
}

func TestCredentialsComeWithEachCall(t *testing.T) {
	t.Parallel()
	for reason, given := range map[string]struct {
		credentials *sdk.Credentials
		ocmConfig   *sdk.OCMConfig
		hostCluster *sdk.HostCluster
	}{
		"all of it arrives, in order":                         {credentials(), ocmConfig(), hostCluster()},
		"the Context names none":                              {&sdk.Credentials{}, nil, nil},
		"what is empty, and what cannot be read":              {nil, &sdk.OCMConfig{ConfigMap: "a", Problem: "b"}, nil},
		"the host does not know them, and access was refused": {nil, nil, nil},
	} {
		var got *sdk.Request
		d := fake{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
			got = req
			return nil, nil
		}}
		p := sdktest.New(t, d, append(options(), sdk.ContextCredentials(), sdk.ContextOCMConfig(),
			sdk.HostClusterAccess())...)
		if c := p.Info().Capabilities; !c.ContextCredentials || !c.ContextOCMConfig || !c.HostCluster || c.Collect {
			t.Errorf("expected the capabilities that ask for them, but found %+v", c)
		}
		call := emptyCall()
		call.Credentials, call.OCMConfig, call.HostCluster = given.credentials, given.ocmConfig, given.hostCluster
		p.Reconcile(t.Context(), call)
		if diff := cmp.Diff(given.credentials, got.Credentials) + cmp.Diff(given.ocmConfig, got.OCMConfig) +
			cmp.Diff(given.hostCluster, got.HostCluster); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

func TestHoldings(t *testing.T) {
	t.Parallel()
	k := &keeper{kept: []sdk.Holding{
		{Namespace: "shop", Name: "web", UID: "1", JobID: "job"}, {Namespace: "shop", Name: "db", UID: "2"},
		{Namespace: "shop", Name: "a", UID: "3", JobID: "\xff"},
	}}
	p := sdktest.New(t, k, options()...)
	got, err := p.Holdings(t.Context(), hostCluster())
	want := []sdk.Holding{k.kept[0], k.kept[1], {Namespace: "shop", Name: "a", UID: "3", JobID: "\uFFFD"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("holdings: %v (-want +got):\n%s", err, diff)
	}
	if err := p.Collect(t.Context(), hostCluster(), k.kept[:2]); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(k.kept[:2], k.collected); diff != "" || !p.Info().Capabilities.Collect {
		t.Errorf("what is to be collected (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*sdk.HostCluster{hostCluster(), hostCluster()}, k.hostClusters); diff != "" {
		t.Errorf("access to the host cluster (-want +got):\n%s", diff)
	}

	k.err = sdk.ConfigurationError("Broken", "it is broken")
	var failed *sdktest.Failed
	_, holdingsErr := p.Holdings(t.Context(), nil)
	for _, err := range []error{holdingsErr, p.Collect(t.Context(), nil, nil)} {
		if !errors.As(err, &failed) || failed.Errors[0].Reason != "Broken" || len(failed.Codes()) != 1 {
			t.Errorf("expected the deployer's error, but found %v", err)
		}
	}
	if err := sdktest.New(t, fake{}, options()...).Collect(t.Context(), nil, nil); err == nil || errors.As(err, &failed) {
		t.Errorf("expected the error of a deployer that is no Collector, but found %v", err)
	}
}

// Whoever logs a request for debugging must not publish what is in it.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	c := credentials()
	for name, tc := range map[string]struct {
		values []any
		want   string // how the first one is printed
	}{
		// Rule (SECURITY.md#secrets): A printed request shows no Target.
		"Target": {
			[]any{target(), *target(), []any{*target()}, &sdk.Request{Target: target()}, sdk.Request{Target: target()}},
			`{Name:"prod" Type:"t" Labels:map["a":"b"] Content:(9 bytes)}`,
		},
		// Rule (SECURITY.md#secrets): A printed request shows no credentials.
		"Registry": {
			[]any{&c.Registries[0], c.Registries, c, *c, &sdk.Request{Credentials: c}, sdk.Request{Credentials: c}},
			`{Secret:"pull" DockerConfig:(52 bytes) Problem:""}`,
		},
		"ChartRepository": {
			[]any{c.ChartRepositories[0], c.ChartRepositories, map[string]any{"a": []any{c.ChartRepositories[0]}}},
			`{URL:"https://charts.example.org" CAData:(3 bytes) AuthHeader:(16 bytes) Problem:""}`,
		},
		// Rule (SECURITY.md#secrets): A printed request shows no content of the ConfigMap in `ocmConfig`.
		"OCMConfig": {
			[]any{ocmConfig(), *ocmConfig(), []any{*ocmConfig()}, &sdk.Request{OCMConfig: ocmConfig()}},
			`{ConfigMap:"places" Content:(9 bytes) Problem:""}`,
		},
		"HostCluster": {
			[]any{
				hostCluster(), *hostCluster(), []any{*hostCluster()}, &sdk.Request{HostCluster: hostCluster()},
				&sdk.HoldingsRequest{HostCluster: hostCluster()}, sdk.CollectRequest{HostCluster: hostCluster()},
			},
			`{Kubeconfig:(9 bytes) Namespace:"pods" Installation:"1234"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fmt.Sprint(tc.values[0]); got != tc.want {
				t.Errorf("expected %s, but found %s", tc.want, got)
			}
			for _, value := range tc.values {
				for _, text := range printed(value) {
					encoded := base64.StdEncoding.EncodeToString([]byte(theSecret)) // as JSON has bytes
					for _, secret := range []string{theSecret, encoded[:8], fmt.Sprintf("%x", theSecret), "116 48 112"} {
						if strings.Contains(text, secret) {
							t.Errorf("%T shows the secret: %s", value, text)
						}
					}
				}
			}
		})
	}
}

// printed is a value in all the ways in which somebody may print it.
func printed(value any) []string {
	var texts []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, value))
	}
	if text, err := json.Marshal(value); err == nil {
		texts = append(texts, string(text))
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("careless", "value", value)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("careless", "value", value)
	return append(texts, log.String())
}
