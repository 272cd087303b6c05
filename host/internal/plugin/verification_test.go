package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		err := test.profile.checkSum("file", same, test.required)
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

// requireSums has a host run no other programs than those that are in the directory now.
func requireSums(t *testing.T, dir string) func(*Options) {
	t.Helper()
	files, _, err := discover(dir, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	profiles := map[string]Profile{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		profiles[file] = Profile{Plugin: strings.Split(file, "_")[1], SHA256: hex.EncodeToString(sum[:])}
	}
	return func(o *Options) { o.RequireSums, o.Profiles = true, profiles }
}

// A program that is not the one that is meant, or that nobody has named, does not run, and leaves the others alone.
func TestVerification(t *testing.T) {
	t.Parallel()
	dir := copies(t, "raw_a_one", "raw_b_two")
	require := requireSums(t, dir)
	appendTo(t, filepath.Join(dir, "raw_a_one"))
	addPlugin(t, filepath.Join(dir, "raw_b_two"), filepath.Join(dir, "raw_c_three"))
	h := openHost(t, dir, require).run()
	h.waitFor("raw_b_two", Running)
	for file, want := range map[string]string{"raw_a_one": "of plugins.a in the host configuration",
		"raw_c_three": "plugins.raw_c_three.sha256 is missing"} {
		if s := h.waitFor(file, Refused); !strings.Contains(s.Problem.Error(), want) {
			t.Errorf("expected %s to be refused with %q, but found: %v", file, want, s.Problem)
		}
	}
}

// copies returns a plugin directory whose files are not shared with those of other tests.
func copies(t *testing.T, files ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o755); err != nil { // #nosec G306 -- a program
			t.Fatal(err)
		}
	}
	return dir
}

// appendTo changes a program in a way that does not keep it from running.
func appendTo(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("x")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestProfiles(t *testing.T) {
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
			`calls itself "manifest", but the host configuration says that the file helm is that of plugins.helm`},
		"in another file": {"its own limits were passed over", "deployer-v3", "deployer",
			`says that the file of plugins.deployer is deployer-v2; set the field file there to "deployer-v3"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkProfile(all, test.file, test.name)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}
