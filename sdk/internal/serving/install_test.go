package serving

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// installed is what install prints on standard output and standard error, and its exit code.
func installed(args ...string) (stdout, stderr string, code int) {
	var out, errOut bytes.Buffer
	code = install(&out, &errOut, "test", "1", args)
	return out.String(), errOut.String(), code
}

func TestInstall(t *testing.T) {
	t.Parallel()
	program, executableErr := os.Executable()
	want, err := os.ReadFile(program)
	if err := errors.Join(executableErr, err); err != nil {
		t.Fatal(err)
	}
	for file, args := range map[string][]string{"test": nil, "example.org_other": {"--as", "example.org_other"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, file)
		for range 2 { // as when the init container of a pod is run again
			stdout, stderr, code := installed(append([]string{"--to", dir}, args...)...)
			if diff := cmp.Diff("test 1 is installed as "+path+"\n", stdout); diff != "" || stderr != "" || code != 0 {
				t.Fatalf("exit code %d, stderr %q, stdout (-want +got):\n%s", code, stderr, diff)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(want, got) {
			t.Errorf("the file has %d bytes that are not the %d of this program (%v)", len(got), len(want), err)
		}
	}
}

func TestInstallSaysHow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const usage, refused = "; usage: test install --to DIR [--as NAME]", "test cannot be installed: "
	for _, test := range []struct {
		reason     string
		args       []string
		code       int
		begin, end string // of what is printed
	}{
		{
			"help is no error", []string{"--help"}, 0,
			"test install --to DIR [--as NAME]: ", "copies test into the plugin directory DIR of a host, as test or NAME",
		},
		{"nothing is said", nil, 2, refused, "--to: expected the plugin directory of a host, but found nothing" + usage},
		{
			"it is too much", []string{"--to", dir, "more"}, 2,
			refused, `expected nothing but --to and --as, but found "more"` + usage,
		},
		{"a flag is unknown", []string{"--from", dir}, 2, refused, "flag provided but not defined: -from" + usage},
		{
			"hosts ignore it", []string{"--to", dir, "--as", ".a"}, 2,
			refused, `as hosts pass over those, but found ".a"` + usage,
		},
		{"there is no directory", []string{"--to", dir + "/none"}, 1, refused, "create it, or mount a volume there"},
	} {
		printed, other, code := installed(test.args...)
		if code > 0 {
			printed, other = other, printed // an error goes to standard error
		}
		if code != test.code || other != "" || !strings.HasPrefix(printed, test.begin) ||
			!strings.HasSuffix(printed, test.end+"\n") {
			t.Errorf("%s: expected exit code %d and %q, but found %d, %q and %q",
				test.reason, test.code, test.begin+test.end, code, printed, other)
		}
	}
}
