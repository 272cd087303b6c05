package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// privileges are the capabilities a node needs, by their bits. Root of a
// container may lack them.
var privileges = []struct {
	name string
	bit  int
}{
	{"CAP_NET_ADMIN", 12},
	{"CAP_SYS_ADMIN", 21},
}

// CheckNodeRequirements returns an error that names what this machine lacks
// for a cluster with a node, and the command that installs it.
func CheckNodeRequirements() error {
	if os.Geteuid() != 0 {
		return errors.New("a node needs root, and this is another user: use sudo, or leave out --node")
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	lacking, err := lackingPrivileges(string(status))
	if err != nil {
		return err
	}
	if len(lacking) > 0 {
		return fmt.Errorf("a node needs %s, which root lacks here: run the container privileged, or leave out --node",
			strings.Join(lacking, ", "))
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
	if len(packages) == 0 {
		return nil
	}
	return fmt.Errorf("a node needs %s, which this machine lacks: apt-get install -y %s",
		strings.Join(commands, ", "), strings.Join(slices.Compact(packages), " "))
}

// lackingPrivileges returns the names of the privileges that a process lacks,
// as /proc has its status.
func lackingPrivileges(status string) ([]string, error) {
	for line := range strings.Lines(status) {
		effective, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(effective), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("read capabilities: %w", err)
		}
		var lacking []string
		for _, p := range privileges {
			if bits&(1<<p.bit) == 0 {
				lacking = append(lacking, p.name)
			}
		}
		return lacking, nil
	}
	return nil, errors.New("read capabilities: the status of the process has no line CapEff")
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
