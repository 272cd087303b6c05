package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const page = "test/rules.md"

func main() {
	ran := flag.String("ran", "", "check that the named subtests are in this output of go test -json; write nothing")
	flag.Parse()
	if err := run(".", *ran); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root, ran string) error {
	rules, err := findRules(root)
	if err != nil {
		return err
	}
	if ran != "" {
		output, err := os.Open(ran)
		if err != nil {
			return err
		}
		defer output.Close() //nolint:errcheck // it was only read
		return checkRan(rules, output)
	}
	content, err := writePage(root, rules)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, page), content, 0o644)
}

// joined returns an error with a line for each problem.
func joined(problems []string) error {
	errs := make([]error, 0, len(problems))
	for _, problem := range problems {
		errs = append(errs, errors.New(problem))
	}
	return errors.Join(errs...)
}
