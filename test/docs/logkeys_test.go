package docs

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// firstKey is how many arguments of a logger's method come before those that are keys and values.
var firstKey = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0, "Log": 3, "LogAttrs": 3}

// TestLogKeysAreDocumented: docs/telemetry.md lists the keys of records in the log, and no others.
func TestLogKeysAreDocumented(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(page(t, "docs/telemetry.md"), "\n## The log\n")
	if !found {
		t.Fatal("there is no section about the log")
	}
	documented, keys := map[string]bool{}, false // the table of the levels comes first
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "## ") {
			break
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		keys = keys || first == "key"
		if keys && strings.HasPrefix(line, "| ") {
			for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				documented[key[1]] = true
			}
		}
	}
	used := usedKeys(t)
	for key, where := range used {
		if !documented[key] {
			t.Errorf("%s: the key %q is not documented", where, key)
		}
		delete(documented, key)
	}
	for key := range documented {
		t.Errorf("the key %q is documented, and nobody uses it", key)
	}
}

// madeAtRuntime are the files that have keys which are made while the host runs, and which ones; those of a plugin's
// own records are the plugin's.
var madeAtRuntime = map[string][]string{
	"host/internal/telemetry/hpa.go": {
		"memoryAverageUtilization", "memoryAverageValue", "cpuAverageUtilization", "cpuAverageValue",
	},
	"host/internal/plugin/processlog/record.go": nil,
}

// usedKeys are the keys of the host, the sdk and the plugins, with the file of each. The helper of the container
// deployer, which runs in Pods, has a log of its own.
func usedKeys(t *testing.T) (used map[string]string) {
	t.Helper()
	used, constants := map[string]string{}, map[string]map[string]string{} // those by the directories
	eachFile(t, func(path string, file *ast.File) {
		dir := filepath.Dir(path)
		if constants[dir] == nil {
			constants[dir] = map[string]string{}
		}
		noteConstants(file, constants[dir])
	})
	eachFile(t, func(path string, file *ast.File) {
		for _, key := range madeAtRuntime[path] {
			used[key] = path
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, key := range keysOf(call) {
				text, known := textOf(key, constants[filepath.Dir(path)])
				if _, exempt := madeAtRuntime[path]; !known && !exempt {
					t.Errorf("%s: a key in a call of %s is neither a text nor a constant of the package",
						path, lastNameOf(call.Fun))
				}
				if known {
					used[text] = path
				}
			}
			return true
		})
	})
	return used
}

// keysOf are the keys of a call that logs, or that makes an attribute of a record; none for other calls.
func keysOf(call *ast.CallExpr) []ast.Expr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	receiver := lastNameOf(method.X)
	attributes := []string{"String", "Int", "Int64", "Bool", "Duration", "Time", "Any", "Group"}
	if receiver == "slog" && slices.Contains(attributes, method.Sel.Name) {
		return call.Args[:1]
	}
	first, logs := firstKey[method.Sel.Name]
	if !logs || !slices.Contains([]string{"log", "slog", "logger"}, strings.ToLower(receiver)) && !isWith(method.X) {
		return nil
	}
	var keys []ast.Expr
	for i := first; i < len(call.Args); i++ {
		if _, attribute := call.Args[i].(*ast.CallExpr); attribute {
			continue // which is a call of its own
		}
		if i+1 == len(call.Args) { // what is spread has no keys to see
			break
		}
		keys = append(keys, call.Args[i])
		i++
	}
	return keys
}

// isWith reports whether an expression is a logger with more attributes.
func isWith(x ast.Expr) bool {
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && method.Sel.Name == "With"
}

func lastNameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	default:
		return ""
	}
}

// noteConstants notes the texts of the constants in a file, by their names.
func noteConstants(file *ast.File, constants map[string]string) {
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			return true
		}
		for i, name := range spec.Names {
			if text, known := textOf(spec.Values[i], nil); known {
				constants[name.Name] = text
			}
		}
		return true
	})
}

// textOf is the text of an expression.
func textOf(x ast.Expr, constants map[string]string) (text string, known bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil && x.Kind == token.STRING
	case *ast.Ident:
		text, known = constants[x.Name]
		return text, known
	default:
		return "", false
	}
}
