package serving

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

const (
	// installArgument is the first argument of a program that installs itself.
	installArgument = "install"
	installUsage    = "--to DIR [--as NAME]"
)

// install puts this program into a plugin directory, and returns the code to exit with.
func install(stdout, stderr io.Writer, name, version string, args []string) (code int) {
	dir, file, err := parseInstall(args, name)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(stdout, "%s %s %s: copies %[1]s into the plugin directory DIR of a host, as %[1]s or NAME\n",
			name, installArgument, installUsage)
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v; usage: %[1]s %[3]s %[4]s\n",
			name, err, installArgument, installUsage)
		return exitMisconfigured
	}
	program, err := os.Executable()
	if err == nil {
		program, err = plugindir.Install(program, dir, file)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v\n", name, err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(stdout, "%s %s is installed as %s\n", name, version, program)
	return 0
}

// parseInstall reads the arguments after installArgument. The error is flag.ErrHelp for a request for help.
func parseInstall(args []string, plugin string) (dir, file string, err error) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it would say less than the error does with the usage behind it
	flags.StringVar(&dir, "to", "", "")
	flags.StringVar(&file, "as", plugin, "")
	switch err := flags.Parse(args); {
	case err != nil:
		return "", "", err
	case flags.NArg() > 0:
		return "", "", fmt.Errorf("expected nothing but --to and --as, but found %q", flags.Arg(0))
	case dir == "":
		return "", "", errors.New("--to: expected the plugin directory of a host, but found nothing")
	}
	if err := plugindir.CheckName(file); err != nil {
		return "", "", fmt.Errorf("--as: %w", err)
	}
	return dir, file, nil
}
