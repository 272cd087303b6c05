package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// reader is a user who follows the page about the command line: with the items that it names, a host on the same machine, and the programs
// in the PATH.
type reader struct {
	namespace, dir string
	env            []string
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{namespace: newNamespace(t), dir: t.TempDir()}
	// The run directory is the usual one of this user, whose temporary files are elsewhere.
	plugins := pluginDir(t, "manifest", "mock")
	temporary, err := os.MkdirTemp("/tmp", "cli") //nolint:usetesting // that of tests is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(temporary); err != nil {
			t.Error(err)
		}
	})
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins, RunDir: filepath.Join(temporary, "pergola-"+strconv.Itoa(os.Geteuid())), Standalone: true})
	createTarget(t, r.namespace, "here")
	assets, err := testenv.Assets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(binaries, "pergola"), filepath.Join(r.dir, "pergola")); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "GORACE=halt_on_error=1", "KUBECONFIG="+kubeconfigFor(t, r.namespace), "PLUGIN_DIR="+plugins, "PLUGINS="+r.dir,
		"TMPDIR="+temporary, "PATH="+r.dir+":"+assets+":"+os.Getenv("PATH"))
	for name, config := range map[string]string{
		"broken": fmt.Sprintf(mockConfig, `,"phase":"Failed"`), "slow": fmt.Sprintf(mockConfig, `,"phase":"Progressing"`), "shop": manifestConfig(configMap(r.namespace, "settings", "green")),
	} {
		itemType := mockType
		if name == "shop" {
			itemType = manifestType
		}
		item := withTarget(newItem(r.namespace, name, itemType, config), "here")
		if name != "slow" {
			item.Labels = map[string]string{"team": "red"}
		}
		create(t, item)
	}
	return r
}

// kubeconfigFor writes the administrator's kubeconfig with a namespace in its context.
func kubeconfigFor(t *testing.T, namespace string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(controlPlane.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Contexts {
		c.Namespace = namespace
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// shell runs a line as the user's shell does.
func (r *reader) shell(t *testing.T, line string) printed {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.env, &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return printed{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// watch runs a line that goes on, until it has printed a line, and interrupts it.
func (r *reader) watch(t *testing.T, line string) printed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+line)
	cmd.Env = r.env
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout) // until it has ended
	_ = cmd.Wait()                     // the code says it
	return printed{stdout: first, code: cmd.ProcessState.ExitCode()}
}

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	codeInText = regexp.MustCompile(`# exit code (\d)`)
)

// TestCommandLinePage: each line of the page about the command line does what the page says, with the exit code that it says.
func TestCommandLinePage(t *testing.T) {
	r := newReader(t)
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	r.shell(t, "pergola items wait shop broken --for finished").expect(t, 0)
	ran := 0
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			code := 0
			if said := codeInText.FindStringSubmatch(line); said != nil {
				code = int(said[1][0] - '0')
			}
			ran++
			switch {
			case strings.Contains(line, "--watch"):
				r.watch(t, line).expect(t, code, "NAME")
			case strings.Contains(line, "--replicas"): // they need pods: see TestPluginsListReplicas; here the flags are checked
				command, _, _ := strings.Cut(line, "#")
				r.shell(t, command+" --help").expect(t, 0)
			case strings.Contains(line, "diff"): // the Secret of the Target and the plugins are there, and nothing has changed
				r.shell(t, line).expect(t, code, "Nothing to change.")
			default:
				r.shell(t, line).expect(t, code)
			}
		}
	}
	if ran < 25 {
		t.Errorf("expected the page to show the commands, but found %d lines", ran)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r.shell(t, "pergola completion "+shell).expect(t, 0, "pergola")
	}
	r.shell(t, `"$PLUGINS/kubectl_complete-pergola" items show sh`).expect(t, 0, "shop")
	r.shell(t, "kubectl pergola --help").expect(t, 0, "kubectl pergola [command]")
	r.shell(t, "kubectl pergola items nonsense").expect(t, 2, `there is no command "kubectl pergola items nonsense"`)
}

// TestItemsTellOfARealJob: what list, show, tree and trace tell is what a host and its plugins have done.
func TestItemsTellOfARealJob(t *testing.T) {
	r := newReader(t)
	r.shell(t, "pergola items wait shop").expect(t, 0, "shop: succeeded")
	r.shell(t, "pergola items list -o wide").expect(t, 0, "shop", "Succeeded", "done", "broken", "Failed", "slow", "running")
	r.shell(t, "pergola items show shop").expect(t, 0, "manifest", "Objects:      1; pergola items tree", "kubernetes-cluster, https://")
	r.shell(t, "pergola items tree shop").expect(t, 0, "└─ ConfigMap "+r.namespace+"/settings  Ready")
	r.shell(t, "pergola items trace shop").expect(t, 0, "cluster  ", "host  ", "Set", "PickedUp", "Call", "Ended")
	r.shell(t, "pergola items journal shop").expect(t, 0, r.namespace, "Reconcile", "Succeeded")

	before := read(t, &v1alpha1.DeployItem{ObjectMeta: newItem(r.namespace, "shop", manifestType, "").ObjectMeta}).Status.JobID
	r.shell(t, "pergola items trigger shop --wait").expect(t, 0, "a new job begins", "shop: reached: succeeded")
	after := read(t, &v1alpha1.DeployItem{ObjectMeta: newItem(r.namespace, "shop", manifestType, "").ObjectMeta}).Status
	if after.JobID == before || after.JobIDFinished != after.JobID {
		t.Errorf("expected another job that is finished, but found %s after %s", after.JobID, before)
	}
	r.shell(t, "pergola items trace shop --job "+before).expect(t, 0, "Job "+before, "host  ", "Ended")
	r.shell(t, "pergola items abort slow --wait").expect(t, 0, "slow: reached: ended")
	r.shell(t, "pergola items wait slow").expect(t, 1, "Aborted")
	r.shell(t, "kubectl delete di shop --wait=false && pergola items wait shop --for deleted").expect(t, 0, "shop: deleted")
}
