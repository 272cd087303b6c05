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

// withRequirement returns a configuration with one check of a ConfigMap.
func withRequirement(requirement string) string {
	return fmt.Sprintf(`{"custom":[{"name":"c","resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespace":"n"}],
		"requirements":[%s]}]}`, requirement)
}

func TestParseChecksRefuses(t *testing.T) {
	t.Parallel()
	const at = "readinessChecks.custom[0]"
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
			document: `{"custom":[{"name":"c","resourceSelector":[{"apiVersion":"v1","kind":"A","name":"a"},{}],"requirements":[{"jsonPath":".a","operator":"exists"}]}]}`,
			want:     []string{at + ".resourceSelector[1].apiVersion", at + ".resourceSelector[1].kind", at + ".resourceSelector[1].name"},
		},
		"no labels": {
			reason:   "nobody means all objects",
			document: `{"custom":[{"name":"c","labelSelector":{},"requirements":[{"jsonPath":".a","operator":"exists"}]}]}`,
			want:     []string{at + ".labelSelector.apiVersion", at + ".labelSelector.kind", at + ".labelSelector.matchLabels"},
		},
		"bad labels": {
			reason:   "labels have rules",
			document: `{"custom":[{"name":"c","labelSelector":{"apiVersion":"v1","kind":"A","matchLabels":{"a b":"c"}},"requirements":[{"jsonPath":".a","operator":"exists"}]}]}`,
			want:     []string{at + ".labelSelector.matchLabels"},
		},
		"disabled": {
			reason: "a disabled check must be right, too", document: `{"custom":[{"name":"","disabled":true,"labelSelector":{"apiVersion":"v1","kind":"A","matchLabels":{"a":"b"}},
				"requirements":[{"jsonPath":".a","operator":"exists"}]}]}`,
			want: []string{at + ".name"},
		},
		"empty requirement": {
			reason: "a requirement needs both", document: withRequirement(`{}`),
			want: []string{at + ".requirements[0].jsonPath", at + ".requirements[0].operator"},
		},
		"path": {
			reason: "a path must be one", document: withRequirement(`{"jsonPath":"{.a","operator":"exists"}`),
			want: []string{at + ".requirements[0].jsonPath"},
		},
		"operator": {
			reason: "operators of other places are none here", document: withRequirement(`{"jsonPath":".a","operator":"gt","values":[{"value":1}]}`),
			want: []string{at + ".requirements[0].operator"},
		},
		"value for exists": {
			reason: "it would be passed over", document: withRequirement(`{"jsonPath":".a","operator":"exists","values":[{"value":1}]}`),
			want: []string{at + ".requirements[0].values"},
		},
		"value for !": {
			reason: "it would be passed over", document: withRequirement(`{"jsonPath":".a","operator":"!","values":[{"value":1}]}`),
			want: []string{at + ".requirements[0].values"},
		},
		"two values": {
			reason: "which?", document: withRequirement(`{"jsonPath":".a","operator":"=","values":[{"value":1},{"value":2}]}`),
			want: []string{at + ".requirements[0].values"},
		},
		"no value": {
			reason: "with what?", document: withRequirement(`{"jsonPath":".a","operator":"!="}`),
			want: []string{at + ".requirements[0].values"},
		},
		"none of none": {
			reason: "among what?", document: withRequirement(`{"jsonPath":".a","operator":"notin","values":[]}`),
			want: []string{at + ".requirements[0].values"},
		},
		"too many": {
			reason: "their number is bounded", document: withRequirement(`{"jsonPath":".a","operator":"in","values":[` + strings.Repeat(`{"value":1},`, 1000) + `{"value":1}]}`),
			want: []string{at + ".requirements[0].values"},
		},
		"values": {
			reason:   "a value is in a map of its own, and null is none",
			document: withRequirement(`{"jsonPath":".a","operator":"in","values":[{"value":1},"secret",{},{"value":null},null,{"value":1,"b":"secret","a":"secret"},["secret"]]}`),
			want: []string{
				at + ".requirements[0].values[1]", at + ".requirements[0].values[2].value", at + ".requirements[0].values[3].value", at + ".requirements[0].values[4]",
				at + ".requirements[0].values[5].a", at + ".requirements[0].values[5].b", at + ".requirements[0].values[6]",
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
