package settings

import _ "embed" // for Schema

// Schema is the JSON schema of the document.
//
//go:embed schema.json
var Schema []byte
