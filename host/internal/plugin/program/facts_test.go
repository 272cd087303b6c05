package program

import (
	"strings"
	"testing"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	const self, other = 65532, 1000
	tests := map[string]struct {
		reason string
		facts  facts
		want   []string // parts of the refusal; nothing if it may be run
	}{
		"root's":       {"as in an image", facts{regular: true, mode: 0o555}, nil},
		"own":          {"the host could change its own memory as well", facts{regular: true, mode: 0o755, owner: self}, nil},
		"other's":      {"an owner can always write", facts{regular: true, mode: 0o555, owner: other}, []string{"belongs to the user 1000", "the user 65532 that the host runs as", "chown 0 /plugins/helm"}},
		"directory":    {"its mode says nothing", facts{mode: 0o777}, []string{"is no regular file"}},
		"set-uid":      {"and more is wrong", facts{regular: true, mode: 0o4775}, []string{"set-uid", "(mode 4775)", "chmod 0755 /plugins/helm"}},
		"capabilities": {"rights by another way", facts{regular: true, mode: 0o755, capabilities: true}, []string{"has file capabilities", "setcap -r /plugins/helm"}},
		"writable":     {"in octal digits, like chmod", facts{regular: true, mode: 0o020}, []string{"(mode 0020)", "chmod 0755 /plugins/helm"}},
		"mode":         {"nobody may execute it", facts{regular: true, mode: 0o444}, []string{"is not executable (mode 0444)", "chmod 0755 /plugins/helm"}},
		"noexec":       {"no mode helps", facts{regular: true, mode: 0o755, noExec: true}, []string{"mounted noexec", "mount /plugins without", "install --to DIR"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.facts.refusal("/plugins/helm", self)
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("%s: expected the refusal %q, but found: %v", test.reason, test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
		})
	}
}
