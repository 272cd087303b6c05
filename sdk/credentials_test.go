package sdk_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// theSecret is part of all secrets of these tests.
const theSecret = "t0ps3cret"

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

// askedFor are the credentials that a deployer was called with, by operation.
type askedFor struct{ got map[string]*sdk.Credentials }

func (a askedFor) take(operation string, req *sdk.Request) (*sdk.Response, error) {
	a.got[operation] = req.Credentials
	return nil, nil
}

func (a askedFor) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return a.take("Reconcile", req)
}

func (a askedFor) Delete(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return a.take("Delete", req)
}

func (a askedFor) Abort(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return a.take("Abort", req)
}

func (a askedFor) ForceReconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return a.take("ForceReconcile", req)
}

func (a askedFor) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	_, err := a.take("Render", req)
	return nil, err
}

func (a askedFor) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	_, err := a.take("Diff", req)
	return nil, err
}

func TestCredentialsComeWithEachCall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		given  *sdk.Credentials
	}{
		"Some": {"all of it arrives, in order", credentials()},
		"None": {"the Context names none, and the host knows them", &sdk.Credentials{}},
		"Nil":  {"the host does not know them", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]*sdk.Credentials{}
			p := sdktest.New(t, askedFor{got}, append(options(), sdk.ContextCredentials())...)
			call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", document("")), Credentials: tc.given}
			p.Reconcile(t.Context(), call)
			p.Delete(t.Context(), call)
			p.Abort(t.Context(), call)
			p.ForceReconcile(t.Context(), call)
			if _, err := p.Render(t.Context(), call); err != nil {
				t.Error(err)
			}
			if _, err := p.Diff(t.Context(), call); err != nil {
				t.Error(err)
			}
			want := map[string]*sdk.Credentials{}
			for _, operation := range []string{"Reconcile", "Delete", "Abort", "ForceReconcile", "Render", "Diff"} {
				want[operation] = tc.given
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCapabilityContextCredentials(t *testing.T) {
	t.Parallel()
	strict := fake{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		return nil, req.DecodeConfig(&status{})
	}}
	with := sdktest.New(t, fake{}, append(options(), sdk.ContextCredentials())...)
	without := sdktest.New(t, fake{}, options()...)
	if !with.Info().Capabilities.ContextCredentials || without.Info().Capabilities.ContextCredentials {
		t.Error("expected the capability of the plugin that has the option, and of no other")
	}
	sdktest.Conform(t, sdktest.New(t, strict, append(options(), sdk.ContextCredentials())...), sdktest.Case{Name: "plain", Call: sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", document(""))}})
}

// Whoever logs a request for debugging must not publish what is in it.
func TestCredentialsAreNotPrinted(t *testing.T) {
	t.Parallel()
	given := credentials()
	req := &sdk.Request{DeployItem: &v1alpha1.DeployItem{}, Credentials: given}
	values := map[string]any{
		"request": req, "content of the request": *req, "credentials": given, "their content": *given,
		"registry": given.Registries[0], "registries": given.Registries, "pointer": &given.Registries[0],
		"repository": given.ChartRepositories[0], "repositories": given.ChartRepositories, "nested": map[string]any{"a": []any{given.ChartRepositories[0]}},
	}
	encoded := base64.StdEncoding.EncodeToString(given.Registries[0].DockerConfig) // as JSON has bytes
	shows := func(text string) bool { return strings.Contains(text, theSecret) || strings.Contains(text, encoded) }
	for name, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, value)
			if hex := fmt.Sprintf("%x", theSecret); strings.Contains(text, theSecret) || strings.Contains(text, hex) || strings.Contains(text, "116 48 112") {
				t.Errorf("%s with %s shows the secret: %s", name, verb, text)
			}
		}
		if text, err := json.Marshal(value); err == nil && shows(string(text)) {
			t.Errorf("%s as JSON shows the secret: %s", name, text)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("careless", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("careless", "value", value)
		if shows(log.String()) {
			t.Errorf("the log of %s shows the secret: %s", name, log.String())
		}
	}
	const want = `{Secret:"pull" DockerConfig:(52 bytes) Problem:""}`
	if got := fmt.Sprint(given.Registries[0]); got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
	const wantRepository = `{URL:"https://charts.example.org" CAData:(3 bytes) AuthHeader:(16 bytes) Problem:""}`
	if got := fmt.Sprint(given.ChartRepositories[0]); got != wantRepository {
		t.Errorf("expected %s, but found %s", wantRepository, got)
	}
}
