package plugin

import (
	"context"
	"fmt"
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

// checkSum says why the program in a file must not be run: sum, its SHA-256, is not that of the profile, or the profile
// has none although one is required.
func (p Profile) checkSum(file, sum string, required bool) error {
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
			"file there that is meant, or set the field to its checksum, and restart the host",
			p.SHA256, entry, file, sum)
	}
}

// checkProfile tells what is wrong with a plugin of this name in this file: the profile of one plugin must not be
// applied to another, nor be passed over because of the name of a file. profiles are by the names of files.
func checkProfile(profiles map[string]Profile, file, name string) error {
	if profile, ok := profiles[file]; ok {
		if profile.Plugin == name {
			return nil
		}
		return fmt.Errorf("calls itself %q, but the host configuration says that the file %s is that of plugins.%s; set "+
			"the field file there",
			name, file, profile.Plugin)
	}
	for other, profile := range profiles {
		if profile.Plugin == name {
			return fmt.Errorf("calls itself %q, but the host configuration says that the file of plugins.%s is %s; set the "+
				"field file there to %q",
				name, name, other, file)
		}
	}
	return nil
}
