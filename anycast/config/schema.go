package config

import "baton/document"

// Schema is the JSON Schema of anycast.yaml.
func Schema() document.Schema { return document.SchemaOf("Baton: anycast.yaml", decode) }
