package serving

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// installed is what install prints on standard output and standard error, and its exit code.
func installed(args ...string) (stdout, stderr string, code int) {
	var out, errOut bytes.Buffer
	code = Install(&out, &errOut, "test", "1", args)
	return out.String(), errOut.String(), code
}

func TestInstall(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(program)
	if err != nil {
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

func TestInstallHelp(t *testing.T) {
	t.Parallel()
	stdout, _, code := installed("--help")
	const want = "test install --to DIR [--as NAME]: " +
		"copies test into the plugin directory DIR of a host, as test or NAME\n"
	if stdout != want || code != 0 {
		t.Errorf("expected %q, but found %q with exit code %d", want, stdout, code)
	}
}

func TestInstallIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const usage = "; usage: test install --to DIR [--as NAME]"
	for _, test := range []struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		{"nothing is said", nil, 2, "--to: expected the plugin directory of a host, but found nothing" + usage},
		{"it is too much", []string{"--to", dir, "more"}, 2, `expected nothing but --to and --as, but found "more"` + usage},
		{"a flag is unknown", []string{"--from", dir}, 2, "flag provided but not defined: -from" + usage},
		{"hosts ignore it", []string{"--to", dir, "--as", ".a"}, 2, `as hosts pass over those, but found ".a"` + usage},
		{"there is no directory", []string{"--to", dir + "/none"}, 1, "create it, or mount a volume there"},
	} {
		stdout, stderr, code := installed(test.args...)
		if code != test.code || stdout != "" {
			t.Errorf("%s: expected exit code %d, but found %d, stdout %q", test.reason, test.code, code, stdout)
		}
		if !strings.HasPrefix(stderr, "test cannot be installed: ") || !strings.HasSuffix(stderr, test.want+"\n") {
			t.Errorf("%s: expected %q, but found %q", test.reason, test.want, stderr)
		}
	}
}
