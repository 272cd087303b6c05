// Package boundedyaml reads YAML, and so JSON, from users without trust in their use of a plugin's memory: a small
// document may stand for a very large one.
package boundedyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// maxExpanded bounds a document with its aliases replaced, in bytes. No object is as large.
const maxExpanded = 4 << 20

// Errors about a document: clauses about "it" without quotes of it, unlike those of the parsers.
var (
	errTags   = errors.New("it has a directive %TAG; write tags without it")
	errUTF8   = errors.New("it is not in UTF-8")
	errNoYAML = errors.New("it is no YAML")
	errTwice  = errors.New("it has two fields of the same name")
)

// ToJSON returns a document as JSON. Two fields of the same name are an error. So are aliases if the document is far
// larger without them: the parser bounds the number of values then, but not their size. Errors quote nothing of the
// document.
func ToJSON(document []byte) ([]byte, error) {
	// Some JSON is no YAML for the parser, such as surrogate pairs and long names. It has no aliases.
	if utf8.Valid(document) && json.Valid(document) {
		return compact(document)
	}
	if err := Check(document, maxExpanded); err != nil {
		return nil, err
	}
	content, err := sigsyaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, errNoYAML
	}
	return content, nil
}

// compact returns valid JSON without white space around values.
func compact(document []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // any number is a token then
	if hasTwice(decoder) {
		return nil, errTwice
	}
	var short bytes.Buffer
	err := json.Compact(&short, document)
	return short.Bytes(), err
}

// hasTwice reports whether two fields of the same name are in the next value of valid JSON.
func hasTwice(from *json.Decoder) bool {
	begin, _ := from.Token()
	if _, ok := begin.(json.Delim); !ok {
		return false
	}
	names := map[json.Token]bool{}
	for from.More() {
		if begin == json.Delim('{') {
			name, _ := from.Token()
			if names[name] {
				return true
			}
			names[name] = true
		}
		if hasTwice(from) {
			return true
		}
	}
	_, _ = from.Token() // the end
	return false
}

// Check returns an error about a document with costs far beyond its size: with a directive %TAG, or larger than most
// bytes, roughly, with its aliases replaced. The error quotes nothing of it.
func Check(document []byte, most int) error {
	if err := checkTags(document); err != nil {
		return err
	}
	if !bytes.ContainsRune(document, '&') || !bytes.ContainsRune(document, '*') {
		return nil
	}
	node, err := parse(document)
	if err != nil {
		return err
	}
	if s := (sizes{most: most, known: map[*yaml.Node]int{}}); s.of(node) > most {
		return fmt.Errorf("its aliases stand for more than %d bytes; repeat less by them", most)
	}
	return nil
}

// Parse returns a document as it is written, with its aliases in place. Errors quote nothing of it.
func Parse(document []byte) (*yaml.Node, error) {
	if err := checkTags(document); err != nil {
		return nil, err
	}
	return parse(document)
}

func parse(document []byte) (*yaml.Node, error) {
	node := &yaml.Node{}
	if err := yaml.Unmarshal(document, node); err != nil {
		return nil, errNoYAML
	}
	return node, nil
}

// tagDirective finds the directive at the beginning of a line, with the line ends of all parsers.
var tagDirective = regexp.MustCompile(`(?:^|[\r\n\x{85}\x{2028}\x{2029}\x{feff}])%TAG`)

// checkTags refuses a directive %TAG: the parsers repeat its text with each tag.
func checkTags(document []byte) error {
	switch {
	case !utf8.Valid(document):
		return errUTF8 // the directive would not be found
	case bytes.Contains(document, []byte("%TAG")) && tagDirective.Match(document):
		return errTags
	default:
		return nil
	}
}

// sizes are the sizes of nodes without aliases, so that each is measured once.
type sizes struct {
	most  int
	known map[*yaml.Node]int
}

// of returns the size of a node without aliases, roughly, or something beyond the bound.
func (s sizes) of(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if size, ok := s.known[node]; ok {
		return size
	}
	s.known[node] = s.most + 1 // for a node within itself
	size := len(node.Value) + 1
	for _, child := range node.Content {
		size = min(size+s.of(child), s.most+1)
	}
	s.known[node] = size
	return size
}
