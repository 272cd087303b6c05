package config_test

import (
	"encoding/json"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

type object = map[string]any

// document returns a provider configuration that is valid, with other fields; a field without a value is removed.
func document(fields object) object {
	all := object{
		"apiVersion": "container.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration", "image": "image:1",
	}
	maps.Copy(all, fields)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// read reads a provider configuration with the settings of an operator who says nothing.
func read(t *testing.T, value any, changes ...func(*settings.Settings)) (*config.Config, error) {
	t.Helper()
	s := settings.Default()
	for _, change := range changes {
		change(&s)
	}
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: marshal(t, value)}
	return config.Read(&sdk.Request{DeployItem: item}, &s, false)
}

func mustRead(t *testing.T, value any, changes ...func(*settings.Settings)) *config.Config {
	t.Helper()
	c, err := read(t, value, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems are those of a provider configuration, as texts.
func problems(t *testing.T, value any, resolves bool, changes ...func(*settings.Settings)) []string {
	t.Helper()
	s := settings.Default()
	for _, change := range changes {
		change(&s)
	}
	found, err := config.Validate(marshal(t, value), &s, resolves)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range found {
		texts = append(texts, p.Field+": "+p.Message)
	}
	return texts
}

func lenient(s *settings.Settings) { s.Strict = false }

func allowing(accounts ...string) func(*settings.Settings) {
	return func(s *settings.Settings) { s.ServiceAccounts = accounts }
}
