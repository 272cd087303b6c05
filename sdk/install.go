package sdk

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// InstallArgument makes a plugin that is started by hand copy itself into a plugin directory, when it is the first argument:
//
//	my-deployer install --to /plugins
//
// The file is called as the plugin, or as --as says. With that, an image that holds nothing but the plugin brings it into the
// directory of a host: there is nothing else in it that could copy.
const InstallArgument = "install"

// isInstall tells whether the arguments ask for an installation.
func isInstall(args []string) bool { return len(args) > 0 && args[0] == InstallArgument }

// install puts this program into a plugin directory, and returns the code to exit with.
func install(stdout, stderr io.Writer, p *plugin, args []string) (code int) {
	wanted, err := installationOf(args, p.name)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(stdout, "%s %s %s: copies %[1]s into the plugin directory DIR of a host, as %[1]s or NAME\n", p.name, InstallArgument, installUsage)
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v; usage: %[1]s %[3]s %[4]s\n", p.name, err, InstallArgument, installUsage)
		return exitMisconfigured
	}
	program, err := os.Executable()
	if err == nil {
		program, err = plugindir.Install(program, wanted.dir, wanted.file)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v\n", p.name, err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(stdout, "%s %s is installed as %s\n", p.name, p.version, program)
	return 0
}

// installation is what somebody asks for who starts a plugin with InstallArgument.
type installation struct {
	dir  string
	file string
}

const installUsage = "--to DIR [--as NAME]"

// installationOf reads what follows InstallArgument. The error says what was found and what is expected; it is flag.ErrHelp for who asks
// for help.
func installationOf(args []string, plugin string) (installation, error) {
	var i installation
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it would say less than the error does with the usage behind it
	flags.StringVar(&i.dir, "to", "", "")
	flags.StringVar(&i.file, "as", plugin, "")
	if err := flags.Parse(args); err != nil {
		return i, err
	}
	switch {
	case flags.NArg() > 0:
		return i, fmt.Errorf("expected nothing but --to and --as, but found %q", flags.Arg(0))
	case i.dir == "":
		return i, errors.New("--to: expected the plugin directory of a host, but found nothing")
	}
	if err := plugindir.CheckName(i.file); err != nil {
		return i, fmt.Errorf("--as: %w", err)
	}
	return i, nil
}
