package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

// Profile configures the process of one plugin. The zero value has the defaults.
type Profile struct {
	// Plugin is the required name of the plugin.
	Plugin string
	// SHA256 is the required hash of the program, in lower-case hexadecimal digits. Empty for any.
	SHA256 string
	// Image contains the program, instead of the plugin directory; see pluginimage.Parse. Empty for a file.
	Image string
	// Path of the program in the Image. Defaults to the file in the root.
	Path string
	// Args are the arguments of the program.
	Args []string
	// Environment names the host's variables for this plugin, beyond those for every plugin.
	Environment []string
	// Memory limits the bytes of the process and its children; zero for no limit.
	Memory uint64
	// OpenFiles limits the open files of the process; zero for the limit of the host.
	OpenFiles uint64
	// Confinement keeps the process from the files and processes of others.
	Confinement sandbox.Mode
	// Read and Write are further files and directories of a confined process.
	Read, Write []string
}

// confinement describes the confinement in force, for people.
func (p Profile) confinement() string {
	if p.Confinement == sandbox.Off {
		return "off"
	}
	return sandbox.Supported().String()
}

// Command prepares to run a program by this profile, with dirs as further writable directories. path is its first
// argument, env its environment but for handshake.ConfinedEnv, and files are its descriptors from 3 on.
func (p Profile) Command(
	ctx context.Context, program *os.File, path string, env []string, files []*os.File, dirs ...string,
) (*exec.Cmd, error) {
	if p.Confinement != sandbox.Off && sandbox.Supported().ABI > 0 {
		env = append(slices.Clone(env), handshake.ConfinedEnv+"=1")
	}
	return sandbox.Command(ctx, sandbox.Spec{
		Program: program, Path: path, Args: p.Args, Env: env, ExtraFiles: files, OpenFiles: p.OpenFiles,
		MemoryBytes: p.Memory,
		Confinement: p.Confinement, Read: p.Read, Write: append(dirs, p.Write...),
	})
}

// CheckSum compares sum, the SHA-256 of the program in a file, with the profile. Required: a profile without one is an
// error.
func (p Profile) CheckSum(file, sum string, required bool) error {
	entry := file
	if p.Plugin != "" {
		entry = p.Plugin
	}
	switch {
	case p.SHA256 == sum, p.SHA256 == "" && !required:
		return nil
	case p.SHA256 == "":
		return fmt.Errorf("expected a checksum in the host configuration, because verification is required, but "+
			"plugins.%s.sha256 is missing; the sha256 of %s is %s: set the field to it if the file is meant to be run",
			entry, file, sum)
	default:
		return fmt.Errorf("expected the sha256 %s of plugins.%s in the host configuration, but that of %s is %s; put the "+
			"intended file there, or set the field to its checksum, and restart the host",
			p.SHA256, entry, file, sum)
	}
}

// CheckName checks the name of the plugin in a file. The profile of one plugin must not be applied to another, nor be
// missed because of the name of a file. profiles are by the names of files.
func CheckName(profiles map[string]Profile, file, name string) error {
	if profile, ok := profiles[file]; ok {
		if profile.Plugin == name {
			return nil
		}
		return fmt.Errorf("calls itself %q, but the host configuration has the file %s for plugins.%s; set the "+
			"field file there",
			name, file, profile.Plugin)
	}
	for other, profile := range profiles {
		if profile.Plugin == name {
			return fmt.Errorf("calls itself %q, but the host configuration has the file %s for plugins.%s; set the "+
				"field file there to %q",
				name, other, name, file)
		}
	}
	return nil
}
