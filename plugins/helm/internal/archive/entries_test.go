package archive

import (
	"bytes"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzCountEntries: a document has no more nodes than are told from the number of its entries. It decides on whether aliases and nodes are
// counted exactly, so that what it misses is a bomb that nobody sees. The same goes for anchors and aliases.
func FuzzCountEntries(f *testing.F) {
	for _, seed := range []string{
		"a: 1\nb:\n- c\n-\n- - - d\n", "{a,b,c: d,? e,? }", "[a: b, c:, ? d : e, \"f\":g, {}, []]", "# a\ra: [b,c]", "a: |\n # b\n c\n", "? - a\n: - b\n",
		"---\na: 1\n--- [b]\n...\n---\n", "&a a: *a", "- &a\n- !!str &b c\n- *a\n- [*b,*b]", "a: 'b\n  # c'\n", "\u2028- a\u2029- b\u0085- c", "\ufeff&a {b: *a}",
		"\"a\":b", "? a\n? b\n", "%YAML 1.1\n---\n!!set {a,b}", "a:\n  # b\r  - c\r  - d",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		most, total := countEntries(data)
		if most > total {
			t.Errorf("the largest document has %d entries, but all have %d", most, total)
		}
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		for {
			var document yaml.Node
			if decoder.Decode(&document) != nil {
				return
			}
			nodes, anchors, aliases := survey(&document)
			if nodes > 3*most+2 { // the document and its root are in no entry
				t.Errorf("a document has %d nodes, but %d entries were counted", nodes, most)
			}
			if anchors > 0 && !hasProperty(data, '&') || aliases > 0 && !hasProperty(data, '*') {
				t.Errorf("of %d anchors and %d aliases some were not found", anchors, aliases)
			}
		}
	})
}

func survey(node *yaml.Node) (nodes, anchors, aliases int) {
	nodes = 1
	if node.Anchor != "" {
		anchors++
	}
	if node.Kind == yaml.AliasNode {
		aliases++
	}
	for _, inner := range node.Content {
		n, a, b := survey(inner)
		nodes, anchors, aliases = nodes+n, anchors+a, aliases+b
	}
	return nodes, anchors, aliases
}
