package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// required are the commands a node needs and the Debian packages they are in.
var required = []struct{ command, aptPackage string }{
	{"containerd", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"nft", "nftables"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"mount", "mount"},
}

// networkPlugins are the CNI plugins a node needs, and where the
// distributions' package containernetworking-plugins puts them.
var (
	networkPlugins    = []string{"ptp", "host-local", "loopback"}
	networkPluginDirs = []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"}
)

// CheckNodeRequirements returns an error that names what this machine lacks for a cluster with a node, and the command
// that installs it.
func CheckNodeRequirements() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root, and this is another user: use sudo, or leave out --node")
	}
	var commands, packages []string
	for _, r := range required {
		if _, err := exec.LookPath(r.command); err != nil {
			commands = append(commands, r.command)
			packages = append(packages, r.aptPackage)
		}
	}
	if _, err := networkPluginDir(); err != nil {
		commands = append(commands, "CNI plugins")
		packages = append(packages, "containernetworking-plugins")
	}
	if len(packages) > 0 {
		return fmt.Errorf("a node needs %s, which this machine lacks: apt-get install -y %s",
			strings.Join(commands, ", "), strings.Join(slices.Compact(packages), " "))
	}
	// Root of a container may lack CAP_SYS_ADMIN or CAP_NET_ADMIN, or its system calls are filtered.
	for _, argv := range [][]string{{"ip", "link", "set", "lo", "up"}, {"mount", "--make-rshared", "/"}} {
		trial := exec.Command(argv[0], argv[1:]...)
		trial.SysProcAttr = &syscall.SysProcAttr{Unshareflags: ownNamespaces}
		if err := run(trial); err != nil {
			return fmt.Errorf("a node needs CAP_SYS_ADMIN and CAP_NET_ADMIN, and here root cannot use them (%w): "+
				"run the container privileged, or leave out --node", err)
		}
	}
	return nil
}

// networkPluginDir returns the directory that holds the CNI plugins.
func networkPluginDir() (string, error) {
	for _, dir := range networkPluginDirs {
		missing := slices.ContainsFunc(networkPlugins, func(plugin string) bool {
			_, err := os.Stat(filepath.Join(dir, plugin))
			return err != nil
		})
		if !missing {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find CNI plugins %s in %s: %w",
		strings.Join(networkPlugins, ", "), strings.Join(networkPluginDirs, ", "), os.ErrNotExist)
}
