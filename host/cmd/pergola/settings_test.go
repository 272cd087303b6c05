package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

const configHead = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\n"

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSettings(t *testing.T) {
	t.Parallel()
	const file = configHead + "identity: file\nworkers: 5\nlistenAddress: 127.0.0.1:1\nlog: {level: warn, format: text}\n"
	const bad = configHead + "log: {level: loud}\ntypo: 1\n"
	cases := map[string]struct {
		reason string
		file   string
		args   []string
		want   func(*config.HostConfiguration)
		errs   []string
	}{
		"nothing": {reason: "defaults", want: func(*config.HostConfiguration) {}},
		"flags": {
			reason: "without a file", args: []string{"--identity", "me", "--listen-address", ":1", "--log-level", "debug", "--log-format", "text"},
			want: func(c *config.HostConfiguration) {
				c.Identity, c.ListenAddress, c.Log = "me", ":1", config.Log{Level: "debug", Format: "text"}
			},
		},
		"file": {
			reason: "the defaults of flags override nothing", file: file,
			want: func(c *config.HostConfiguration) {
				c.Identity, c.Workers, c.ListenAddress, c.Log = "file", 5, "127.0.0.1:1", config.Log{Level: "warn", Format: "text"}
			},
		},
		"file and flags": {
			reason: "flags that are given do", file: file, args: []string{"--identity", "me", "--log-level", "info"},
			want: func(c *config.HostConfiguration) {
				c.Identity, c.Workers, c.ListenAddress, c.Log = "me", 5, "127.0.0.1:1", config.Log{Level: "info", Format: "text"}
			},
		},
		"flag with the value of its default": {
			reason: "it is given nevertheless", file: file, args: []string{"--listen-address", ":8080"},
			want: func(c *config.HostConfiguration) {
				c.Identity, c.Workers, c.ListenAddress, c.Log = "file", 5, ":8080", config.Log{Level: "warn", Format: "text"}
			},
		},
		"bad file": {
			reason: "all errors", file: bad,
			errs: []string{"host.yaml: typo: unknown field", `host.yaml: log.level: expected debug, info, warn or error, but found "loud"`},
		},
		"bad flags": {
			reason: "all errors", args: []string{"--identity", "", "--listen-address", "x", "--log-level", "loud", "--log-format", "xml"},
			errs: []string{"--listen-address: ", "--identity: ", "--log-level: ", "--log-format: "},
		},
		"bad file and flag": {
			reason: "a flag hides no error of the file", file: bad, args: []string{"--log-level", "louder"},
			errs: []string{"host.yaml: typo: ", `host.yaml: log.level: expected debug, info, warn or error, but found "loud"`, `--log-level: expected debug, info, warn or error, but found "louder"`},
		},
		"bad file, good flag": {reason: "nor does a good one", file: bad, args: []string{"--log-level", "info"}, errs: []string{"host.yaml: typo: ", "host.yaml: log.level: "}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags, cmd := &hostFlags{}, &cobra.Command{}
			flags.addTo(cmd)
			if tc.file != "" {
				tc.args = append(tc.args, "--config", writeFile(t, "host.yaml", tc.file))
			}
			if err := cmd.ParseFlags(tc.args); err != nil {
				t.Fatal(err)
			}
			got, err := flags.settings(cmd.Flags().Changed, "host")
			if len(tc.errs) > 0 {
				if err == nil || got != nil {
					t.Fatalf("%s: expected nothing but errors, but found %v", tc.reason, err)
				}
				lines := strings.Split(err.Error(), "\n")
				if len(lines) != len(tc.errs) {
					t.Fatalf("%s: expected %d errors, but found:\n%v", tc.reason, len(tc.errs), err)
				}
				for i, want := range tc.errs {
					if !strings.Contains(lines[i], want) {
						t.Errorf("%s: expected %q in %q", tc.reason, want, lines[i])
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := config.Default("host")
			tc.want(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// A configuration with errors is refused before anything else is looked at, such as a cluster that is not there.
func TestBadConfigStartsNothing(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "bad.yaml", "workers: 0\ntimeouts: {pickup: soon}\ntypo: 1\n")
	out, err := pergola(t, "host", "--config", file, "--kubeconfig", "/nowhere", "--plugin-dir", "/nowhere")
	if err == nil || out != "" {
		t.Fatalf("expected an error and nothing else, but found %v, %q", err, out)
	}
	var printed bytes.Buffer
	report(&printed, err)
	want := strings.ReplaceAll(`error: FILE: typo: unknown field
error: FILE: apiVersion: expected "host.pergola.dev/v1alpha1", but found ""
error: FILE: kind: expected "HostConfiguration", but found ""
error: FILE: workers: expected a number from 1 to 1000, but found 0
error: FILE: timeouts.pickup: expected a duration such as 10m or 1h30m, or "none", but found "soon"
`, "FILE", file)
	if diff := cmp.Diff(want, printed.String()); diff != "" {
		t.Errorf("standard error (-want +got):\n%s", diff)
	}
}

func TestClusterConfig(t *testing.T) {
	t.Parallel()
	kubeconfig := writeFile(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`)
	unlimited, err := clusterConfig(kubeconfig, config.Client{})
	if err != nil {
		t.Fatal(err)
	}
	if unlimited.QPS != -1 || unlimited.RateLimiter != nil {
		t.Errorf("expected no limit, but found %v, %v", unlimited.QPS, unlimited.RateLimiter)
	}
	// So slow that nothing is added to the burst while the test runs.
	limited, err := clusterConfig(kubeconfig, config.Client{QPS: 0.001, Burst: 3})
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for range 10 {
		if limited.RateLimiter.TryAccept() {
			accepted++
		}
	}
	if accepted != 3 || limited.RateLimiter.QPS() != 0.001 {
		t.Errorf("expected a burst of 3 at 0.001 a second, but found %d at %v", accepted, limited.RateLimiter.QPS())
	}
}
