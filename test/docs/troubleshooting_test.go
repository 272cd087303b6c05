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
			if spec, ok := node.(*ast.ValueSpec); ok && isReason(path, spec) {
				text, known := textOf(spec.Values[0], nil)
				if known && camelCase.MatchString(text) && text != notShown[path] {
					reasons[text] = path
				}
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
			t.Errorf("the page has the reason %s, but no constant does", reason)
		}
	}
}

var (
	reasonName = regexp.MustCompile(`^[rR]eason[A-Z]\w*$`)
	camelCase  = regexp.MustCompile(`^[A-Z][a-zA-Z]+$`)
	// literalReason is a reason without a constant, in a field or an argument.
	literalReason = regexp.MustCompile(
		`\bReason:\s*"[A-Z][a-zA-Z]+"|\b([eE]vent|Record|Warning|ConfigurationError)\(([\w.]+, ){0,2}"[A-Z][a-zA-Z]+",`)
)

// kindsOfHelm are reasons by another name. One becomes another before users see it.
const kindsOfHelm = "plugins/helm/internal/helm/helm.go"

var notShown = map[string]string{kindsOfHelm: "Unauthorized"}

// isReason reports whether a constant is a reason, by its name or its type.
func isReason(path string, spec *ast.ValueSpec) bool {
	kind, _ := spec.Type.(*ast.Ident)
	typed := kind != nil && (kind.Name == "Reason" || kind.Name == "Kind" && path == kindsOfHelm)
	return len(spec.Values) > 0 && (typed || reasonName.MatchString(spec.Names[0].Name))
}

// TestReasonsAreConstants lets TestTroubleshootingHasTheReasons find all of them.
func TestReasonsAreConstants(t *testing.T) {
	t.Parallel()
	eachFile(t, func(path string, _ *ast.File) {
		for line := range strings.Lines(page(t, path)) {
			if literalReason.MatchString(line) {
				t.Errorf("%s: expected a constant for the reason in %s", path, strings.TrimSpace(line))
			}
		}
	})
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
