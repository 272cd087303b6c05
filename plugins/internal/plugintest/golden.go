package plugintest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Update is the flag -update: golden files and scenarios are written anew.
var Update = flag.Bool("update", false, "write the golden files and the scenarios anew")

// Golden compares objects with the documents of a YAML file in testdata. With the flag -update it writes the file.
func Golden(t testing.TB, file string, objects ...any) {
	t.Helper()
	documents := make([][]byte, 0, len(objects))
	for _, o := range objects {
		document, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	found, golden := bytes.Join(documents, []byte("---\n")), filepath.Join("testdata", file)
	if *Update {
		if err := os.WriteFile(golden, found, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(found)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}
