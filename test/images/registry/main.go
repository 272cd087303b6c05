// Command registry is a private registry on a node of tests, since a node's containers and image pulls reach nothing on the machine that the
// node is on. It serves one image, the one in a file, to the one client who has user and password.
//
//	registry -archive FILE -user USER -password PASSWORD
//
// It listens at a free port of 127.0.0.1, for which container runtimes use plain HTTP, and prints the reference of the image when it is there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pergola-deploy/pergola/test/chartserver"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	registry, err := start(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
	<-stop
	_ = registry.Close() // the process ends, whatever it says
}

// start starts the registry, which the caller closes.
func start(args []string, out io.Writer) (*chartserver.Registry, error) {
	flags := flag.NewFlagSet("registry", flag.ContinueOnError)
	archive := flags.String("archive", "", "the docker-archive with the image")
	user := flags.String("user", "", "who may pull")
	password := flags.String("password", "", "by which that is known")
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("read flags: %w", err)
	}
	file, err := os.Open(*archive)
	if err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	defer func() { _ = file.Close() }()
	image, err := read(file)
	if err != nil {
		return nil, err
	}
	registry, err := chartserver.NewRegistry(chartserver.Options{
		PlainHTTP: true, Auth: chartserver.Basic, User: *user, Password: *password,
	})
	if err != nil {
		return nil, fmt.Errorf("start registry: %w", err)
	}
	if err := image.push(registry); err != nil {
		return nil, errors.Join(err, registry.Close())
	}
	if _, err := fmt.Fprintln(out, registry.Ref(image.repository, image.tag)); err != nil {
		return nil, errors.Join(fmt.Errorf("print reference: %w", err), registry.Close())
	}
	return registry, nil
}
