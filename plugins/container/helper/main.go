// Command helper is what runs beside the image of a container deploy item: it prepares the image's directories, and
// uploads what the image has left in them. It is one small program, because it runs where a stranger's image does: of
// Kubernetes it knows one request, and it depends on nothing but Go's own packages and those of this deployer.
//
// # helper init
//
// The init container. It makes the directories that the image expects in /data/ls/shared, unpacks the archive in
// /data/ls/internal/input into shared, and that in /data/ls/internal/state into shared/state, if there is one. Then it
// connects to the API server, without a request and without a token: what main leaves could not be uploaded if the Pod
// cannot reach it. It tries for less than a minute, and ends with the exit code 3 then.
//
//	reads   /data/ls/internal/input, /data/ls/internal/state: chunks of an archive, 0000, 0001, ...
//	        /data/ls/internal/access/ca.crt, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT
//	writes  /data/ls/shared
//
// # helper wait
//
// The wait container, a native sidecar: SIGTERM tells it that main has ended, or a file if Kubernetes does not since
// others go on; it waits for SIGTERM at last then. Until then it reads nothing. Then it packs shared/state, takes the
// exports, and uploads both, the report about it last. A second signal changes nothing. What the image has done wrong is
// told in the report; everything else is uploaded all the same. It tries until it succeeds or is killed, unless the API
// server refuses: what is forbidden, it tries for about a minute.
//
//	reads   /data/ls/shared/state, /data/ls/shared/exports/values: regular files only,
//	        since the image may put links there
//	        /data/ls/internal/access: token, ca.crt, upload.json and ended. The token is read for
//	        each attempt, since it may be replaced.
//	        KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT
//	needs   create and patch for the Secrets that upload.json names; it reads nothing from the API server and
//	        writes nothing else.
//
// # Both
//
// --base is used instead of /data/ls. Standard error has a few plain lines, and never contents. A failure is one
// sentence there and in the termination message (--termination-message, if that file is there), with the exit code 1;
// the exit code 2 means wrong arguments. "helper version" prints the version. It is a static program that needs nothing
// in its image, no writable file system besides shared, and no user of its own, as long as it may read what the image
// writes.
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

// version is set when the program is built for a release.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

// run returns the code to exit with.
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
		// First of all, since the signal may come at any time. There is room for one; what comes after it changes
		// nothing.
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

// do does what a command is for, and tells of its failure.
func do(args []string, failed string, work func(base string) error) int {
	flags := flag.NewFlagSet("helper", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // it is told below
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

// leave writes the termination message to a file that Kubernetes has made, if it has.
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
