package readiness_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestOperators compares with a model that knows nothing of types: it writes each value in one way only, and compares the texts.
func TestOperators(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		found := rapid.SliceOfN(drawJSON(2), 0, 3).Draw(t, "found")
		operator := rapid.SampledFrom([]string{"!", "exists", "=", "==", "!=", "in", "notin"}).Draw(t, "operator")
		expected := drawExpected(t, operator, found)

		var values []string
		for _, e := range expected {
			values = append(values, `{"value":`+e+`}`)
		}
		met := runRequirement(t, found, operator, values)
		if want := model(t, found, operator, expected); met != want {
			t.Errorf("%v %s %v: expected %t, but found %t", found, operator, expected, want, met)
		}
	})
}

// drawJSON draws documents that are often equal although they are written in different ways.
func drawJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		most := 1
		if depth > 0 {
			most = 3
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"1", "1.0", "1e0", "10e-1", "1.5", "9007199254740993", "9007199254740992", "9007199254740992.0", "-1", "0", "-0"}).Draw(t, "number")
		case 1:
			return rapid.SampledFrom([]string{`"1"`, `"a"`, `"\u0061"`, `""`, "true", "false", "null"}).Draw(t, "scalar")
		case 2:
			return "[" + strings.Join(rapid.SliceOfN(drawJSON(depth-1), 0, 2).Draw(t, "list"), ", ") + "]"
		default:
			var entries []string
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID[string]).Draw(t, "keys") {
				entries = append(entries, fmt.Sprintf("%q:%s", key, drawJSON(depth-1).Draw(t, "entry")))
			}
			return "{" + strings.Join(entries, ",") + "}"
		}
	})
}

// drawExpected draws as many values as the operator takes, often among those that are found.
func drawExpected(t *rapid.T, operator string, found []string) []string {
	candidates := drawJSON(2)
	if len(found) > 0 {
		candidates = rapid.OneOf(rapid.SampledFrom(found), candidates)
	}
	candidates = candidates.Filter(func(s string) bool { return s != "null" })
	switch operator {
	case "!", "exists":
		return nil
	case "in", "notin":
		return rapid.SliceOfN(candidates, 1, 3).Draw(t, "expected")
	default:
		return []string{candidates.Draw(t, "expected")}
	}
}

func runRequirement(t *rapid.T, found []string, operator string, values []string) bool {
	var c managedresource.ReadinessCheckConfiguration
	document := fmt.Sprintf(`{"custom":[{"name":"c","resourceSelector":[{"apiVersion":"example.org/v1","kind":"Thing","name":"a"}],
		"requirements":[{"jsonPath":".found[*]","operator":%q,"values":[%s]}]}]}`, operator, strings.Join(values, ","))
	if err := json.Unmarshal([]byte(document), &c); err != nil {
		t.Fatal(err)
	}
	checks, problems := readiness.ParseChecks(c, field.NewPath("readinessChecks"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	o := &unstructured.Unstructured{}
	document = `{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"a"},"found":[` + strings.Join(found, ",") + `]}`
	if err := utiljson.Unmarshal([]byte(document), &o.Object); err != nil {
		t.Fatal(err)
	}
	v, err := checks.Run(t.Context(), []*unstructured.Unstructured{o}, nil, noTarget, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return len(v.Waiting) == 0
}

func model(t *rapid.T, found []string, operator string, expected []string) bool {
	var canonical []string
	for _, e := range expected {
		canonical = append(canonical, write(t, e))
	}
	missing, unfit := len(found) == 0, false
	for _, f := range found {
		if f == "null" {
			missing = true
			continue
		}
		among := slices.Contains(canonical, write(t, f))
		switch operator {
		case "!":
			unfit = true
		case "=", "==", "in":
			unfit = unfit || !among
		case "!=", "notin":
			unfit = unfit || among
		}
	}
	if operator == "!" {
		return !unfit
	}
	return !missing && !unfit
}

// write writes a document in the one way that all documents of the same value have.
func write(t *rapid.T, document string) string {
	decoder := json.NewDecoder(strings.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return writeValue(t, value)
}

func writeValue(t *rapid.T, value any) string {
	switch value := value.(type) {
	case json.Number:
		number, ok := new(big.Rat).SetString(value.String())
		if !ok {
			t.Fatalf("%s is no number", value)
		}
		return number.String()
	case []any:
		out := "["
		for _, inner := range value {
			out += writeValue(t, inner) + ";"
		}
		return out + "]"
	case map[string]any:
		out := "{"
		for _, key := range []string{"a", "b"} {
			if inner, ok := value[key]; ok {
				out += key + ":" + writeValue(t, inner) + ";"
			}
		}
		return out + "}"
	default:
		return fmt.Sprintf("%T %v", value, value)
	}
}
