package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func newPlugin(t *testing.T) *sdktest.Plugin {
	t.Helper()
	return sdktest.New(t, &deployer{}, options()...)
}

func call(change func(*mockv1alpha1.ProviderConfiguration)) sdktest.Call {
	config := mockv1alpha1.ProviderConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: mockv1alpha1.GroupVersion, Kind: mockv1alpha1.Kind},
	}
	change(&config)
	return sdktest.Call{DeployItem: sdktest.DeployItem(mockv1alpha1.Type, config)}
}

func inPhase(phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItemPhase { return &phase }

func raw(document string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(document)} }

func TestConformance(t *testing.T) {
	sdktest.Conform(t, newPlugin(t),
		sdktest.Case{Name: "without a field", Call: call(func(*mockv1alpha1.ProviderConfiguration) {})},
		sdktest.Case{Name: "with a provider status and exports", Call: call(func(c *mockv1alpha1.ProviderConfiguration) {
			c.ProviderStatus = raw(`{"apiVersion":"example.org/v1","kind":"Status"}`)
			c.Export = raw(`{"key":"value"}`)
		})})
}

func TestReconcile(t *testing.T) {
	const status = `{"apiVersion":"example.org/v1","kind":"Status","note":1}`
	type want struct {
		Succeeded, InProgress bool
		Exports               map[string]any
		Status                string
		Reason, Mentions      string
	}
	cases := map[string]struct {
		reason string
		config func(*mockv1alpha1.ProviderConfiguration)
		want   want
	}{
		"nothing": {
			reason: "a job without any wish succeeds",
			config: func(*mockv1alpha1.ProviderConfiguration) {},
			want:   want{Succeeded: true},
		},
		"succeeded": {
			reason: "what is configured comes with the success",
			config: func(c *mockv1alpha1.ProviderConfiguration) {
				c.Phase, c.ProviderStatus, c.Export = inPhase(v1alpha1.DeployItemPhaseSucceeded), raw(status), raw(`{"a":{"b":true}}`)
			},
			want: want{Succeeded: true, Exports: map[string]any{"a": map[string]any{"b": true}}, Status: status},
		},
		"failed": {
			reason: "a failed job keeps its provider status",
			config: func(c *mockv1alpha1.ProviderConfiguration) {
				c.Phase, c.ProviderStatus = inPhase(v1alpha1.DeployItemPhaseFailed), raw(status)
			},
			want: want{Reason: "MockFailed", Mentions: "Failed", Status: status},
		},
		"progressing": {
			reason: "a phase of a job under way never ends",
			config: func(c *mockv1alpha1.ProviderConfiguration) { c.Phase = inPhase(v1alpha1.DeployItemPhaseProgressing) },
			want:   want{InProgress: true},
		},
		"initial phase": {
			reason: "an initial phase keeps the job from succeeding",
			config: func(c *mockv1alpha1.ProviderConfiguration) { c.InitialPhase = inPhase(v1alpha1.DeployItemPhaseInit) },
			want:   want{InProgress: true},
		},
		"both phases": {
			reason: "phase wins",
			config: func(c *mockv1alpha1.ProviderConfiguration) {
				c.InitialPhase, c.Phase = inPhase(v1alpha1.DeployItemPhaseInit), inPhase(v1alpha1.DeployItemPhaseSucceeded)
			},
			want: want{Succeeded: true},
		},
		"no phase": {
			reason: "what is no phase is an error, not a job that never ends",
			config: func(c *mockv1alpha1.ProviderConfiguration) { c.Phase = inPhase("Finished") },
			want:   want{Reason: sdk.ReasonConfigInvalid, Mentions: "Finished"},
		},
		"exports are no object": {
			reason: "the message names the field",
			config: func(c *mockv1alpha1.ProviderConfiguration) { c.Export = raw(`[1]`) },
			want:   want{Reason: sdk.ReasonConfigInvalid, Mentions: "spec.config.export"},
		},
		"another kind": {
			reason: "a configuration for another deployer is refused",
			config: func(c *mockv1alpha1.ProviderConfiguration) { c.APIVersion = "example.org/v1" },
			want:   want{Reason: sdk.ReasonConfigInvalid, Mentions: mockv1alpha1.GroupVersion},
		},
	}
	plugin := newPlugin(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := plugin.Reconcile(t.Context(), call(tc.config))
			got := want{Succeeded: result.Succeeded != nil, InProgress: result.InProgress != nil, Status: string(result.ProviderStatus)}
			if result.Succeeded != nil {
				got.Exports = result.Succeeded.Exports
			}
			if result.Failed != nil {
				got.Reason = result.Failed.Errors[0].Reason
				if strings.Contains(result.Failed.Errors[0].Message, tc.want.Mentions) {
					got.Mentions = tc.want.Mentions
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%s", tc.reason, diff, result)
			}
		})
	}
}
