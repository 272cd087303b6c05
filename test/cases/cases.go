// Package cases has the cases of a test in a file: a table of texts and documents is YAML and not Go.
package cases

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Run runs a subtest for each case of a file, which has them by their names. A case has the fields of T and no others.
// The pairs replace texts of the file, such as "$LONG".
func Run[T any](t *testing.T, file string, test func(t *testing.T, c T), pairs ...string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		content, err = yaml.YAMLToJSONStrict(content)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var quoted []string // as parts of texts in JSON
	for _, text := range pairs {
		document, _ := json.Marshal(text) // a text always can be
		quoted = append(quoted, string(document[1:len(document)-1]))
	}
	decoder := json.NewDecoder(strings.NewReader(strings.NewReplacer(quoted...).Replace(string(content))))
	decoder.DisallowUnknownFields()
	var all map[string]T
	if err := decoder.Decode(&all); err != nil || len(all) == 0 {
		t.Fatalf("%s: found %d cases, and error %v", file, len(all), err)
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}
