package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const troubleshootingPage = "docs/troubleshooting.md"

// firstColumn returns what is in backticks in the first column of the tables of a page whose first column has that
// head.
func firstColumn(t *testing.T, path, head string) (found []string) {
	t.Helper()
	inTable := false
	for line := range strings.Lines(page(t, path)) {
		first, _, isRow := strings.Cut(strings.TrimPrefix(strings.ReplaceAll(line, `\|`, "¦"), "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case isRow && first == head:
			inTable = true
		case isRow && inTable:
			for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				found = append(found, quoted[1])
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no table whose first column is %q", path, head)
	}
	return found
}

// TestTroubleshootingHasTheReasons: each reason of an error, an event or a condition is on the page, and no others are.
func TestTroubleshootingHasTheReasons(t *testing.T) {
	t.Parallel()
	reasons := map[string]string{}
	eachFile(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			for _, reason := range reasonsIn(path, node) {
				reasons[reason] = path
			}
			return true
		})
	})
	if len(reasons) < 100 {
		t.Fatalf("expected more reasons than %v", reasons)
	}
	documented := firstColumn(t, troubleshootingPage, "reason")
	for reason, path := range reasons {
		if !slices.Contains(documented, reason) {
			t.Errorf("the page does not say what the reason %s of %s means", reason, path)
		}
	}
	for _, reason := range documented {
		if reasons[reason] == "" {
			t.Errorf("the page has the reason %s, which nobody gives", reason)
		}
	}
}

var (
	reasonName = regexp.MustCompile(`^([rR]eason[A-Z]\w*|eventSchedule)$`)
	camelCase  = regexp.MustCompile(`^([A-Z][a-zA-Z]+)$`)
)

// kindsOfHelm are reasons by another name.
const kindsOfHelm = "plugins/helm/internal/helm/helm.go"

// reasonsIn returns the reasons that a node of the syntax makes: constants by their names, fields of errors, and
// arguments of what makes errors and events.
func reasonsIn(path string, node ast.Node) []string {
	var candidates []ast.Expr
	switch node := node.(type) {
	case *ast.ValueSpec:
		kind, _ := node.Type.(*ast.Ident)
		ofSelection := kind != nil && kind.Name == "Reason"
		ofHelm := kind != nil && kind.Name == "Kind" && path == kindsOfHelm
		if reasonName.MatchString(node.Names[0].Name) || ofSelection || ofHelm {
			candidates = node.Values
		}
	case *ast.KeyValueExpr:
		if key, ok := node.Key.(*ast.Ident); ok && key.Name == "Reason" {
			candidates = []ast.Expr{node.Value}
		}
	case *ast.AssignStmt:
		if field, ok := node.Lhs[0].(*ast.SelectorExpr); ok && field.Sel.Name == "Reason" {
			candidates = node.Rhs
		}
	case *ast.CallExpr:
		method, _ := node.Fun.(*ast.SelectorExpr)
		makers := []string{"event", "Event", "Record", "Warning", "ConfigurationError"}
		if method != nil && slices.Contains(makers, method.Sel.Name) {
			candidates = node.Args[:min(3, len(node.Args))]
		}
	}
	var reasons []string
	for _, candidate := range candidates {
		text, known := textOf(candidate, nil)
		if known && camelCase.MatchString(text) && !slices.Contains(noReasons[path], text) {
			reasons = append(reasons, text)
		}
	}
	return reasons
}

// noReasons look like some, but become others before anybody sees them, or are those of a container in Landscaper's
// status.
var noReasons = map[string][]string{
	kindsOfHelm: {"Unauthorized"},
	"plugins/container/internal/report/report.go": {"Running"},
}

// eachFile parses the code of the host, the sdk and the plugins, but for tests, examples and rules about plugins.
func eachFile(t *testing.T, do func(path string, file *ast.File)) {
	t.Helper()
	const up = "../../"
	for _, root := range []string{"host", "sdk", "plugins"} {
		err := filepath.WalkDir(up+root, func(path string, entry fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, up)
			switch {
			case err != nil:
				return err
			case slices.Contains([]string{"sdk/examples", "sdk/conformance", "plugins/container/helper"}, name):
				return filepath.SkipDir
			case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				do(name, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTroubleshootingHasTheMessages: what the page has as a message is said somewhere, and what the host logs as an
// error is on the page.
func TestTroubleshootingHasTheMessages(t *testing.T) {
	t.Parallel()
	said, errors := strings.Builder{}, map[string]string{}
	eachFile(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BasicLit:
				text, _ := textOf(node, nil)
				said.WriteString(text + "\n")
			case *ast.BinaryExpr: // of a text that is longer than a line
				text, _ := textOf(node.X, nil)
				rest, _ := textOf(node.Y, nil)
				said.WriteString(text + rest + "\n")
			case *ast.CallExpr:
				method, _ := node.Fun.(*ast.SelectorExpr)
				if method == nil || method.Sel.Name != "Error" || len(node.Args) == 0 || !strings.HasPrefix(path, "host/") {
					return true
				}
				if text, known := textOf(node.Args[0], nil); known {
					errors[text] = path
				}
			}
			return true
		})
	})
	documented := firstColumn(t, troubleshootingPage, "message")
	for _, message := range documented {
		for part := range strings.SplitSeq(message, "…") {
			if !strings.Contains(said.String(), part) {
				t.Errorf("the page has the message %q, of which nobody says %q", message, part)
			}
		}
	}
	for message, path := range errors {
		if !slices.Contains(documented, message) {
			t.Errorf("the page does not say what to do about the error %q of %s", message, path)
		}
	}
}
