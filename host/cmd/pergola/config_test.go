package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheck(t *testing.T) {
	const head = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\n"
	for name, test := range map[string]struct {
		reason string
		text   string
		want   []string // none if the file can be used
	}{
		"good":     {reason: "a host can use it", text: head + "workers: 5\n"},
		"mistakes": {reason: "all are told", text: head + "workers: 0\ntimeouts: {pickup: soon}\n", want: []string{"workers: expected a number", "timeouts.pickup: expected a duration"}},
		"another":  {reason: "it is something else", text: "apiVersion: v1\nkind: ConfigMap\n", want: []string{"apiVersion: expected", "kind: expected"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "host.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := pergola(t, "config", "check", file)
			if len(test.want) == 0 {
				if err != nil || out != file+" is a HostConfiguration that a host can use\n" {
					t.Errorf("%s: found %q, %v", test.reason, out, err)
				}
				return
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), file+": "+want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
		})
	}
}
