package component

import "bytes"

const (
	// maxManifestElements bounds the layers of a manifest, and the manifests of an index.
	maxManifestElements = 1000
	// maxElements bounds each list of a descriptor.
	maxElements = 10_000
)

// length is the number of elements in a list. Decoding it makes nothing of the elements: a short text may have a
// million, and each would take hundreds of bytes as a struct.
type length int

// UnmarshalJSON implements json.Unmarshaler.
func (n *length) UnmarshalJSON(list []byte) error {
	list = bytes.TrimSpace(list)
	if len(list) < 2 || list[0] != '[' || len(bytes.TrimSpace(list[1:len(list)-1])) == 0 {
		return nil
	}
	depth, inText := 0, false
	*n = 1
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			*n++
		}
	}
	return nil
}
