package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const module = "github.com/pergola-deploy/pergola/"

// checkRan returns an error with each subtest of a rule that has not run, according to an output of `go test -json`.
// The subtests of skipped tests need not run. Tests as such are known from the code; those on a node do not run on each
// machine.
func checkRan(rules []rule, output io.Reader) error {
	ran, skipped := map[string]bool{}, map[string]bool{}
	for decoder := json.NewDecoder(output); ; {
		var event struct{ Action, Package, Test string }
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the output of the tests: %w", err)
		}
		name := strings.TrimPrefix(event.Package, module) + " " + event.Test
		switch event.Action {
		case "run":
			for i := range event.Test { // a subtest may stand for several, such as one/a and one/b
				if event.Test[i] == '/' {
					ran[name[:len(name)-len(event.Test)+i]] = true
				}
			}
			ran[name] = true
		case "skip":
			skipped[name] = true
		}
	}
	var problems []string
	for _, r := range rules {
		if r.subtest != "" && !ran[r.dir+" "+r.name()] && !skipped[r.dir+" "+r.test] {
			text := fmt.Sprintf("%s: %s %s did not run, for the rule: %s", r.line, r.dir, r.name(), r.sentence)
			problems = append(problems, text)
		}
	}
	return joined(problems)
}
