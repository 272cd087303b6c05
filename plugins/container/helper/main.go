// Command helper runs beside the image of a container item: it prepares the image's directories, and uploads the
// results in them. It is one small program, because it runs beside a stranger's image: it knows one request of
// Kubernetes, and depends on nothing but Go's own packages and those of this deployer.
//
// # helper init
//
// The init container. It makes the image's directories in /data/ls/shared, unpacks the archive in
// /data/ls/internal/input into shared, and the one in /data/ls/internal/state into shared/state, if present. Then it
// connects to the API server, without a request and without a token: a Pod without a way to the API server could not
// upload the results of main. It tries for less than a minute, and then ends with the exit code 3.
//
//	reads   /data/ls/internal/input, /data/ls/internal/state: chunks of an archive, 0000, 0001, ...
//	        /data/ls/internal/access/ca.crt, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT
//	writes  /data/ls/shared
//
// # helper wait
//
// The wait container, a native sidecar. SIGTERM announces the end of main. While other containers go on, Kubernetes
// sends none; a file announces it instead, and the wait container waits for SIGTERM after its uploads. Until the end
// of main it reads nothing. Then it packs shared/state, takes the exports, and uploads both, with the report about
// them last. A second signal changes nothing. The report names the mistakes of the image; everything else is uploaded
// all the same. It tries until it succeeds or is killed, unless the API server refuses; a forbidden request it tries
// for about a minute.
//
//	reads   /data/ls/shared/state, /data/ls/shared/exports/values: regular files only,
//	        since the image may put links there
//	        /data/ls/internal/access: token, ca.crt, upload.json and ended. The token is read for
//	        each attempt, since it may be replaced.
//	        KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT
//	needs   create and patch for the Secrets in upload.json; it reads nothing from the API server and
//	        writes nothing else.
//
// # Both
//
// --base replaces /data/ls. Standard error has a few plain lines, and never contents. A failure is one sentence there
// and in the termination message (--termination-message, if the file exists), with the exit code 1; the exit code 2
// means wrong arguments. "helper version" prints the version. It is a static program and needs nothing in its image,
// no writable file system besides shared, and no user of its own, as long as it may read the files of the image.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// version is set by the build of a release.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

// run runs a command, and returns the exit code.
func run(args []string) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "init":
		return do(args, "main cannot be prepared", func(base string) error {
			return initialize(base, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		})
	case "wait":
		// First of all, since the signal may come at any time. There is room for one; later ones change nothing.
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
		return do(args, "the results of the image cannot be uploaded", func(base string) error {
			return wait(base, ended, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		})
	case "version":
		if _, err := fmt.Fprintln(os.Stdout, version); err != nil {
			return 1
		}
		return 0
	default:
		return misused("expected init, wait or version")
	}
}

func misused(what string) int {
	fmt.Fprintf(os.Stderr,
		"%s; usage: helper init|wait [--base DIR] [--termination-message FILE], or helper version\n", what)
	return 2
}

// do parses the arguments of a command, runs it and reports its failure.
func do(args []string, failed string, work func(base string) error) int {
	flags := flag.NewFlagSet("helper", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // misused prints the error
	base := flags.String("base", layout.Base, "")
	message := flags.String("termination-message", "/dev/termination-log", "")
	if err := flags.Parse(args); err != nil {
		return misused(err.Error())
	}
	if flags.NArg() > 0 {
		return misused(fmt.Sprintf("%q was not expected", flags.Arg(0)))
	}
	failure := work(*base)
	if failure == nil {
		return 0
	}
	sentence := fmt.Sprintf("%s: %v\n", failed, failure)
	fmt.Fprint(os.Stderr, sentence)
	if err := leave(*message, sentence); err != nil {
		fmt.Fprintf(os.Stderr, "write termination message: %v\n", err)
	}
	if errors.Is(failure, errUnreachable) {
		return layout.UnreachableExitCode
	}
	return 1
}

// leave writes the termination message to the file made by Kubernetes, if it exists.
func leave(path, sentence string) error {
	const most = 4096 // Kubernetes reads no more
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(sentence[:min(len(sentence), most)])
	return errors.Join(err, f.Close())
}
