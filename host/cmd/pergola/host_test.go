package main

import (
	"path/filepath"
	"testing"
)

// TestErrorsSayWhatToDo starts hosts, each of which sets the logger of klog for the process: it stands in a file before
// those with tests that watch, because a watch may log when its test has ended.
func TestErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	kubeconfig := " --plugin-dir " + dir + " --kubeconfig "
	nobody := kubeconfigFor(t, "http://127.0.0.1:1")
	const unreachable = "the API server http://127.0.0.1:1 cannot be reached: connect: connection refused"
	const install = "`pergola crds | kubectl create -f -`"
	other := writeFile(t, "c.yaml", "apiVersion: v1\nkind: HostConfiguration\n")
	garbage, bare, nowhere := writeFile(t, "garbage", "{"), withoutCRDs(t), filepath.Join(dir, "nowhere")
	expectErrors(t, exitNo, []errorCase{
		{"no level", "host --log-level loud", []string{"--log-level", "debug, info, warn or error", `"loud"`}},
		{"no format", "host --log-format xml", []string{"--log-format", "json or text", `"xml"`}},
		{"no name", "host --identity ", []string{"--identity", "expected 1 to 253 printable characters"}},
		{"no address", "host --listen-address x", []string{"--listen-address", ":8080", `"x"`}},
		{"no file", "host --config " + nowhere, []string{"read the host configuration", nowhere, "no such file"}},
		{"which flag is missing", "host", []string{"--kubeconfig", "$KUBECONFIG"}},
		{"no kubeconfig", "host" + kubeconfig + nowhere, []string{"find the cluster", nowhere, "no such file"}},
		{"no kubeconfig in it", "host" + kubeconfig + garbage, []string{"find the cluster", garbage}},
		{"who does not answer", "host" + kubeconfig + nobody, []string{unreachable}},
		{"how to install definitions", "host" + kubeconfig + bare, []string{install}},
		{"how to install definitions, too", "host --standalone" + kubeconfig + bare, []string{install}},
		{"another version", "config check " + other, []string{"c.yaml: apiVersion: expected"}},
	}...)
	items := "items list --kubeconfig " + nobody
	expectErrors(t, exitFailure, errorCase{"the same for items", items, []string{unreachable}})
	t.Setenv("KUBECONFIG", nowhere)
	expectErrors(t, exitNo, errorCase{"the file", "host", []string{"find the cluster", nowhere, "--kubeconfig"}})
}

func TestIdentity(t *testing.T) {
	t.Setenv("MY_POD_NAME", "pergola-0")
	if got := defaultIdentity(); got != "pergola-0" {
		t.Errorf("expected the pod's name, but found %q", got)
	}
	t.Setenv("MY_POD_NAME", "")
	if defaultIdentity() == "" {
		t.Error("a host has an identity outside of a pod, too")
	}
}
