// Package sandbox starts a program with limits and, where the kernel offers it, confined to its own files.
//
// Only a process itself can give up rights. So Command starts the running binary once more, as a launcher: it puts the
// limits on itself, confines itself with Landlock and then becomes the program, by execve; process id, group and parent
// stay. The program is executed by its open descriptor, so the verified bytes run, whatever happens to the path.
//
// # The launcher
//
// Each binary with this package is a launcher: the package's init function takes over a process with the first argument
// "pergola-launcher", and does not return. Packages are initialised in the order of their imports and then of their
// paths, so this one comes before the Kubernetes libraries: a program starts in 7 ms like this, and in 25 ms from main.
//
// A launcher that cannot execute the program writes the reason to standard error, and exits with one of two codes.
//
// # Limits
//
// MemoryBytes is for the program's Go runtime, as GOMEMLIMIT, and for the kernel, as a limit on how much memory of its
// own it maps (RLIMIT_DATA), some way above because programs map more than they use. The kernel has no limit on
// resident memory: the host watches it with SessionBytes. When memory becomes short all the same, the kernel kills the
// program before it kills the host. No program dumps core, and none gains rights by executing files (set-uid files,
// file capabilities).
//
// # Confinement
//
// A confined program reads and executes the system's programs and libraries, reads the files of name resolution, TLS
// and language runtimes in /etc, /proc and /sys, and writes its own directories; base_linux.go has the lists. It sees
// no secrets of the host's pod, no files of other programs, and of /proc only its own process. It signals and traces
// only its own descendants, and these are confined as well. The network is open to it: deployers talk to clusters.
//
// Landlock binds rules to the files of the start. The replacement of a single file is unreadable, unless it lies below
// a readable directory.
//
// Limits and confinement are Linux' own. On other systems programs run without, by their path.
package sandbox

import (
	"errors"
	"fmt"
	"os"
)

// Mode decides on a program without confinement by the kernel.
type Mode int

const (
	// Off does not confine.
	Off Mode = iota
	// Auto confines as far as the kernel can, and not at all where it cannot.
	Auto
	// Required does not start a program that the kernel cannot confine.
	Required
)

// The exit codes of a launcher.
const (
	// ExitNotStarted: the program could not be executed.
	ExitNotStarted = 125
	// ExitNotExecutable: it could not, and the same open file never can. Shells answer so, too.
	ExitNotExecutable = 126
)

// Spec says what to run and how.
type Spec struct {
	// Program is open for reading. It may be closed when the command was started. A script is executed by its interpreter,
	// which reads it through a descriptor of its own that stays open.
	Program *os.File
	// Path is the program's name for itself, its first argument. Nothing is opened by it.
	Path string
	// Args are the further arguments.
	Args []string
	// Env is the whole environment. Only GOMEMLIMIT is added, where there is a limit to memory and no such variable.
	Env []string
	// ExtraFiles are the descriptors from 3 on.
	ExtraFiles []*os.File

	// OpenFiles is how many descriptors the program may have. 0 leaves this process' original limits.
	OpenFiles uint64
	// MemoryBytes is the intended size of the program; see the package comment. 0 sets no limit.
	MemoryBytes uint64

	// Confinement is Off unless set.
	Confinement Mode
	// Read are further files and directories to read and execute.
	Read []string
	// Write are those to change as well, such as the program's directories for temporary files and sockets. Missing paths
	// are ignored, here and in Read.
	Write []string
}

// Support describes the means of the kernel to confine a program.
type Support struct {
	// ABI is the version of Landlock's interface, 0 without Landlock.
	ABI int
	// Reason explains a lack of Landlock to people.
	Reason string
}

// The features of versions of Landlock's interface.
const (
	abiRename      = 2 // renaming from one directory to another can be allowed
	abiDevices     = 5
	abiScopes      = 6
	abiUnixSockets = 9
)

// String describes the confinement in force for confined programs: "landlock (ABI 7): files, devices, signals,
// abstract sockets" or "none: the kernel was built without Landlock".
func (s Support) String() string {
	if s.ABI == 0 {
		return "none: " + s.Reason
	}
	kinds := "files"
	for _, kind := range []struct {
		since int
		name  string
	}{{abiDevices, "devices"}, {abiScopes, "signals, abstract sockets"}, {abiUnixSockets, "sockets"}} {
		if s.ABI >= kind.since {
			kinds += ", " + kind.name
		}
	}
	return fmt.Sprintf("landlock (ABI %d): %s", s.ABI, kinds)
}

// check fails if a program must be confined and cannot be. The error is errors.ErrUnsupported.
func (s Support) check(mode Mode) error {
	if mode == Required && s.ABI == 0 {
		return fmt.Errorf("cannot confine it: confinement is required, but there is none: %s; run on Linux 5.13 or later "+
			"with landlock "+
			"among the modules of lsm=, or do not require it (%w)", s.Reason, errors.ErrUnsupported)
	}
	return nil
}
