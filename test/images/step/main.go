// Command step is what the main containers of tests run: a static program that does what its command line says, and
// not what its imports say.
//
//	step ACTION [ARGUMENT...] [-- ACTION [ARGUMENT...]]...
//
// It does one action after the other, until one fails, by which it ends with code 1. It does none if one is unknown,
// and ends with code 2.
//
// What an action exports takes the place of what was exported before:
//
//	export TEXT              export a text
//	echo-imports [NAME...]   export what the container was given, and the variables with these names
//	count                    add one to the number in the state, and export it as {"count": 1}
//	symlink-exports PATH     make the exports a symbolic link to a path
//
// Others:
//
//	show-credentials PATH... look for credentials, try to read with them and without, also these paths of the API server,
//	                         in which $NAME is a variable, and print what that has come to
//	fill-state BYTES         put a file of random bytes into the state
//	mark                     append a line to the file marks in the directory $MARK_DIR; nothing without the variable
//	say WORD...              print a line
//	await PATH               do nothing until a file is there
//	get URL                  do nothing until the URL answers with 200
//	exit CODE                end
//	hang                     print "hanging" and do nothing
//	oom                      use more and more memory, up to a limit that spares machines without one
//	serve                    serve GET /ready on port 8080, which answers with 503 before it was asked for POST /release
//	serve-image NAME USER PASSWORD
//	                         be a private registry at a free port of 127.0.0.1, for which container runtimes use plain
//	                         HTTP, with an image of this program, and print its reference
//
// SIGTERM ends it with code 143, whatever else it does, and has it print "terminated".
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The codes to end with.
const (
	failed     = 1
	misused    = 2
	terminated = 128 + int(syscall.SIGTERM)
)

var actions = map[string]func(args []string){
	"export":           func(args []string) { export([]byte(args[0])) },
	"echo-imports":     echoImports,
	"count":            count,
	"symlink-exports":  symlinkExports,
	"show-credentials": func(paths []string) { fmt.Fprintf(os.Stdout, "%s\n", toJSON(touch(paths))) },
	"fill-state":       fillState,
	"mark":             mark,
	"say":              func(words []string) { fmt.Fprintln(os.Stdout, strings.Join(words, " ")) },
	"await":            await,
	"exit":             func(args []string) { os.Exit(number(args[0])) },
	"hang":             hang,
	"get":              awaitURL,
	"oom":              oom,
	"serve":            serve,
	"serve-image":      serveImage,
}

func main() {
	// The first process of a container has no default action for a signal.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(os.Stdout, "terminated")
		os.Exit(terminated)
	}()
	commands := split(os.Args[1:])
	for _, command := range commands {
		if len(command) == 0 || actions[command[0]] == nil {
			fmt.Fprintf(os.Stderr, "step: unknown action %q\n", command)
			os.Exit(misused)
		}
	}
	for _, command := range commands {
		actions[command[0]](command[1:])
	}
}

// check ends the program if an action has failed.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "step:", err)
		os.Exit(failed)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func toJSON(value any) []byte {
	content, err := json.Marshal(value)
	check(err)
	return content
}

// split returns the commands between separators.
func split(args []string) [][]string {
	i := slices.Index(args, "--")
	if i < 0 {
		return [][]string{args}
	}
	return append([][]string{args[:i]}, split(args[i+1:])...)
}

// variables that the deployer gives to a container, which echo-imports always exports. They are written down here once
// more, since images rely on their names.
var variables = []string{
	"IMPORTS_PATH", "EXPORTS_PATH", "STATE_PATH", "CONTENT_PATH", "TARGET_PATH", "COMPONENT_DESCRIPTOR_PATH",
	"OPERATION", "POD_NAME", "POD_NAMESPACE",
}

const (
	// chunk is how much memory oom takes at a time, and maxMemory is where it gives up.
	chunk, maxMemory = 8 << 20, 1 << 30
	// pause is between two looks for what is awaited.
	pause = 50 * time.Millisecond
)

func export(content []byte) { check(os.WriteFile(os.Getenv("EXPORTS_PATH"), content, 0o644)) }

func echoImports(names []string) {
	env := map[string]string{}
	for _, name := range append(names, variables...) {
		if value := os.Getenv(name); value != "" {
			env[name] = value
		}
	}
	export(toJSON(map[string]any{
		"imports": document("IMPORTS_PATH"), "target": document("TARGET_PATH"),
		"descriptor": document("COMPONENT_DESCRIPTOR_PATH"),
		"content":    content(os.Getenv("CONTENT_PATH")), "operation": os.Getenv("OPERATION"), "env": env,
	}))
}

// document returns nil for one that is not there, and a text for one that is no JSON.
func document(variable string) any {
	text, err := os.ReadFile(os.Getenv(variable))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	check(err)
	if json.Valid(text) {
		return json.RawMessage(text)
	}
	return string(text)
}

// content returns files by their paths below a directory, and symbolic links as "-> target"; nil if there is no
// directory.
func content(root string) (files map[string]string) {
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files = map[string]string{}
	check(filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		if entry.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			files[name] = "-> " + target
			return err
		}
		text, err := os.ReadFile(path)
		files[name] = string(text)
		return err
	}))
	return files
}

func count([]string) {
	file := filepath.Join(os.Getenv("STATE_PATH"), "count")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("0"), nil
	}
	check(err)
	n := number(string(text)) + 1
	check(os.WriteFile(file, []byte(strconv.Itoa(n)), 0o644))
	export(toJSON(map[string]int{"count": n}))
}

// fillState uses random bytes, which no archive makes smaller.
func fillState(args []string) {
	content := make([]byte, number(args[0]))
	_, _ = rand.Read(content) // never fails
	check(os.WriteFile(filepath.Join(os.Getenv("STATE_PATH"), "random"), content, 0o644))
}

// symlinkExports makes a link in the place of what is there, such as the link of a former run.
func symlinkExports(args []string) {
	_ = os.Remove(os.Getenv("EXPORTS_PATH"))
	check(os.Symlink(args[0], os.Getenv("EXPORTS_PATH")))
}

// mark writes its line at once, so that those of several containers do not mix.
func mark([]string) {
	dir := os.Getenv("MARK_DIR")
	if dir == "" {
		return
	}
	file, err := os.OpenFile(filepath.Join(dir, "marks"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(err)
	_, err = fmt.Fprintf(file, "pod=%s operation=%s\n", os.Getenv("POD_NAME"), os.Getenv("OPERATION"))
	check(errors.Join(err, file.Close()))
}

func await(args []string) {
	for {
		if _, err := os.Stat(args[0]); !errors.Is(err, fs.ErrNotExist) {
			check(err)
			return
		}
		time.Sleep(pause)
	}
}

func awaitURL(args []string) {
	for {
		if status, err := get(args[0], ""); err == nil && status == http.StatusOK {
			return
		}
		time.Sleep(pause)
	}
}

func hang([]string) {
	fmt.Fprintln(os.Stdout, "hanging")
	for {
		time.Sleep(time.Hour)
	}
}

func oom([]string) {
	var held [][]byte
	for taken := 0; taken < maxMemory; taken += chunk {
		held = append(held, bytes.Repeat([]byte{1}, chunk)) // memory counts when it is written to
	}
	check(fmt.Errorf("nothing has ended the use of %d MB", len(held)*chunk>>20))
}
