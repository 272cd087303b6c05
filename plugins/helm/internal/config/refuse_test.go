package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func TestConfigurations(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml", Schema: published,
		Objects: []string{"values", "matchLabels"}, Anything: []string{"fromResource"},
		Read: func(t *testing.T, document []byte, strict bool) []sdk.Problem {
			t.Helper()
			problems, err := config.Problems(document, strict)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Read(requestOf(document), strict)
			configtest.MustAgree(t, problems, err)
			return problems
		},
	}.Run(t)
}

func mustBeConfigurationProblem(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("expected an error")
	}
	if !slices.Contains(sdk.Codes(err), landscaper.ErrorConfigurationProblem) {
		t.Errorf("expected a configuration problem, but found codes %v", sdk.Codes(err))
	}
	var known *sdk.Error
	if !errors.As(err, &known) || known.Reason == "" {
		t.Errorf("expected an error with a reason, but found %#v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("expected an error with %q, but found: %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error repeats a value: %v", err)
	}
}
