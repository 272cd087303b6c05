// Command step is what the main containers of tests run: a static program that does what its command line says, and not what its imports say.
//
//	step ACTION [ARGUMENT...] [-- ACTION [ARGUMENT...]]...
//
// It does one action after the other, until one fails, by which it ends with code 1. It does none if one is unknown or has a wrong number of
// arguments, and ends with code 2.
//
// What an action exports takes the place of what was exported before:
//
//	export TEXT              export a text
//	echo-imports [NAME...]   export what the container was given, and the variables with these names
//	count                    add one to the number in the state, and export it as {"count": 1}
//	symlink-exports PATH     make the exports a symbolic link to a path
//	touch-credentials        look for credentials, try to read with them and without, and export what that has come to
//	show-credentials PATH... the same, with these paths of the API server, too, in which $NAME is a variable; print it instead
//
// Others:
//
//	fill-state BYTES         put a file of random bytes into the state
//	symlink-state PATH       put a symbolic link to a path into the state
//	mark                     append a line to the file marks in the directory $MARK_DIR; nothing without the variable
//	say WORD...              print a line
//	print BYTES              print that many bytes
//	sleep DURATION           do nothing for a while
//	await PATH               do nothing until a file is there
//	exit CODE                end
//	hang                     print "hanging" and do nothing
//	hang-hard                the same, and ignore SIGTERM
//	hang-gently              the same, and end with code 0 at SIGTERM
//	oom                      use more and more memory, up to a limit that spares machines without one
//
// SIGTERM ends it with code 143, whatever else it does, and has it print "terminated".
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const (
	failed       = 1
	misused      = 2
	terminated   = 128 + int(syscall.SIGTERM)
	separator    = "--"
	anyArguments = -1
)

// step is what the actions have of the container.
type step struct {
	out     io.Writer
	env     func(name string) string
	environ func() []string
	// root of the file system in which credentials are looked for.
	root string
}

// action is one that takes a certain number of arguments.
type action struct {
	arguments int
	do        func(step, []string) error
}

var actions = map[string]action{
	"export":            {1, step.export},
	"echo-imports":      {anyArguments, step.echoImports},
	"count":             {0, step.count},
	"symlink-exports":   {1, step.symlinkExports},
	"touch-credentials": {0, step.touchCredentials},
	"show-credentials":  {anyArguments, step.showCredentials},
	"fill-state":        {1, step.fillState},
	"symlink-state":     {1, step.symlinkState},
	"mark":              {0, step.mark},
	"say":               {anyArguments, step.say},
	"print":             {1, step.print},
	"sleep":             {1, step.sleep},
	"await":             {1, step.await},
	"exit":              {1, step.exit},
	"hang":              {0, step.hang},
	"hang-hard":         {0, step.hangHard},
	"hang-gently":       {0, step.hangGently},
	"oom":               {0, step.oom},
}

// exitError is what an action returns to end the program.
type exitError int

func (c exitError) Error() string { return fmt.Sprintf("exit with code %d", int(c)) }

func main() {
	// The first process of a container has no default action for a signal.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(os.Stdout, "terminated") //nolint:errcheck // there is nobody else to tell
		os.Exit(terminated)
	}()
	os.Exit(run(step{out: os.Stdout, env: os.Getenv, environ: os.Environ, root: "/"}, os.Args[1:], os.Stderr))
}

// run carries out what a command line says and returns the code to end with.
func run(s step, args []string, errs io.Writer) int {
	say := func(format string, a ...any) { _, _ = fmt.Fprintf(errs, "step: "+format+"\n", a...) }
	commands := split(args)
	for _, command := range commands {
		if len(command) == 0 {
			say("an action is missing")
			return misused
		}
		a, known := actions[command[0]]
		if !known {
			say("unknown action %q", command[0])
			return misused
		}
		if n := len(command) - 1; a.arguments != anyArguments && n != a.arguments {
			say("%s takes %d arguments, but has %d", command[0], a.arguments, n)
			return misused
		}
	}
	for _, command := range commands {
		err := actions[command[0]].do(s, command[1:])
		if code, ends := errors.AsType[exitError](err); ends {
			return int(code)
		}
		if err != nil {
			say("%s: %v", command[0], err)
			return failed
		}
	}
	return 0
}

// split returns the commands between separators.
func split(args []string) [][]string {
	i := slices.Index(args, separator)
	if i < 0 {
		return [][]string{args}
	}
	return append([][]string{args[:i]}, split(args[i+1:])...)
}
