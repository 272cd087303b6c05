package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed intro.md
var intro string

// pages are the pages with promises, in their order on the page. They are in docs, or else at the root.
var pages = []string{
	"deploy-items.md", "manifest.md", "helm.md", "container.md", "hooks.md", "host-configuration.md",
	"operators-guide.md", "migrate.md", "troubleshooting.md", "telemetry.md", "plugin-authors.md",
	"protocol.md", "architecture.md", "SECURITY.md",
}

// section is a heading of a page, and its name in links.
type section struct{ title, slug string }

var (
	blocks  = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// writePage returns the content of test/rules.md.
func writePage(root string, rules []rule) ([]byte, error) {
	page := bytes.NewBufferString(intro)
	written := map[string]bool{}
	for _, name := range pages {
		path, sections, err := sectionsOf(root, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.page == name }) {
			continue
		}
		fmt.Fprintf(page, "\n## [%s](../%s)\n", sections[0].title, path)
		for i, section := range sections {
			rows := rowsOf(rules, name, section.slug)
			if rows == "" {
				continue
			}
			written[name+"#"+section.slug] = true
			if i > 0 {
				fmt.Fprintf(page, "\n### [%s](../%s#%s)\n", section.title, path, section.slug)
			}
			page.WriteString("\n| rule | test |\n|---|---|\n" + rows)
		}
	}
	var problems []string
	for _, r := range rules {
		if place := r.page + "#" + r.section; !written[place] {
			problems = append(problems, fmt.Sprintf("%s: there is no section %s", r.line, place))
		}
	}
	return page.Bytes(), joined(problems)
}

func rowsOf(rules []rule, page, slug string) string {
	rows := &strings.Builder{}
	for _, r := range rules {
		if r.page == page && r.section == slug {
			fmt.Fprintf(rows, "| %s | `%s %s` |\n", r.sentence, r.dir, r.name())
		}
	}
	return rows.String()
}

// sectionsOf returns the path of a page, and its headings.
func sectionsOf(root, name string) (path string, sections []section, err error) {
	path = "docs/" + name
	content, err := os.ReadFile(filepath.Join(root, path))
	if os.IsNotExist(err) {
		path = name
		content, err = os.ReadFile(filepath.Join(root, path))
	}
	if err != nil {
		return "", nil, err
	}
	for _, found := range heading.FindAllStringSubmatch(blocks.ReplaceAllString(string(content), ""), -1) {
		slug := strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
		sections = append(sections, section{found[1], slug})
	}
	if len(sections) == 0 {
		return "", nil, fmt.Errorf("%s has no heading", path)
	}
	return path, sections, nil
}
