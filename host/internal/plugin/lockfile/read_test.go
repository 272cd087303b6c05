package lockfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
)

// Whoever may write a lock file that nobody has signed says what is run.
func TestLoadWhatOthersMayWrite(t *testing.T) {
	t.Parallel()
	public, private := pair(t)
	keys := []lockfile.PublicKey{public}
	const stranger = 12345
	tests := map[string]struct {
		reason string
		mode   fs.FileMode
		owner  int
		keys   []lockfile.PublicKey
		want   []string // parts of the refusal; nothing if it is read
	}{
		"ours":               {"as `pergola plugins lock` writes it", 0o644, os.Geteuid(), nil, nil},
		"read-only":          {"as it is mounted", 0o444, os.Geteuid(), nil, nil},
		"group":              {"another user may be in it", 0o664, os.Geteuid(), nil, []string{"its group or everybody (mode 0664)", "chmod 0644 ", "publicKeys"}},
		"others":             {"anybody", 0o646, os.Geteuid(), nil, []string{"(mode 0646)", "chmod 0644 "}},
		"stranger":           {"an owner can always write", 0o444, stranger, nil, []string{"belongs to the user 12345", fmt.Sprintf("the user %d that the host runs as", os.Geteuid()), "chown 0 ", "publicKeys"}},
		"signed, others":     {"only who has the key changes it", 0o666, os.Geteuid(), keys, nil},
		"signed, stranger's": {"only who has the key changes it", 0o644, stranger, keys, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.owner != os.Geteuid() && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			path := filepath.Join(t.TempDir(), "plugins.lock")
			put(t, path, []byte(golden))
			put(t, path+".minisig", signHashed(t, private, []byte(golden)))
			for _, file := range []string{path, path + ".minisig"} {
				if err := errors.Join(os.Chown(file, test.owner, -1), os.Chmod(file, test.mode)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := lockfile.Load(path, test.keys)
			if refused := len(test.want) > 0; errors.Is(err, lockfile.ErrExposed) != refused || (err != nil) != refused {
				t.Fatalf("%s: expected the refusal %q, but found: %v", test.reason, test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
		})
	}
}
