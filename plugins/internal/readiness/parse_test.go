package readiness_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func decode(t testing.TB, document string) managedresource.ReadinessCheckConfiguration {
	t.Helper()
	var c managedresource.ReadinessCheckConfiguration
	if err := json.Unmarshal([]byte(document), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(t testing.TB, document string) readiness.Checks {
	t.Helper()
	checks, problems := readiness.ParseChecks(decode(t, document), field.NewPath("readinessChecks"))
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

// withRequirement returns a configuration with one check of a ConfigMap.
func withRequirement(requirement string) string {
	return checks(checkOf("c", objects("v1 ConfigMap", "a"), requirement))
}

func TestParseChecksRefuses(t *testing.T) {
	t.Parallel()
	const at, values = "readinessChecks.custom[0]", "readinessChecks.custom[0].requirements[0].values"
	exists := requires(".a", "exists")
	for name, c := range map[string]struct {
		reason, document string
		want             []string
	}{
		"nothing": {
			reason: "all problems are told at once", document: `{"custom":[{"name":"","requirements":[]}]}`,
			want: []string{at, at + ".name", at + ".requirements"},
		},
		"references": {
			reason:   "an object needs a name and a kind",
			document: checks(checkOf("c", `"resourceSelector":[{"apiVersion":"v1","kind":"A","name":"a"},{}]`, exists)),
			want: []string{
				at + ".resourceSelector[1].apiVersion", at + ".resourceSelector[1].kind",
				at + ".resourceSelector[1].name",
			},
		},
		"no labels": {
			reason: "all objects are hardly meant", document: checks(checkOf("c", `"labelSelector":{}`, exists)),
			want: []string{
				at + ".labelSelector.apiVersion", at + ".labelSelector.kind", at + ".labelSelector.matchLabels",
			},
		},
		"bad labels": {
			reason: "labels have rules", document: checks(checkOf("c", labelled("v1 A", `"a b":"c"`), exists)),
			want: []string{at + ".labelSelector.matchLabels"},
		},
		"disabled": {
			reason:   "a disabled check must be right, too",
			document: checks(checkOf("", `"disabled":true,`+labelled("v1 A", `"a":"b"`), exists)),
			want:     []string{at + ".name"},
		},
		"empty requirement": {
			reason: "a requirement needs both", document: withRequirement(`{}`),
			want: []string{at + ".requirements[0].jsonPath", at + ".requirements[0].operator"},
		},
		"path": {
			reason: "a path must be one", document: withRequirement(requires("{.a", "exists")),
			want: []string{at + ".requirements[0].jsonPath"},
		},
		"operator": {
			reason: "operators of other places are none here", document: withRequirement(requires(".a", "gt", "1")),
			want: []string{at + ".requirements[0].operator"},
		},
		"value for exists": {
			reason: "it would be passed over", document: withRequirement(requires(".a", "exists", "1")),
			want: []string{values},
		},
		"value for !": {
			reason: "it would be passed over", document: withRequirement(requires(".a", "!", "1")),
			want: []string{values},
		},
		"two values": {
			reason: "which?", document: withRequirement(requires(".a", "=", "1", "2")),
			want: []string{values},
		},
		"no value": {
			reason: "with what?", document: withRequirement(requires(".a", "!=")),
			want: []string{values},
		},
		"none of none": {
			reason: "among what?", document: withRequirement(requires(".a", "notin")),
			want: []string{values},
		},
		"too many": {
			reason:   "their number is bounded",
			document: withRequirement(requires(".a", "in", slices.Repeat([]string{"1"}, 1001)...)),
			want:     []string{values},
		},
		"values": {
			reason: "a value is in a map of its own, and null is none",
			document: withRequirement(`{"jsonPath":".a","operator":"in","values":[{"value":1},"secret",{},{"value":null},null,
				{"value":1,"b":"secret","a":"secret"},["secret"]]}`),
			want: []string{
				values + "[1]", values + "[2].value", values + "[3].value", values + "[4]",
				values + "[5].a", values + "[5].b", values + "[6]",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := readiness.ParseChecks(decode(t, c.document), field.NewPath("readinessChecks"))
			var got []string
			for _, p := range problems {
				got = append(got, p.Field)
				if strings.Contains(p.Error(), "secret") {
					t.Errorf("expected no value in %q", p)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
