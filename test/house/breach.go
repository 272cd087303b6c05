package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The rules, as exceptions.txt names them.
const (
	ruleSize     = "size"
	ruleCircle   = "circle"
	ruleComments = "comments"
	ruleTexts    = "texts"
	rulePage     = "page"
)

// breach is a rule that a package or a page breaks.
type breach struct {
	rule, place string
	// figure states the figure and its limit.
	figure  string
	details []string
}

func (b breach) name() string { return b.rule + " " + b.place }

// readExceptions returns the names of the breaches allowed for now. A line has rule, place and, after a colon, the
// reason.
func readExceptions(root string) (names []string, err error) {
	content, err := os.ReadFile(filepath.Join(root, exceptionsFile))
	if err != nil {
		return nil, fmt.Errorf("read exceptions: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, ": ")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s: %q has no reason", exceptionsFile, line)
		}
		names = append(names, name)
	}
	return names, nil
}
