package host

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/config"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	const file = commandtest.ConfigHead + "identity: file\nworkers: 5\n" +
		"listenAddress: ':1'\nlog: {level: warn, format: text}\n"
	const bad = commandtest.ConfigHead + "log: {level: loud}\ntypo: 1\n"
	loud := func(flag string) string { return flag + `: expected debug, info, warn or error, but found "loud"` }
	for _, tc := range []struct {
		reason, file, args string
		want               func(*config.HostConfiguration) // changes the defaults; nil for errors
		errs               []string
	}{
		{"defaults", "", "", func(*config.HostConfiguration) {}, nil},
		{
			"flags without a file", "", "--identity me --listen-address :1 --log-level debug --log-format text",
			func(c *config.HostConfiguration) {
				c.Identity, c.ListenAddress, c.Log = "me", ":1", config.Log{Level: "debug", Format: "text"}
			}, nil,
		},
		{
			"the defaults of flags override nothing", file, "",
			func(c *config.HostConfiguration) {
				c.Identity, c.Workers, c.ListenAddress, c.Log = "file", 5, ":1", config.Log{Level: "warn", Format: "text"}
			}, nil,
		},
		{
			"flags that are given do, also with the value of their default", file, "--identity me --listen-address :8080",
			func(c *config.HostConfiguration) {
				c.Identity, c.Workers, c.Log = "me", 5, config.Log{Level: "warn", Format: "text"}
			}, nil,
		},
		{
			"all errors of a file, of which a good flag hides none", bad, "--log-level info", nil,
			[]string{"host.yaml: typo: unknown field", "host.yaml: " + loud("log.level")},
		},
		{
			"all errors of flags", "", "--identity= --listen-address x --log-level loud --log-format xml", nil,
			[]string{
				"--listen-address: ", "--identity: expected 1 to 253 printable characters", loud("--log-level"),
				"--log-format: expected json or text",
			},
		},
		{
			"both", bad, "--log-level loud", nil,
			[]string{"host.yaml: typo: ", "host.yaml: " + loud("log.level"), loud("--log-level")},
		},
	} {
		flags, cmd, args := &hostFlags{}, &cobra.Command{}, strings.Fields(tc.args)
		flags.addTo(cmd)
		if tc.file != "" {
			args = append(args, "--config", commandtest.WriteFile(t, "host.yaml", tc.file))
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		got, err := flags.settings(cmd.Flags().Changed, "host")
		var want *config.HostConfiguration
		if tc.want != nil {
			want = config.Default("host")
			tc.want(want)
		}
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (tc.errs == nil) {
			t.Errorf("%s: found %v (-want +got):\n%s", tc.reason, err, diff)
		}
		if err == nil {
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for i, want := range tc.errs {
			if len(lines) != len(tc.errs) || !strings.Contains(lines[i], want) {
				t.Errorf("%s: expected %q, but found:\n%v", tc.reason, tc.errs, err)
			}
		}
	}
}
