package main

import (
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stderr is the plugin's own: go-plugin takes the variable for something else.
var stderr = os.Stderr

// fork leaves children behind: one in the plugin's process group, and one that has left it. Both hold on to the plugin's standard error,
// and their process ids are in the log.
func fork(c *call) error {
	for kind, attributes := range map[string]*syscall.SysProcAttr{"child": {}, "deserter": {Setsid: true}} {
		child := exec.Command("sleep", "300") //nolint:noctx // it is to outlive its call
		child.Stderr, child.SysProcAttr = stderr, attributes
		if err := child.Start(); err != nil {
			return err
		}
		slog.New(slog.NewJSONHandler(stderr, nil)).Info(kind, "pid", child.Process.Pid, "name", c.item.Metadata.Name)
	}
	os.Exit(7)
	return nil
}

// stop stops the whole process, as a debugger does.
func stop(*call) error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// leak takes more and more memory, and gives signs of life meanwhile.
func leak(c *call) error {
	const bytes, page = 8 << 20, 4 << 10
	var leaked [][]byte
	for range time.Tick(50 * time.Millisecond) {
		block := make([]byte, bytes)
		for i := 0; i < len(block); i += page { // only what is written to takes memory
			block[i] = 1
		}
		leaked = append(leaked, block)
		if err := c.send(progress("leak", time.Now().String())); err != nil {
			return err
		}
	}
	slog.Debug("unreachable", "blocks", len(leaked))
	return nil
}
