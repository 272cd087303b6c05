package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// namedTest is a package with a test of it and perhaps a subtest, as the page names them.
var namedTest = regexp.MustCompile("^`(\\S+) ((?:Test|Fuzz)\\w+)(/\\S+)?`$")

// TestRules: each rule on its page names one test, which exists.
func TestRules(t *testing.T) {
	t.Parallel()
	packages := map[string]map[string]bool{}
	rows := 0
	for line := range strings.Lines(page(t, "test/rules.md")) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || line == "| rule | test |" || line == "|---|---|" {
			continue
		}
		rows++
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("expected a rule and its test, but found %s", line)
			continue
		}
		name := namedTest.FindStringSubmatch(strings.TrimSpace(cells[2]))
		if name == nil {
			t.Errorf("expected one test, such as `host/internal/contract TestDecide/finished`, but found %s", line)
			continue
		}
		if packages[name[1]] == nil {
			packages[name[1]] = testNames(t, name[1])
		}
		for _, part := range append([]string{"func " + name[2]}, strings.Split(name[3], "/")[1:]...) {
			if !packages[name[1]][part] {
				t.Errorf("there is no %s in the tests of %s, for the rule:%s", part, name[1], cells[1])
			}
		}
	}
	if rows == 0 {
		t.Error("the page has no rules")
	}
}

// testNames returns the functions in the tests of a package, and the texts in them as names of subtests. It builds
// nothing.
func testNames(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(testenv.Root(), dir, "*_test.go"))
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names["func "+n.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					names[strings.ReplaceAll(text, " ", "_")] = true
				}
			}
			return true
		})
	}
	return names
}
