package providerconfig

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk"
)

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

// unwrapExports replaces the paths of a wrapped document by those of the written one.
func unwrapExports(unknown []string, wrong []sdk.Problem) {
	const wrapped, written = "exports.exports", "exports"
	for i, text := range unknown {
		unknown[i] = strings.Replace(text, `"`+wrapped+"[", `"`+written+"[", 1)
	}
	for i, p := range wrong {
		if rest, ok := strings.CutPrefix(p.Field, wrapped); ok {
			wrong[i].Field = written + rest
		}
	}
}
