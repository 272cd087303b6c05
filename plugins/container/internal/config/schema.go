package config

import _ "embed" // for Schema

// Schema is the JSON schema of the provider configuration. `make generate` writes it.
//
//go:embed providerconfiguration.schema.json
var Schema []byte
