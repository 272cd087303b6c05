package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestCommandsOfThePages: each command on a page exists, with its flags.
func TestCommandsOfThePages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(testenv.Root(), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?ms)^```(?:sh|text)\n(.*?)^```$|`([^`\n]+)`")
	const names = "host|items|plugins|crds|config|completion|cleanup|remove"
	command := regexp.MustCompile(`(?m)(?:^|[ /(])pergola ((?:` + names + `)\b[^|#>;)\n]*)`)
	seen := 0
	pages = append(pages, filepath.Join(testenv.Root(), "README.md"), filepath.Join(testenv.Root(), "SECURITY.md"))
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range code.FindAllStringSubmatch(string(text), -1) {
			for _, found := range command.FindAllStringSubmatch(shown[1]+shown[2], -1) {
				seen++
				words := strings.Fields(strings.ReplaceAll(found[1], `"`, ""))
				if problem := misspelt(words); problem != "" {
					t.Errorf("%s: pergola %s: %s", filepath.Base(path), found[1], problem)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("expected more commands than %d", seen)
	}
}

// misspelt returns the problem with the words of a command line; "" for none.
func misspelt(words []string) string {
	cmd, rest, err := newCommand(cli.Name).Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && rest[0] != "…" {
		return "there is no command " + rest[0]
	}
	// Prose may name a flag without its value.
	if err := cmd.ParseFlags(append(rest, "…")); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err.Error()
	}
	return ""
}
