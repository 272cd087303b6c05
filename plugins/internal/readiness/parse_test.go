package readiness_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func tryParse(t testing.TB, document string) (readiness.Checks, field.ErrorList) {
	t.Helper()
	var c managedresource.ReadinessCheckConfiguration
	if err := json.Unmarshal([]byte(document), &c); err != nil {
		t.Fatal(err)
	}
	return readiness.ParseChecks(c, field.NewPath("readinessChecks"))
}

func parse(t testing.TB, document string) readiness.Checks {
	t.Helper()
	checks, problems := tryParse(t, document)
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	return checks
}

// checks returns a configuration.
func checks(custom ...string) string { return `{"custom":[` + strings.Join(custom, ",") + `]}` }

// checkOf returns a check.
func checkOf(name, selector string, requirements ...string) string {
	return fmt.Sprintf(`{"name":%q,%s,"requirements":[%s]}`, name, selector, strings.Join(requirements, ","))
}

// requires returns a requirement; the values are JSON.
func requires(path, operator string, values ...string) string {
	for i, v := range values {
		values[i] = `{"value":` + v + `}`
	}
	return fmt.Sprintf(`{"jsonPath":%q,"operator":%q,"values":[%s]}`, path, operator, strings.Join(values, ","))
}

// objects returns a selector of objects in the namespace NS. The kind is apiVersion and kind.
func objects(kind string, names ...string) string {
	apiVersion, kind, _ := strings.Cut(kind, " ")
	var refs []string
	for _, name := range names {
		refs = append(refs, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"namespace":"NS"}`, apiVersion, kind, name))
	}
	return `"resourceSelector":[` + strings.Join(refs, ",") + `]`
}

// labelled returns a selector of objects by labels, without their braces.
func labelled(kind, labels string) string {
	apiVersion, kind, _ := strings.Cut(kind, " ")
	return fmt.Sprintf(`"labelSelector":{"apiVersion":%q,"kind":%q,"matchLabels":{%s}}`, apiVersion, kind, labels)
}

func TestParseChecksRefuses(t *testing.T) {
	t.Parallel()
	configtest.Suite{Files: "testdata/checks.yaml", Read: func(t *testing.T, document []byte, _ bool) []sdk.Problem {
		t.Helper()
		_, problems := tryParse(t, string(document))
		var found []sdk.Problem
		for _, p := range problems {
			if strings.Contains(p.Error(), "hunter2") {
				t.Errorf("expected no value in %q", p)
			}
			found = append(found, sdk.Problem{Field: p.Field, Message: p.ErrorBody()})
		}
		return found
	}}.Run(t)
	values := slices.Repeat([]string{"1"}, 1001)
	tooMany := checks(checkOf("c", objects("v1 ConfigMap", "a"), requires(".a", "in", values...)))
	if _, problems := tryParse(t, tooMany); len(problems) != 1 {
		t.Errorf("expected too many values, but found %v", problems)
	}
}
