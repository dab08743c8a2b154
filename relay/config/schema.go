package config

import "baton/document"

// Schema is the JSON Schema of relay.yaml.
func Schema() document.Schema { return document.SchemaOf("Baton: relay.yaml", decode) }
