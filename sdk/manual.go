package sdk

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// What a plugin does that is started by hand. These are plain words, so that a main function that parses flags before
// it calls Serve does not stumble over them. All other arguments are the plugin's.
const (
	attachableArgument = "attachable" // when it is the only argument
	installArgument    = "install"    // when it is the first argument
	installUsage       = "--to DIR [--as NAME]"
)

// serveByHand is for a process that no host has started.
func serveByHand(p *plugin) {
	switch args := os.Args[1:]; {
	case slices.Equal(args, []string{attachableArgument}):
		if err := serveAttachable(p); err != nil {
			fmt.Fprintf(os.Stderr, "%s %s cannot be attached to: %v\n", p.name, p.version, err)
			os.Exit(exitFailed)
		}
	case len(args) > 0 && args[0] == installArgument:
		os.Exit(install(os.Stdout, os.Stderr, p, args[1:]))
	default:
		fmt.Fprintf(os.Stderr, "%s %s is a plugin for Pergola. It is not run by hand: "+
			"put it into the host's plugin directory, such as with %[3]s --to DIR. "+
			"To debug it, start it with the argument %[4]s.\n",
			p.name, p.version, installArgument, attachableArgument)
		os.Exit(exitFailed)
	}
}

// serveAttachable serves to hosts that attach, until somebody ends it.
func serveAttachable(p *plugin) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends a process that does not come to an end
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel(slog.LevelDebug)}))
	slog.SetDefault(log)
	address, done, err := serveSocket(ctx, newServer(p, log))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s %s serves until it is interrupted. "+
		"Attach to it with pergola host --attach unix://%s or pergola plugins run --attach unix://%[3]s\n",
		p.name, p.version, address)
	<-done
	return nil
}

// install puts this program into a plugin directory, and returns the code to exit with.
func install(stdout, stderr io.Writer, p *plugin, args []string) (code int) {
	dir, file, err := parseInstall(args, p.name)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintf(stdout, "%s %s %s: copies %[1]s into the plugin directory DIR of a host, as %[1]s or NAME\n",
			p.name, installArgument, installUsage)
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v; usage: %[1]s %[3]s %[4]s\n",
			p.name, err, installArgument, installUsage)
		return exitMisconfigured
	}
	program, err := os.Executable()
	if err == nil {
		program, err = plugindir.Install(program, dir, file)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%s cannot be installed: %v\n", p.name, err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(stdout, "%s %s is installed as %s\n", p.name, p.version, program)
	return 0
}

// parseInstall reads what follows installArgument. The error is flag.ErrHelp for who asks for help.
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
