package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxLines  = 1500
	maxCircle = 5
)

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// checkPackages checks the sizes of packages, and the circles of their files.
func checkPackages(root string) (breaches []breach, err error) {
	var patterns []string
	for _, source := range sources {
		patterns = append(patterns, "./"+source+"/...")
	}
	packages, err := list(root, patterns...)
	if err != nil {
		return nil, err
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	for _, p := range packages {
		if p.DepOnly {
			continue
		}
		place, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		found, err := checkPackage(place, p, exports)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		breaches = append(breaches, found...)
	}
	return breaches, nil
}

// list returns packages, and before them their dependencies.
func list(root string, patterns ...string) (packages []listed, err error) {
	arguments := append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)
	command := exec.Command("go", arguments...) //nolint:gosec,noctx // a tool of developers, which ends with it
	command.Dir, command.Stderr = root, os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode packages: %w", err)
		}
		packages = append(packages, p)
	}
}

func checkPackage(place string, p listed, exports map[string]string) (breaches []breach, err error) {
	lines := 0
	for _, name := range p.GoFiles {
		if isGenerated(name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		lines += codeLines(content)
	}
	if lines > maxLines {
		figure := fmt.Sprintf("%d lines of code, at most %d", lines, maxLines)
		breaches = append(breaches, breach{rule: ruleSize, place: place, figure: figure})
	}
	uses, err := usesBetweenFiles(p, exports)
	if err != nil {
		return nil, err
	}
	for _, circle := range circles(uses) {
		if len(circle) > maxCircle {
			breaches = append(breaches, breach{
				rule: ruleCircle, place: place, details: []string{strings.Join(circle, " ")},
				figure: fmt.Sprintf("%d files use one another in a circle, at most %d", len(circle), maxCircle),
			})
		}
	}
	return breaches, nil
}

func isGenerated(name string) bool {
	return strings.HasSuffix(name, ".pb.go") || strings.HasPrefix(name, "zz_generated")
}

// codeLines counts the lines of a file without comments and blank lines.
func codeLines(content []byte) (lines int) {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			lines++
		}
	}
	return lines
}

// usesBetweenFiles returns for each file of a package the files with declarations it uses: functions, methods, types,
// and variables and constants of the package. A field belongs to its type.
func usesBetweenFiles(p listed, exports map[string]string) (map[string][]string, error) {
	fileSet := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fileSet, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: importer.ForCompiler(fileSet, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	checked, err := config.Check(p.ImportPath, fileSet, files, &info)
	if err != nil {
		return nil, err
	}
	uses := map[string][]string{}
	fileOf := func(position token.Pos) string { return filepath.Base(fileSet.Position(position).Filename) }
	for identifier, object := range info.Uses {
		if !isDeclaration(object, checked) {
			continue
		}
		from, to := fileOf(identifier.Pos()), fileOf(object.Pos())
		if from != to && !isGenerated(from) && !isGenerated(to) && !slices.Contains(uses[from], to) {
			uses[from] = append(uses[from], to)
		}
	}
	return uses, nil
}

// isDeclaration reports whether an object is a method or a declaration at the top level of a package.
func isDeclaration(object types.Object, of *types.Package) bool {
	if object.Pkg() != of || !object.Pos().IsValid() {
		return false
	}
	function, ok := object.(*types.Func)
	return object.Parent() == of.Scope() || ok && function.Signature().Recv() != nil
}

// circles returns the sets of two or more files in which each uses each, directly or by way of others.
func circles(uses map[string][]string) (sets [][]string) {
	reached := map[string]map[string]bool{}
	for from := range uses {
		reached[from] = map[string]bool{}
		for next := []string{from}; len(next) > 0; next = next[1:] {
			for _, to := range uses[next[0]] {
				if !reached[from][to] {
					reached[from][to] = true
					next = append(next, to)
				}
			}
		}
	}
	done := map[string]bool{}
	for from := range uses {
		if done[from] || !reached[from][from] {
			continue
		}
		var set []string
		for to := range reached[from] {
			if reached[to][from] {
				set, done[to] = append(set, to), true
			}
		}
		slices.Sort(set)
		sets = append(sets, set)
	}
	slices.SortFunc(sets, slices.Compare)
	return sets
}
