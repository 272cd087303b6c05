package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const theSecret = "t0ps3cret"

// credited is a deployer that takes credentials, and tells of those that it has got. A test may do that; the rules
// forbid it.
type credited struct{ echo }

// received is what a plugin has got of credentials.
type received struct {
	Registries, ChartRepositories []map[string]string
	Context                       *v1alpha1.Context
}

func receivedOf(req *sdk.Request) received {
	r := received{Context: req.Context}
	for _, c := range req.Credentials.Registries {
		r.Registries = append(r.Registries, map[string]string{"secret": c.Secret, "config": string(c.DockerConfig),
			"problem": c.Problem})
	}
	for _, c := range req.Credentials.ChartRepositories {
		r.ChartRepositories = append(r.ChartRepositories, map[string]string{"url": c.URL, "ca": string(c.CAData),
			"header": c.AuthHeader, "problem": c.Problem})
	}
	return r
}

func (credited) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	got := receivedOf(req)
	return &sdk.Response{Exports: map[string]any{
		"Registries": got.Registries, "ChartRepositories": got.ChartRepositories, "Context": got.Context,
	}}, nil
}

func (credited) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	document, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Seen", "received": receivedOf(req)})
	return &sdk.RenderResponse{Children: []sdk.Child{{Name: "a", Object: document}}}, err
}

// creditedCall is one with credentials, for an item of this name.
func creditedCall(item string) Call {
	return Call{
		DeployItem: deployItem(item),
		Context: &v1alpha1.Context{
			ObjectMeta: metav1.ObjectMeta{Name: "context"},
			ContextConfiguration: v1alpha1.ContextConfiguration{Configurations: map[string]runtime.RawExtension{
				"helmChartRepoCredentials": {Raw: []byte(`{"auths":[{"authHeader":"` + theSecret + `"}]}`)},
				"other":                    {Raw: []byte(`{"a":1}`)},
			}},
		},
		Credentials: &sdk.Credentials{
			Registries: []sdk.RegistryCredentials{{Secret: "pull", DockerConfig: []byte(theSecret)},
				{Secret: "gone", Problem: "there is none"}},
			ChartRepositories: []sdk.ChartRepositoryCredentials{
				{URL: "https://a", CAData: []byte("PEM"), AuthHeader: "Bearer " + theSecret}, {Problem: "no URL"},
			},
		},
	}
}

// Credentials come with each kind of call to the plugin that takes them, whole and in order; the Context is without
// them.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := start(t, "credited")
	p := h.plugin("credited")
	if !p.Info().Capabilities.ContextCredentials {
		t.Error("the plugin says that it takes them")
	}
	want := received{
		Registries: []map[string]string{
			{"secret": "pull", "config": theSecret, "problem": ""}, {"secret": "gone", "config": "", "problem": "there is none"},
		},
		ChartRepositories: []map[string]string{
			{"url": "https://a", "ca": "PEM", "header": "Bearer " + theSecret, "problem": ""},
			{"url": "", "ca": "", "header": "", "problem": "no URL"},
		},
		Context: &v1alpha1.Context{
			ObjectMeta:           metav1.ObjectMeta{Name: "context"},
			ContextConfiguration: v1alpha1.ContextConfiguration{Configurations: map[string]runtime.RawExtension{"other": {Raw: []byte(`{"a":1}`)}}},
		},
	}
	c := creditedCall("item")
	expect := func(name string, document []byte, err error) {
		t.Helper()
		var got received
		if err == nil {
			err = json.Unmarshal(document, &got)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	outcome, err := p.Call(t.Context(), Reconcile, c, &observer{})
	if err != nil || outcome.Succeeded == nil {
		t.Fatalf("%v, %v", outcome, err)
	}
	expect("Reconcile", outcome.Succeeded.Exports, nil)
	var seen struct{ Received json.RawMessage }
	rendered, err := p.Render(t.Context(), c)
	if err != nil || len(rendered.Children) != 1 {
		t.Fatalf("Render: %+v, %v", rendered, err)
	}
	expect("Render", seen.Received, json.Unmarshal(rendered.Children[0].Object, &seen))
	for _, record := range h.log.all() {
		if text, err := json.Marshal(record); err != nil || strings.Contains(string(text), theSecret) {
			t.Errorf("the log has credentials: %s (%v)", text, err)
		}
	}
}

// No credentials are handed to a plugin that has not asked for them, whoever has read them, and neither are those in
// the Context itself.
func TestCredentialsAreWithheld(t *testing.T) {
	t.Parallel()
	outcome, err := start(t, "raw").plugin("raw").Call(t.Context(), Reconcile, creditedCall("credentials"), &observer{})
	if err != nil || outcome.Succeeded == nil {
		t.Fatalf("%+v, %v", outcome, err)
	}
	var got struct {
		Given   bool
		Context string
	}
	if err := json.Unmarshal(outcome.Succeeded.Exports, &got); err != nil {
		t.Fatal(err)
	}
	if got.Given || strings.Contains(got.Context, theSecret) || !strings.Contains(got.Context, `"other"`) {
		t.Errorf("expected the Context without credentials and nothing else, but found %+v", got)
	}
}

// Somebody has asked a plugin that took none, and which was replaced by one that does: the caller asks again.
func TestCredentialsThatWereNotRead(t *testing.T) {
	t.Parallel()
	p := start(t, "credited").plugin("credited")
	c := creditedCall("item")
	c.Credentials = nil
	_, err := p.Call(t.Context(), Reconcile, c, &observer{})
	_, renderErr := p.Render(t.Context(), c)
	if !errors.Is(err, ErrNotRunning) || !errors.Is(renderErr, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found %v and %v", err, renderErr)
	}
	c.Credentials = &sdk.Credentials{}
	if outcome, err := p.Call(t.Context(), Reconcile, c, &observer{}); err != nil || outcome.Succeeded == nil {
		t.Errorf("a Context may name none, but found %+v, %v", outcome, err)
	}
}
