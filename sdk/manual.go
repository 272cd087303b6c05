package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

const (
	// attachableArgument, alone or with an address, lets hosts attach. It is no flag, because the main function may parse
	// flags.
	attachableArgument = "attachable"
)

// serveByHand is for a process without a host.
func serveByHand(p *plugin) {
	switch args := os.Args[1:]; {
	case isAttachable(args):
		if err := serveAttachable(p, strings.Join(args[1:], "")); err != nil {
			fmt.Fprintf(os.Stderr, "%s %s cannot be attached to: %v\n", p.name, p.version, err)
			os.Exit(serving.ExitFailed)
		}
	case len(args) > 0 && args[0] == serving.InstallArgument:
		os.Exit(serving.Install(os.Stdout, os.Stderr, p.name, p.version, args[1:]))
	default:
		fmt.Fprintf(os.Stderr, "%s %s is a plugin for Pergola. It is not run by hand: "+
			"put it into the host's plugin directory, such as with %[3]s --to DIR. "+
			"To debug it, start it with the argument %[4]s, or with %[4]s and the path of a socket, such as /tmp/%[1]s.sock.\n",
			p.name, p.version, serving.InstallArgument, attachableArgument)
		os.Exit(serving.ExitFailed)
	}
}

// isAttachable reports whether the arguments are "attachable [ADDRESS]". An address is a path with a slash, or has one
// behind unix://, so that neither a flag nor a port is taken for a file.
func isAttachable(args []string) bool {
	return len(args) > 0 && len(args) <= 2 && args[0] == attachableArgument &&
		!slices.ContainsFunc(args[1:], func(arg string) bool { return !strings.Contains(arg, "/") })
}

// serveAttachable lets hosts attach, until a signal, at an address, or at a new one if that is empty.
func serveAttachable(p *plugin, at string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: serving.LogLevel(slog.LevelDebug)}))
	slog.SetDefault(log)
	address, done, err := newServer(p, log).socket(ctx, at)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s %s serves until it is interrupted. "+
		"Attach to it with pergola host --attach unix://%s or pergola plugins run --attach unix://%[3]s\n",
		p.name, p.version, address)
	<-done
	return nil
}
