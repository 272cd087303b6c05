package report

import (
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/plugins/internal/boundedyaml"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

// Hiding returns a Redactor of the input of a container: its imports, its Target, nil for none, and its files.
func Hiding(imports json.RawMessage, t *sdk.Target, files map[string][]byte) *redact.Redactor {
	hidden := redact.New(nil)
	known := given{learn: hidden.Learn, publish: hidden.Publish}
	known.addDocument(string(imports), 0)
	if t != nil {
		known.addText(string(t.Content), 0)
	}
	for _, file := range files {
		known.addText(string(file), 0)
	}
	return hidden
}

// maxTexts bounds the levels of texts in texts. A kubeconfig in the file with the Target is at level two.
const maxTexts = 5

// given takes apart the input of a container: texts, and the values in them if they are JSON or YAML. The names of
// their fields are shown, although they are values, too.
type given struct {
	// learn hides a text or a json.Number, and publish shows texts.
	learn   func(value any)
	publish func(names ...string)
}

// addText adds a text, and the values in it. depth counts the texts around it.
func (g given) addText(text string, depth int) {
	g.addWhole(text)
	if depth <= maxTexts {
		g.addDocument(text, depth)
	}
}

// addWhole adds a text in the form of messages: invalid bytes are replaced there.
func (g given) addWhole(text string) { g.learn(string([]rune(text))) }

// addDocument adds the values in a text, and nothing if it is neither JSON nor YAML. Aliases are not replaced: their
// values are added at their anchors, so nothing grows.
func (g given) addDocument(text string, depth int) {
	if json.Valid([]byte(text)) { // some JSON is no YAML for the library
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if decoder.Decode(&value) == nil {
			g.addValue(value, depth)
		}
		return
	}
	if document, err := boundedyaml.Parse([]byte(text)); err == nil {
		g.addNode(document, depth)
	}
}

// addValue adds a value of JSON, and the values in it if it is a text: a kubeconfig in the content of a Target is a
// text in a document.
func (g given) addValue(value any, depth int) {
	switch value := value.(type) {
	case map[string]any:
		for name, v := range value {
			g.publish(name)
			g.addValue(v, depth)
		}
	case []any:
		for _, v := range value {
			g.addValue(v, depth)
		}
	case string:
		start := strings.TrimSpace(value)
		if strings.Contains(value, "\n") || strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[") {
			g.addText(value, depth+1)
			return
		}
		g.addWhole(value)
	case json.Number:
		g.learn(value)
	}
}

// addNode is addValue for YAML.
func (g given) addNode(node *yaml.Node, depth int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i, child := range node.Content {
			if isName := i%2 == 0 && child.Kind == yaml.ScalarNode; isName {
				g.publish(child.Value)
			} else {
				g.addNode(child, depth)
			}
		}
	case yaml.ScalarNode:
		g.addScalar(node, depth)
	default:
		for _, child := range node.Content {
			g.addNode(child, depth)
		}
	}
}

// addScalar adds a text, or a number both as written and as decoded.
func (g given) addScalar(node *yaml.Node, depth int) {
	var value any
	if node.Decode(&value) != nil {
		value = node.Value
	}
	switch value := value.(type) {
	case nil, bool:
	case string:
		g.addValue(value, depth)
	case int, int64, uint64, float64:
		meant, _ := json.Marshal(value) //nolint:errchkjson // infinite numbers have no digits
		for _, number := range [][]byte{[]byte(node.Value), meant} {
			if json.Valid(number) {
				g.learn(json.Number(number))
			}
		}
	default: // a time
		g.addValue(node.Value, depth)
	}
}
