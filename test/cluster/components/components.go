// Package components is what the programs of a test cluster have in common: several of them are one binary, and the
// name it is called by chooses which, so that symbolic links stand in for separate binaries. Called by any other name,
// the first argument chooses.
//
// The programs share most of their code, so that a binary of several builds in a fraction of the time and takes a
// fraction of the space. They are two binaries, because a control plane alone is of use before there is a node.
package components

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	// Registrations the upstream main packages make.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// Main is the main function of a binary. The programs are main functions that read os.Args and return the exit status.
func Main(programs map[string]func() int) {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	program := programs[name]
	if program == nil {
		names := strings.Join(slices.Sorted(maps.Keys(programs)), "|")
		fmt.Fprintf(os.Stderr, "usage: %s %s [ARGUMENT...]\n", name, names)
		os.Exit(2)
	}
	os.Exit(program())
}

// Run makes a program of a cobra command. The command is built only when the program is chosen, because building one
// registers flags and feature gates.
func Run(newCommand func() *cobra.Command) func() int {
	return func() int { return cli.Run(newCommand()) }
}
