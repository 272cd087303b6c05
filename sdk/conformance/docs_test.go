package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page for authors is where people read what the rules demand.
func TestAuthorsPageHasTheRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "plugin-authors.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := &strings.Builder{}
	for _, rule := range Rules() {
		fmt.Fprintf(table, "| `%s` | %s |\n", rule, rule.Text())
	}
	if !strings.Contains(string(page), "| rule | what it demands |\n|---|---|\n"+table.String()+"\n") {
		t.Errorf("the table of rules in docs/plugin-authors.md is not this one:\n%s", table)
	}
}
