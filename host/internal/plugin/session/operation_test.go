package session

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const theSecret = "t0ps3cret"

// fullCall is one with everything that a call can have.
func fullCall() Call {
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "item"},
		Status:     v1alpha1.DeployItemStatus{JobID: "job"},
	}
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"n":9007199254740993}`)}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"kind":"Status"}`)}
	return Call{
		DeployItem: item,
		Target:     &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content"},
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
		OCMConfig: &sdk.OCMConfig{ConfigMap: "places", Content: []byte("{}"), Problem: "b"},
		Children:  []sdk.Child{{Name: "a", Object: json.RawMessage(`{"n":9007199254740993}`)}},
	}
}

func marshalled(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A call begins with what the plugin has asked for and nothing else.
func TestStart(t *testing.T) {
	t.Parallel()
	full := fullCall()
	bare := full.DeployItem.DeepCopy()
	bare.Spec.Config, bare.Status.ProviderStatus = nil, nil
	plain := &v1alpha1.Context{ObjectMeta: full.Context.ObjectMeta, ContextConfiguration: v1alpha1.ContextConfiguration{
		Configurations: map[string]runtime.RawExtension{"other": {Raw: []byte(`{"a":1}`)}}}}
	base := func(change func(*deployerv1.Start)) *deployerv1.Start {
		start := &deployerv1.Start{
			JobId: "job", DeployItem: marshalled(t, full.DeployItem), Target: marshalled(t, full.Target),
			Context: marshalled(t, plain), Children: &deployerv1.Children{Children: []*deployerv1.Child{
				{Name: "a", Object: full.Children[0].Object}}},
		}
		change(start)
		return start
	}
	for name, test := range map[string]struct {
		reason string
		takes  hostside.Capabilities
		access HostCluster
		change func(*Call)
		want   *deployerv1.Start
	}{
		// Rule (SECURITY.md#plugins): A plugin gets credentials of the Context only if it asks for them.
		// Rule (SECURITY.md#plugins): A plugin gets the ConfigMap in `ocmConfig` of the Context only if it asks for it.
		"nothing asked for": {reason: "the item is whole, and the Context has no credentials", want: base(
			func(*deployerv1.Start) {})},
		"documents": {reason: "they come beside the item", takes: hostside.Capabilities{SeparateDocuments: true},
			want: base(func(s *deployerv1.Start) {
				s.DeployItem = marshalled(t, bare)
				s.ProviderConfiguration = full.DeployItem.Spec.Config.Raw
				s.ProviderStatus = full.DeployItem.Status.ProviderStatus.Raw
			})},
		"credentials": {reason: "whole and in order", takes: hostside.Capabilities{ContextCredentials: true},
			want: base(func(s *deployerv1.Start) {
				s.Credentials = &deployerv1.Credentials{
					Registries: []*deployerv1.RegistryCredentials{{Secret: "pull", DockerConfig: []byte(theSecret)},
						{Secret: "gone", Error: "there is none"}},
					ChartRepositories: []*deployerv1.ChartRepositoryCredentials{{Url: "https://a", CaData: []byte("PEM"),
						AuthHeader: "Bearer " + theSecret}, {Error: "no URL"}},
				}
			})},
		"no credentials": {reason: "a Context may name none", takes: hostside.Capabilities{ContextCredentials: true},
			change: func(c *Call) { c.Credentials = &sdk.Credentials{} },
			want:   base(func(s *deployerv1.Start) { s.Credentials = &deployerv1.Credentials{} })},
		"ocmConfig": {reason: "as it is", takes: hostside.Capabilities{ContextOCMConfig: true},
			want: base(func(s *deployerv1.Start) {
				s.OcmConfig = &deployerv1.OCMConfig{ConfigMap: "places", Content: []byte("{}"), Error: "b"}
			})},
		"no ocmConfig": {reason: "the Context of the test names none", takes: hostside.Capabilities{ContextOCMConfig: true},
			change: func(c *Call) { c.OCMConfig = nil }, want: base(func(*deployerv1.Start) {})},
		"access": {reason: "as it is granted", access: gives, want: base(func(s *deployerv1.Start) {
			s.HostCluster = &deployerv1.HostCluster{Kubeconfig: []byte(theSecret), Namespace: "pods", Installation: "here"}
		})},
		"children that nobody changed": {reason: "the plugin renders them", change: func(c *Call) { c.Children = nil },
			want: base(func(s *deployerv1.Start) { s.Children = nil })},
		"children that somebody removed": {reason: "that is something else", want: base(
			func(s *deployerv1.Start) { s.Children = &deployerv1.Children{} }),
			change: func(c *Call) { c.Children = []sdk.Child{} }},
		"no Target and no Context": {reason: "an item need not have them",
			change: func(c *Call) { c.Target, c.Context = nil, nil },
			want:   base(func(s *deployerv1.Start) { s.Target, s.Context = nil, nil })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fullCall()
			if test.change != nil {
				test.change(&c)
			}
			s := &Session{info: &hostside.Info{Capabilities: test.takes}, grants: Grants{HostCluster: test.access}}
			got, err := s.startOf(t.Context(), c)
			if diff := cmp.Diff(test.want, got, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("%s: error %v, start (-want +got):\n%s", test.reason, err, diff)
			}
			if diff := cmp.Diff(full.DeployItem, c.DeployItem); diff != "" {
				t.Errorf("%s: the caller's item has changed:\n%s", test.reason, diff)
			}
		})
	}
}

// A plugin that took less was replaced by one that takes more after the call was prepared: the caller asks again.
func TestCredentialsThatWereNotRead(t *testing.T) {
	t.Parallel()
	for name, takes := range map[string]hostside.Capabilities{
		"credentials": {ContextCredentials: true}, "ocmConfig": {ContextOCMConfig: true},
	} {
		c := fullCall()
		c.Credentials, c.OCMConfig = nil, nil
		c.Context.OCMConfig = &v1alpha1.LocalObjectReference{Name: "places"}
		s := &Session{info: &hostside.Info{Capabilities: takes}}
		if _, err := s.startOf(t.Context(), c); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: expected ErrNotRunning, but found %v", name, err)
		}
	}
}

func gives(context.Context) (*sdk.HostCluster, error) {
	return &sdk.HostCluster{Kubeconfig: []byte(theSecret), Namespace: "pods", Installation: "here"}, nil
}
