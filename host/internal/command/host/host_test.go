package host

import (
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
)

// TestErrorsSayWhatToDo starts hosts, each of which sets the logger of klog for the process: it stands in a file before
// those with tests that watch, because a watch may log when its test has ended.
func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	kubeconfig := " --plugin-dir " + dir + " --kubeconfig "
	nobody := commandtest.Kubeconfig(t, "http://127.0.0.1:1")
	const unreachable = "the API server http://127.0.0.1:1 cannot be reached: connect: connection refused"
	other := commandtest.WriteFile(t, "c.yaml", "apiVersion: v1\nkind: HostConfiguration\n")
	garbage := commandtest.WriteFile(t, "garbage", "{")
	nowhere := filepath.Join(dir, "nowhere")
	pergola.ExpectErrors(t, cli.ExitNo, []commandtest.ErrorCase{
		{"no file", "host --config " + nowhere, []string{"read the host configuration", nowhere, "no such file"}},
		{"which flag is missing", "host", []string{"--kubeconfig", "$KUBECONFIG"}},
		{"no kubeconfig", "host" + kubeconfig + nowhere, []string{"find the cluster", nowhere, "no such file"}},
		{"no kubeconfig in it", "host" + kubeconfig + garbage, []string{"find the cluster", garbage}},
		{"no answer", "host" + kubeconfig + nobody, []string{unreachable}},
		{"another version", "config check " + other, []string{"c.yaml: apiVersion: expected"}},
	}...)
	t.Setenv("KUBECONFIG", nowhere)
	pergola.ExpectErrors(t, cli.ExitNo,
		commandtest.ErrorCase{"the file", "host", []string{"find the cluster", nowhere, "--kubeconfig"}})
}
