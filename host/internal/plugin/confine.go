package plugin

import (
	"context"
	"os"
	"os/exec"
	"slices"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

// Profile says how the process of one plugin is run. The zero value stands for defaults.
type Profile struct {
	// Plugin is the name that the plugin must give itself.
	Plugin string
	// SHA256 of the program, in lower-case hexadecimal digits: another one is not run. Empty for any.
	SHA256 string
	// Image that the program is taken from, in the place of a file in the plugin directory; see pluginimage.Parse. Empty for
	// a file.
	Image string
	// Path of the program in the Image. Defaults to the file in the root.
	Path string
	// Args are the arguments of the program.
	Args []string
	// Environment are the names of variables of the host that the plugin gets beyond those that every plugin gets.
	Environment []string
	// Memory is how many bytes the process and its children may take; zero for no limit.
	Memory uint64
	// OpenFiles is how many files the process may have open; zero for as many as the host.
	OpenFiles uint64
	// Confinement says whether the process is kept from files and processes that are not its own.
	Confinement sandbox.Mode
	// Read and Write are files and directories that it may read, or read and write, although it is confined.
	Read, Write []string
}

// confinement says what keeps the process from what is not its own.
func (p Profile) confinement() string {
	if p.Confinement == sandbox.Off {
		return "off"
	}
	return sandbox.Supported().String()
}

// Command prepares to run a program by this profile, which may write to dirs as well. path is its name for itself, env
// all of its environment but for what tells that it is confined, and files are its descriptors from 3 on.
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
