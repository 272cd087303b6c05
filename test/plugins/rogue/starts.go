package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// floodBytes is how much a flood writes: a million and a half lines. The plugin serves no earlier than the host has read them.
const floodBytes = 24 << 20

// starts are what modes do before they serve, if they ever do.
func starts() map[string]func() {
	return map[string]func(){
		"exits":   func() { os.Exit(3) },
		"silent":  sleep,
		"garbage": func() { write(os.Stdout, "Hello, I am no plugin.\n\xff\xfe\n"); sleep() },
		// Standard output is the host's as long as the handshake has not been made, and go-plugin's afterwards: this goes past it.
		"babbles":   func() { go babble(os.Stdout) },
		"floods":    func() { flood(os.Stderr) },
		"latecomer": func() { awaitFile(filepath.Join(os.Args[1], "come")) },
	}
}

func awaitFile(path string) {
	for _, err := os.Stat(path); err != nil; _, err = os.Stat(path) { //nolint:gosec // whoever starts the plugin knows why
		time.Sleep(10 * time.Millisecond)
	}
}

// babble writes rubbish for as long as the plugin lives, beginning when the handshake is surely out.
func babble(out io.Writer) {
	<-served
	for range time.Tick(100 * time.Millisecond) {
		write(out, "1|1|unix|/nowhere|grpc\n\x00\x1b[2J\xff\n"+strings.Repeat("x", 1<<20)+"\n")
	}
}

// flood writes lines that go-plugin would panic at, and that are no records.
func flood(out io.Writer) {
	line := []byte(`{"@message":123}` + "\n")
	block := bytes.Repeat(line, 4096)
	for written := 0; written < floodBytes; written += len(block) {
		write(out, string(block))
	}
}

func write(out io.Writer, text string) {
	if _, err := io.WriteString(out, text); err != nil {
		os.Exit(1) // nobody is there to read it
	}
}
