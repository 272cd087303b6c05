package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
)

// A profile confines its program to the directory of the process and to its own places; see sandbox for what is
// forbidden then.
func TestConfinement(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, own, other := filepath.Join(dir, "secrets", "token"), filepath.Join(dir, "own"), filepath.Join(dir, "other")
	for _, directory := range []string{filepath.Dir(token), own, other} {
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(token, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := `read line <"$1" && echo $line; echo own >"$2/file" && echo own; echo other >"$3/file" && echo other; exit 0`
	for name, test := range map[string]struct {
		profile Profile
		want    string
		shown   string // part of the description
	}{
		"confined":     {Profile{Confinement: sandbox.Auto}, "own\n", "landlock"},
		"reads":        {Profile{Confinement: sandbox.Auto, Read: []string{filepath.Dir(token)}}, "token\nown\n", "landlock"},
		"writes":       {Profile{Confinement: sandbox.Auto, Write: []string{other}}, "own\nother\n", "landlock"},
		"not confined": {Profile{}, "token\nown\nother\n", "off"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.profile.Confinement == sandbox.Auto && sandbox.Supported().ABI == 0 {
				t.Skip("the kernel cannot confine: " + sandbox.Supported().String())
			}
			shell, err := os.Open("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = shell.Close() }()
			test.profile.Args = []string{"-c", script, "sh", token, own, other}
			cmd, err := test.profile.Command(t.Context(), shell, "sh", nil, nil, own)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := cmd.Output(); err != nil || string(got) != test.want {
				t.Errorf("expected %q, but found %q (%v)", test.want, got, err)
			}
			if shown := test.profile.confinement(); !strings.Contains(shown, test.shown) {
				t.Errorf("expected %q to be shown, but found %q", test.shown, shown)
			}
		})
	}
}

// Rule (SECURITY.md#plugins): With verification a program without a checksum in the configuration is refused.
func TestCheckSum(t *testing.T) {
	t.Parallel()
	found := sha256.Sum256([]byte("program"))
	same, other := hex.EncodeToString(found[:]), strings.Repeat("ab", 32)
	for _, test := range []struct {
		reason   string
		profile  Profile
		required bool
		want     []string // in the error; none if it may be run
	}{
		{"nobody asks", Profile{}, false, nil},
		{"it is the one", Profile{Plugin: "p", SHA256: same}, false, nil},
		{"it is the one", Profile{Plugin: "p", SHA256: same}, true, nil},
		{"a sum that is given counts", Profile{Plugin: "p", SHA256: other}, false,
			[]string{other + " of plugins.p", "of file is " + same, "or set the field"}},
		{"it is another one", Profile{Plugin: "p", SHA256: other}, true, []string{other, same}},
		{"an entry without a sum", Profile{Plugin: "p"}, true, []string{"plugins.p.sha256 is missing",
			"of file is " + same + ": set the field to it"}},
		{"no entry", Profile{}, true, []string{"plugins.file.sha256 is missing", same}},
	} {
		err := test.profile.CheckSum("file", same, test.required)
		if (err == nil) != (test.want == nil) {
			t.Errorf("%s: found the error %v", test.reason, err)
		}
		for _, want := range test.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
			}
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	all := map[string]Profile{"helm": {Plugin: "helm"}, "deployer-v2": {Plugin: "deployer"}}
	for name, test := range map[string]struct {
		reason     string
		file, name string
		want       string
	}{
		"own":          {"the file that the profile is for", "helm", "helm", ""},
		"own, by file": {"the profile names it", "deployer-v2", "deployer", ""},
		"none":         {"there is no profile for either", "other", "other", ""},
		"of another plugin": {"its limits are for another one", "helm", "manifest",
			`calls itself "manifest", but the host configuration has the file helm for plugins.helm`},
		"in another file": {"its own limits were passed over", "deployer-v3", "deployer",
			`has the file deployer-v2 for plugins.deployer; set the field file there to "deployer-v3"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckName(all, test.file, test.name)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}
