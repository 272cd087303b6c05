package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The list of values is between these two.
const (
	begin = "<!-- Written by `make generate` from the comments in values.yaml. -->\n"
	end   = "<!-- The end of what is written by `make generate`. -->\n"
)

// insert replaces the list in a text.
func insert(text, list string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", errors.New("expected the two comments around the list of values, but found none, or one")
	}
	return before + begin + "\n" + list + "\n" + end + after, nil
}

// document returns a table of values with their defaults and their comments.
func document(values []byte) (string, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(values, &root); err != nil {
		return "", fmt.Errorf("read the values: %w", err)
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return "", errors.New("read the values: expected an object")
	}
	rows, err := rowsOf(root.Content[0], "")
	if err != nil {
		return "", err
	}
	return "| Value | Default | Meaning |\n|---|---|---|\n" + strings.Join(rows, ""), nil
}

// rowsOf returns a row for each value of an object. An object with a comment of its own is one value, and so is a list.
func rowsOf(object *yaml.Node, path string) ([]string, error) {
	var rows []string
	for i := 0; i+1 < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		name, comment := path+key.Value, sentence(key.HeadComment)
		switch {
		case comment != "":
			row, err := rowOf(name, value, comment)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			inner, err := rowsOf(value, name+".")
			if err != nil {
				return nil, err
			}
			rows = append(rows, inner...)
		default:
			return nil, fmt.Errorf("values.yaml: %s has no comment; write one above it", name)
		}
	}
	return rows, nil
}

func rowOf(name string, value *yaml.Node, comment string) (string, error) {
	var parsed any
	if err := value.Decode(&parsed); err != nil {
		return "", fmt.Errorf("values.yaml: %s: %w", name, err)
	}
	text, err := json.Marshal(parsed)
	if err != nil {
		return "", fmt.Errorf("values.yaml: %s: %w", name, err)
	}
	return fmt.Sprintf("| `%s` | `%s` | %s |\n", name, text, strings.ReplaceAll(comment, "|", `\|`)), nil
}

// sentence returns the comment right above a value as one line. A comment above an empty line is about more than this
// value.
func sentence(comment string) string {
	paragraphs := strings.Split(comment, "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return line == "" }), " ")
}
