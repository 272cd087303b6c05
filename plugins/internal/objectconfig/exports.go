package objectconfig

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// RewriteExports is the Rewrite of a providerconfig.Format: exports may be a list, or a map with it.
func RewriteExports(document []byte) (rewritten []byte, writtenPath func(string) string) {
	rewritten, listed := wrapExports(document)
	if listed {
		return rewritten, written
	}
	return rewritten, func(path string) string { return path }
}

// ExportsPath is the path of the list of exports in a rewritten document.
const ExportsPath = "exports.exports"

// wrapExports returns a document with exports in their newer form, a map with a list, and reports whether they were
// written in the older form, as the list. The strict decoder has one form for both then.
func wrapExports(document []byte) (wrapped []byte, listed bool) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return document, false
	}
	for decoder.More() {
		name, err := decoder.Token()
		var value json.RawMessage
		if err != nil || decoder.Decode(&value) != nil {
			return document, false // the strict decoder reports the error
		}
		if name == "exports" && value[0] == '[' {
			end := int(decoder.InputOffset())
			begin := end - len(value)
			return slices.Concat(document[:begin], []byte(`{"exports":`), value, []byte("}"), document[end:]), true
		}
	}
	return document, false
}

// written is the path in a document with a list for a path in the wrapped one.
func written(path string) string {
	if rest, ok := strings.CutPrefix(path, ExportsPath); ok {
		return "exports" + rest
	}
	return path
}
