package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// line is what print prints, again and again.
	line = "0123456789012345678901234567890123456789012345678901234567890123456789012345678\n"
	// chunk is how much memory oom takes at a time, and most is where it gives up.
	chunk, most = 8 << 20, 1 << 30
	// look is how often await looks.
	look = 50 * time.Millisecond
)

func (s step) say(words []string) error { return s.println(strings.Join(words, " ")) }

func (s step) println(text string) error {
	if _, err := fmt.Fprintln(s.out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (s step) print(args []string) error {
	n, err := size(args[0])
	if err != nil {
		return err
	}
	out := bufio.NewWriter(s.out)
	for n > 0 {
		part := line[:min(n, int64(len(line)))]
		n -= int64(len(part))
		if _, err := out.WriteString(part); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (step) sleep(args []string) error {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return fmt.Errorf("sleep: %w", err)
	}
	time.Sleep(d)
	return nil
}

func (step) await(args []string) error {
	for {
		_, err := os.Stat(args[0]) //nolint:gosec // the command line is the test's
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("await: %w", err)
		}
		time.Sleep(look)
	}
}

func (step) exit(args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("exit: %w", err)
	}
	return exitError(code)
}

func (s step) hang([]string) error {
	if err := s.println("hanging"); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour)
	}
}

func (s step) hangHard(args []string) error {
	signal.Ignore(syscall.SIGTERM)
	return s.hang(args)
}

func (s step) hangGently([]string) error {
	signal.Ignore(syscall.SIGTERM) // which is the end of what main does about it
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	if err := s.println("hanging"); err != nil {
		return err
	}
	<-asked
	return exitError(0)
}

func (step) oom([]string) error {
	var held [][]byte
	for taken := 0; taken < most; taken += chunk {
		// Memory counts when it is written to.
		held = append(held, bytes.Repeat([]byte{1}, chunk))
	}
	return fmt.Errorf("nothing has ended the use of %d MB", len(held)*chunk>>20)
}
