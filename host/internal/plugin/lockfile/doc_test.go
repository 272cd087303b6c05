package lockfile_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
)

// The documentation shows a lock file as it is written, and a key that is one.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/plugin-lock.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) != 2 {
		t.Fatalf("expected a lock file and a configuration, but found %d examples", len(examples))
	}
	file, err := lockfile.Parse("the example", []byte(examples[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(file.Marshal()), examples[0][1]); diff != "" {
		t.Errorf("(-written +documented):\n%s", diff)
	}
	_, keys, _ := strings.Cut(examples[1][1], "publicKeys:\n  - ")
	if _, err := lockfile.ParsePublicKey(keys); err != nil {
		t.Error(err)
	}
}
