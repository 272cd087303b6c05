// Package cases has the cases of a test in a file: a table of texts and documents is YAML and not Go.
package cases

import (
	"bytes"
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
	for i := 1; i < len(pairs); i += 2 {
		quoted, _ := json.Marshal(pairs[i]) // a text always can be
		pairs[i] = string(quoted[1 : len(quoted)-1])
	}
	decoder := json.NewDecoder(bytes.NewBufferString(strings.NewReplacer(pairs...).Replace(string(content))))
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
