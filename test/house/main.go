package main

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// sources are the folders with the checked packages.
var sources = []string{"host", "sdk", "plugins"}

// pages are patterns of the checked pages.
var pages = []string{"docs/*.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}

const exceptionsFile = "test/house/exceptions.txt"

func main() {
	ok, err := run(".", os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run checks the repository in a directory, prints the breaches, and reports whether it is in order.
func run(root string, out io.Writer) (ok bool, err error) {
	var breaches []breach
	for _, check := range []func(root string) ([]breach, error){checkPackages, checkSources, checkPages} {
		found, err := check(root)
		if err != nil {
			return false, err
		}
		breaches = append(breaches, found...)
	}
	exceptions, err := readExceptions(root)
	if err != nil {
		return false, err
	}
	lines := report(breaches, exceptions)
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return false, err
		}
	}
	return len(lines) == 0, nil
}

// report returns the lines about breaches without an exception, and about exceptions without a breach.
func report(breaches []breach, exceptions []string) (lines []string) {
	unused := slices.Clone(exceptions)
	for _, b := range breaches {
		if slices.Contains(exceptions, b.name()) {
			unused = slices.DeleteFunc(unused, func(name string) bool { return name == b.name() })
			continue
		}
		lines = append(lines, b.name()+": "+b.figure)
		for _, detail := range b.details {
			lines = append(lines, "  "+detail)
		}
	}
	for _, name := range unused {
		lines = append(lines, name+": is in order now; remove it from "+exceptionsFile)
	}
	return lines
}
