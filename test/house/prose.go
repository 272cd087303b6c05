package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxPronouns is how many relative pronouns 1,000 words may have.
	maxPronouns = 20
	// fewPronouns may be in any package: in a short text one of them is already a high rate.
	fewPronouns = 3
	// worstShown is how many sentences are printed with a breach.
	worstShown = 5
)

var (
	wordPattern     = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)
	relativePattern = regexp.MustCompile(`(?i)^(that|which|what|who|whose|whom|whoever|whatever|whichever)$`)
	personPattern   = regexp.MustCompile(`(?i)^(somebody|nobody|anybody|everybody|whoever|he|him|his)$`)
	sentenceEnd     = regexp.MustCompile(`[.;:]\s+`)
	codeInPage      = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
)

// prose is the English of a package or a page.
type prose struct {
	words, relatives, persons int
	sentences                 []sentence
}

// sentence is one with relative pronouns or words for persons.
type sentence struct {
	text               string
	file               string
	line               int
	relatives, persons int
}

// add counts a text that begins at a line of a file.
func (p *prose) add(file string, line int, text string) {
	for text != "" {
		part := text
		if end := sentenceEnd.FindStringIndex(text); end != nil {
			part = text[:end[1]]
		}
		text = text[len(part):]
		body := strings.TrimLeft(part, " \t\n")
		s := sentence{file: file, line: line + strings.Count(part[:len(part)-len(body)], "\n")}
		s.text = strings.Join(strings.Fields(body), " ")
		for _, word := range wordPattern.FindAllString(body, -1) {
			p.words++
			if relativePattern.MatchString(word) {
				s.relatives++
			}
			if personPattern.MatchString(word) {
				s.persons++
			}
		}
		if s.relatives+s.persons > 0 {
			p.sentences = append(p.sentences, s)
		}
		p.relatives, p.persons = p.relatives+s.relatives, p.persons+s.persons
		line += strings.Count(part, "\n")
	}
}

// check returns the breach of a rule, if there is one.
func (p *prose) check(rule, place string) (breaches []breach) {
	tooMany := p.relatives > fewPronouns && 1000*p.relatives > maxPronouns*p.words
	if !tooMany && p.persons == 0 {
		return nil
	}
	slices.SortStableFunc(p.sentences, func(a, b sentence) int {
		return cmp.Or(b.persons-a.persons, b.relatives-a.relatives)
	})
	b := breach{rule: rule, place: place}
	b.figure = fmt.Sprintf("%.1f relative pronouns per 1,000 words, at most %d; words for persons: %d, none allowed",
		1000*float64(p.relatives)/float64(p.words), maxPronouns, p.persons)
	for _, s := range p.sentences[:min(worstShown, len(p.sentences))] {
		b.details = append(b.details, fmt.Sprintf("%s:%d: %s", s.file, s.line, s.text))
	}
	return []breach{b}
}

// checkSources checks comments and texts of each package. Tests and generated files do not count.
func checkSources(root string) (breaches []breach, err error) {
	comments, texts := map[string]*prose{}, map[string]*prose{}
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, entry fs.DirEntry, err error) error {
			name := entry.Name()
			switch {
			case err != nil:
				return err
			case entry.IsDir() && name == "testdata":
				return filepath.SkipDir
			case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || isGenerated(name):
				return nil
			}
			path, err = filepath.Rel(root, path)
			if err != nil {
				return err
			}
			place := filepath.Dir(path)
			if comments[place] == nil {
				comments[place], texts[place] = &prose{}, &prose{}
			}
			return addSource(comments[place], texts[place], root, path)
		})
		if err != nil {
			return nil, err
		}
	}
	for place := range comments {
		breaches = append(breaches, comments[place].check(ruleComments, place)...)
		breaches = append(breaches, texts[place].check(ruleTexts, place)...)
	}
	slices.SortFunc(breaches, func(a, b breach) int { return strings.Compare(a.name(), b.name()) })
	return breaches, nil
}

// addSource counts the comments of a file, without what precedes its package clause and is no comment of the package,
// and its literals of four words and more.
func addSource(comments, texts *prose, root, path string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		if group.Pos() > file.Package || group == file.Doc {
			comments.add(path, files.Position(group.Pos()).Line, commentText(group))
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && strings.Count(text, " ") >= 3 {
			texts.add(path, files.Position(literal.Pos()).Line, text)
		}
		return true
	})
	return nil
}

// commentText is the text of a group of comments, with the lines of the source. Directives such as //nolint become
// blank lines.
func commentText(group *ast.CommentGroup) string {
	var lines strings.Builder
	for _, comment := range group.List {
		text := (&ast.CommentGroup{List: []*ast.Comment{comment}}).Text()
		lines.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
	return lines.String()
}

// checkPages checks the pages. Code in them does not count.
func checkPages(root string) (breaches []breach, err error) {
	for _, pattern := range pages {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			place, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			page := &prose{}
			page.add(place, 1, codeInPage.ReplaceAllStringFunc(string(content), blank))
			breaches = append(breaches, page.check(rulePage, place)...)
		}
	}
	return breaches, nil
}

// blank replaces code by as many lines as it has.
func blank(code string) string { return " " + strings.Repeat("\n", strings.Count(code, "\n")) }
