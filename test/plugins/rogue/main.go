// Command rogue is a plugin that breaks every rule, for tests of what becomes of the host and of the plugins beside it. It is built
// without the sdk, which would not let it.
//
// The name of its file says how it starts and what it says about itself: "rogue-" and a mode, such as rogue-exits. Each other name,
// such as rogue alone, is a plugin that is well-behaved until it is called. What it does in a call is up to the item: the field
// "do" of its provider configuration. The functions starts, claims and wakes list the modes, deeds and sayings what is done in calls.
//
// A plugin's name is that of its file, and its type of deploy items is test.pergola.dev/ with the name behind it, unless the mode
// says otherwise. Two modes need a directory as their first argument: rogue-changeling writes there how often it was started, and
// rogue-latecomer waits until there is a file "come".
package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if start, ok := starts()[mode()]; ok {
		start()
	}
	serve(newRogue())
}

// file is the name of the plugin's file.
func file() string { return filepath.Base(os.Args[0]) }

// mode is what the name of the file asks for; empty for nothing.
func mode() string {
	_, mode, _ := strings.Cut(file(), "-")
	return mode
}

// sleep blocks for longer than any test does, but not for ever, should one leave a process behind.
func sleep() { time.Sleep(5 * time.Minute) }
