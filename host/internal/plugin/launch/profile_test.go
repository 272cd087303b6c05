package launch

import (
	"crypto/sha256"
	"encoding/hex"
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
