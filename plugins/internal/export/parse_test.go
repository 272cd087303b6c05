package export_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	path := field.NewPath("exports", "exports")
	configtest.Suite{Files: "testdata/exports.yaml", Read: func(t *testing.T, document []byte, _ bool) []sdk.Problem {
		t.Helper()
		var exports managedresource.Exports
		if err := json.Unmarshal(document, &exports); err != nil {
			t.Fatal(err)
		}
		values, problems := export.Parse(&exports, path)
		if (len(problems) > 0) != (len(values) == 0) {
			t.Errorf("expected values or problems, but found %v and %v", values, problems)
		}
		var found []sdk.Problem
		for _, p := range problems {
			found = append(found, sdk.Problem{Field: p.Field, Message: p.ErrorBody()})
		}
		return found
	}}.Run(t)
	if values, problems := export.Parse(nil, path); values != nil || problems != nil {
		t.Errorf("no exports are no values, but found %v and %v", values, problems)
	}
}
