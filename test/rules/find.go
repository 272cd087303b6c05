package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// sources are the folders with tests.
var sources = []string{"charts", "host", "plugins", "proto", "sdk", "test"}

// rule is a sentence of a section, and its test.
type rule struct {
	page, section string
	sentence      string
	// dir is the package of the test, from the root of the repository.
	dir           string
	test, subtest string
	// line is the place of the comment, for errors.
	line string
}

// name returns the name of the test as `go test` prints it.
func (r rule) name() string {
	if r.subtest == "" {
		return r.test
	}
	return r.test + "/" + r.subtest
}

const mark = "Rule ("

// comment splits the text of a comment into page, section, an explicit test, and the sentence.
var comment = regexp.MustCompile(`^Rule \(([\w-]+\.md)#([\w-]+)(?:, (\w*)(?:/(\S+))?)?\): (.+\.)$`)

// findRules returns the rules of all tests, by package, file and place in the file.
func findRules(root string) (rules []rule, err error) {
	var problems []string
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, entry fs.DirEntry, err error) error {
			isScenario := strings.HasSuffix(path, scenarioSuffix)
			if err != nil || entry.IsDir() || !isScenario && !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path) //nolint:gosec // a file of the repository
			if err != nil || !bytes.Contains(content, []byte(mark)) {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			read := rulesOf
			if isScenario {
				read = rulesOfScenario
			}
			found, wrong, err := read(filepath.ToSlash(rel), content)
			rules, problems = append(rules, found...), append(problems, wrong...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the tests: %w", err)
		}
	}
	lines := map[string]string{}
	for _, r := range rules {
		if lines[r.sentence] != "" {
			problems = append(problems, fmt.Sprintf("%s: %s has this rule, too: %s", r.line, lines[r.sentence], r.sentence))
		}
		lines[r.sentence] = r.line
	}
	return rules, joined(problems)
}

const (
	scenarioSuffix = ".txtar"
	// contract has the scenarios for all deployers of objects, and contractIn is the package with their test for
	// manifests.
	contract, contractIn = "plugins/internal/plugintest/scenarios/testdata", "plugins/manifest/internal/deployer"
	// helmIn is the package with the test for charts, which has a subtest for each mode, and one of them for releases.
	helmIn = "plugins/helm/internal/deployer"
)

// rulesOfScenario returns the rules in the comments of a scenario, the subtest of TestScenarios of its name.
func rulesOfScenario(path string, content []byte) (rules []rule, problems []string, err error) {
	dir, file := pathpkg.Split(path)
	dir, _, _ = strings.Cut(strings.TrimSuffix(dir, "/"), "/testdata")
	if strings.HasPrefix(path, contract) {
		dir = contractIn
	}
	text := ""
	for n, line := range strings.Split(string(content), "\n") {
		comment, isComment := strings.CutPrefix(line, "# ")
		switch {
		case isComment && text != "":
			text += " " + comment
		case isComment && strings.HasPrefix(comment, mark):
			text = comment
		}
		if text == "" || !strings.HasSuffix(text, ".") {
			continue
		}
		at := fmt.Sprintf("%s:%d", path, n+1)
		r, err := parseRule(text)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v, for %s", at, err, text))
		}
		r.dir, r.line = dir, at
		r.test, r.subtest = "TestScenarios", strings.TrimSuffix(file, scenarioSuffix)
		if dir == helmIn || strings.HasPrefix(path, contract) && r.page == "helm.md" {
			r.dir, r.subtest = helmIn, "release/"+r.subtest
		}
		rules, text = append(rules, r), ""
	}
	return rules, problems, nil
}

// rulesOf returns the rules in a file of tests.
func rulesOf(path string, content []byte) (rules []rule, problems []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	for _, group := range file.Comments {
		for _, text := range texts(group) {
			line := files.Position(group.Pos()).String()
			r, err := parseRule(text)
			if err == nil && r.test == "" {
				r.test, r.subtest, err = testOf(file, group, r.subtest)
			}
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v, for %s", line, err, text))
				continue
			}
			r.dir, r.line = path[:strings.LastIndex(path, "/")], line
			rules = append(rules, r)
		}
	}
	return rules, problems, nil
}

// texts returns the texts about rules in a comment. A text continues on the next lines.
func texts(group *ast.CommentGroup) (found []string) {
	open := false
	for _, c := range group.List {
		text, isText := strings.CutPrefix(c.Text, "// ")
		switch {
		case isText && strings.HasPrefix(text, mark):
			found, open = append(found, text), true
		case isText && open:
			found[len(found)-1] += " " + text
		default:
			open = false
		}
	}
	return found
}

func parseRule(text string) (rule, error) {
	parts := comment.FindStringSubmatch(text)
	switch {
	case parts == nil:
		return rule{}, fmt.Errorf("expected a page, a section and a sentence, such as %q",
			"Rule (deploy-items.md#jobs): A job ends.")
	case strings.Contains(parts[5], "|"):
		return rule{}, fmt.Errorf("a sentence must not contain %q", "|")
	}
	return rule{page: parts[1], section: parts[2], test: parts[3], subtest: parts[4], sentence: parts[5]}, nil
}

// testOf returns the function with the comment, and its subtest: the named one, or in the function the one with the
// next text after the comment as its name.
func testOf(file *ast.File, group *ast.CommentGroup, named string) (test, subtest string, err error) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		inBody := function.Body.Pos() < group.Pos() && group.End() < function.Body.End()
		if function.Doc != group && !inBody {
			continue
		}
		test = function.Name.Name
		switch {
		case !strings.HasPrefix(test, "Test") && !strings.HasPrefix(test, "Fuzz"):
			return "", "", fmt.Errorf("%s is no test; name the test in the comment", test)
		case named != "" || !inBody:
			return test, named, nil
		}
		subtest = nextText(function.Body, group.End())
		if subtest == "" {
			return "", "", fmt.Errorf("no name of a subtest follows in %s", test)
		}
		return test, strings.ReplaceAll(subtest, " ", "_"), nil
	}
	return "", "", fmt.Errorf("the comment is at no test; name the test in the comment")
}

// nextText returns the first text in the code after a position.
func nextText(body *ast.BlockStmt, after token.Pos) (text string) {
	var next token.Pos
	ast.Inspect(body, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if ok && literal.Kind == token.STRING && literal.Pos() > after && (next == 0 || literal.Pos() < next) {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				next, text = literal.Pos(), value
			}
		}
		return true
	})
	return text
}
