package config_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/manifest/internal/config"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func read(t *testing.T, document []byte, strict bool) []sdk.Problem {
	t.Helper()
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: document}
	_, err := config.Read(&sdk.Request{DeployItem: item}, strict)
	problems := sdk.ProblemsOf(err)
	configtest.MustAgree(t, problems, err)
	return problems
}

// Rule (manifest.md#the-manifest-deployer): All errors of a configuration are reported at once, before anything is
// changed.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	suite := configtest.Suite{
		Files: "testdata/[rv]*.yaml", Schema: configtest.NewSchema(config.Schema), Read: read,
		Objects: []string{"manifest", "patchAfterDeployment", "patchBeforeDelete", "values"},
	}
	suite.Run(t)
	suite.Files, suite.Objects = "testdata/older.yaml", []string{"manifests", "values"}
	suite.Run(t)
}
