package config

import "baton/document"

// Schema is the JSON Schema of balance.yaml.
func Schema() document.Schema { return document.SchemaOf("Baton: balance.yaml", decode) }
