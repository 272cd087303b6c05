package sdk_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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

func hostCluster() *sdk.HostCluster {
	return &sdk.HostCluster{Kubeconfig: []byte(theSecret), Namespace: "pods", Installation: "1234"}
}

func TestTargetKubeconfig(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		target *sdk.Target
		want   string
	}{
		"Good": {
			reason: "the kubeconfig is a field of the content",
			target: &sdk.Target{Content: []byte(`{"kubeconfig":"k"}`)}, want: "k",
		},
		"None": {reason: "an item without target has none"},
		"OtherType": {
			reason: "not every target is a cluster",
			target: &sdk.Target{Content: []byte(`{"token":"` + theSecret + `"}`)},
		},
		"NoJSON": {reason: "content may be anything", target: target()},
	} {
		got, err := tc.target.Kubeconfig()
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %s: found %q, error %v", name, tc.reason, got, err)
		}
		isUsers := slices.Equal(sdk.Codes(err), []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem})
		if err != nil && (!isUsers || strings.Contains(err.Error(), theSecret)) {
			t.Errorf("%s: expected a user's mistake without the content, but found %v", name, err)
		}
	}
}

// recorder is a deployer with all methods that get credentials, or access to the host cluster. It records them by
// method.
type recorder struct {
	credentials  map[string]*sdk.Credentials
	hostClusters map[string]*sdk.HostCluster
	kept         []sdk.Holding
	collected    []sdk.Holding
	err          error
}

func newRecorder() *recorder {
	return &recorder{credentials: map[string]*sdk.Credentials{}, hostClusters: map[string]*sdk.HostCluster{}}
}

func (r *recorder) record(method string, req *sdk.Request) {
	r.credentials[method], r.hostClusters[method] = req.Credentials, req.HostCluster
}

func (r *recorder) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	r.record("Reconcile", req)
	return nil, nil
}

func (r *recorder) Delete(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	r.record("Delete", req)
	return nil, nil
}

func (r *recorder) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	r.record("Render", req)
	return nil, nil
}

func (r *recorder) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	r.record("Diff", req)
	return nil, nil
}

func (r *recorder) Holdings(_ context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	req.Log.Info("asked")
	r.hostClusters["Holdings"] = req.HostCluster
	if r.kept == nil {
		return nil, r.err
	}
	return &sdk.HoldingsResponse{Holdings: r.kept}, r.err
}

func (r *recorder) Collect(_ context.Context, req *sdk.CollectRequest) error {
	req.Log.Info("called")
	r.hostClusters["Collect"], r.collected = req.HostCluster, req.Holdings
	return r.err
}

func TestCredentialsComeWithEachCall(t *testing.T) {
	t.Parallel()
	for reason, given := range map[string]struct {
		credentials *sdk.Credentials
		hostCluster *sdk.HostCluster
	}{
		"all of it arrives, in order":                         {credentials(), hostCluster()},
		"the Context names none":                              {&sdk.Credentials{}, nil},
		"the host does not know them, and access was refused": {nil, nil},
	} {
		r := newRecorder()
		p := sdktest.New(t, r, append(options(), sdk.ContextCredentials(), sdk.HostClusterAccess())...)
		if c := p.Info().Capabilities; !c.ContextCredentials || !c.HostCluster || !c.Collect {
			t.Errorf("expected the capabilities that ask for them, but found %+v", c)
		}
		call := emptyCall()
		call.Credentials, call.HostCluster = given.credentials, given.hostCluster
		p.Reconcile(t.Context(), call)
		p.Delete(t.Context(), call)
		_, renderErr := p.Render(t.Context(), call)
		_, diffErr := p.Diff(t.Context(), call)
		_, holdingsErr := p.Holdings(t.Context(), given.hostCluster)
		if err := errors.Join(renderErr, diffErr, holdingsErr, p.Collect(t.Context(), given.hostCluster, nil)); err != nil {
			t.Error(err)
		}
		wantCredentials, wantClusters := map[string]*sdk.Credentials{}, map[string]*sdk.HostCluster{}
		for _, method := range []string{"Reconcile", "Delete", "Render", "Diff"} {
			wantCredentials[method], wantClusters[method] = given.credentials, given.hostCluster
		}
		wantClusters["Holdings"], wantClusters["Collect"] = given.hostCluster, given.hostCluster
		if diff := cmp.Diff(wantCredentials, r.credentials) + cmp.Diff(wantClusters, r.hostClusters); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
}

func TestHoldings(t *testing.T) {
	t.Parallel()
	r := newRecorder()
	r.kept = []sdk.Holding{
		{
			Namespace: "shop", Name: "web", UID: "1", JobID: "job"}, {Namespace: "shop", Name: "db",
			UID: "2"}, {Name: "\xff"},
	}
	p := sdktest.New(t, r, options()...)
	got, err := p.Holdings(t.Context(), nil)
	want := []sdk.Holding{r.kept[0], r.kept[1], {Name: "\uFFFD"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("holdings: %v (-want +got):\n%s", err, diff)
	}
	if err := p.Collect(t.Context(), nil, r.kept[:2]); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(r.kept[:2], r.collected); diff != "" {
		t.Errorf("what is to be collected (-want +got):\n%s", diff)
	}

	r.err = sdk.ConfigurationError("Broken", "it is broken")
	var failed *sdktest.Failed
	_, holdingsErr := p.Holdings(t.Context(), nil)
	for _, err := range []error{holdingsErr, p.Collect(t.Context(), nil, nil)} {
		if !errors.As(err, &failed) || failed.Errors[0].Reason != "Broken" || len(failed.Codes()) != 1 {
			t.Errorf("expected the deployer's error, but found %v", err)
		}
	}
	p = sdktest.New(t, fake{}, options()...)
	if c := p.Info().Capabilities; c.ContextCredentials || c.HostCluster || c.Collect {
		t.Errorf("expected the capabilities of those that ask for them alone, but found %+v", c)
	}
	_, holdingsErr = p.Holdings(t.Context(), nil)
	for _, err := range []error{holdingsErr, p.Collect(t.Context(), nil, nil)} {
		if err == nil || errors.As(err, &failed) || !strings.Contains(err.Error(), "does not implement") {
			t.Errorf("expected the error of a deployer that is no Collector, but found %v", err)
		}
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
		"Target": {
			[]any{target(), *target(), []any{*target()}, &sdk.Request{Target: target()}, sdk.Request{Target: target()}},
			`{Name:"prod" Type:"t" Labels:map["a":"b"] Content:(9 bytes)}`,
		},
		"Registry": {
			[]any{&c.Registries[0], c.Registries, c, *c, &sdk.Request{Credentials: c}, sdk.Request{Credentials: c}},
			`{Secret:"pull" DockerConfig:(52 bytes) Problem:""}`,
		},
		"ChartRepository": {
			[]any{c.ChartRepositories[0], c.ChartRepositories, map[string]any{"a": []any{c.ChartRepositories[0]}}},
			`{URL:"https://charts.example.org" CAData:(3 bytes) AuthHeader:(16 bytes) Problem:""}`,
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
