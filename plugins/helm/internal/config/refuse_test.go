package config_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/cases"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func TestConfigurations(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml", Schema: published,
		Objects: []string{"values", "matchLabels"}, Anything: []string{"fromResource"},
		Read: func(t *testing.T, document []byte, strict bool) []sdk.Problem {
			t.Helper()
			_, err := config.Read(requestOf(document), strict)
			problems := sdk.ProblemsOf(err)
			configtest.MustAgree(t, problems, err)
			return problems
		},
	}.Run(t)
}

// Rule (helm.md#deletion): Most errors of a configuration do not block its deletion.
// Rule (helm.md#deletion): An error in `helmDeployment`, `uninstall` or `deletionGroups` blocks the deletion.
func TestReadDeletion(t *testing.T) {
	t.Parallel()
	opaque := cmp.Comparer(func(prune.Groups, prune.Groups) bool { return true })
	cases.Run(t, "testdata/cases/deletion.yaml", func(t *testing.T, c struct {
		Changes         object
		Lenient, Groups bool
		Want            config.Deletion
		Says            []string
	},
	) {
		got, err := config.ReadDeletion(requestOf(mustMarshal(t, shop(c.Changes))), !c.Lenient)
		if c.Says != nil {
			mustBeConfigurationProblem(t, err, append(c.Says, "spec.config")...)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		isSame(t, "the deletion", &c.Want, got, opaque)
		isSame(t, "groups", c.Groups, !reflect.DeepEqual(prune.Groups{}, got.Groups))
	})
	got, err := config.ReadDeletion(requestOf(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	isSame(t, "a deletion without a configuration", &config.Deletion{HelmDeployment: true}, got, opaque)
}

func mustBeConfigurationProblem(t *testing.T, err error, texts ...string) {
	t.Helper()
	known, ok := errors.AsType[*sdk.Error](err)
	if !ok || known.Reason == "" || !slices.Contains(sdk.Codes(err), landscaper.ErrorConfigurationProblem) {
		t.Fatalf("expected a configuration problem with a reason, but found %#v: %v", known, err)
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
