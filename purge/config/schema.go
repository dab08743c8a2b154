package config

import "baton/document"

// Schema is the JSON Schema of purge.yaml.
func Schema() document.Schema { return document.SchemaOf("Baton: purge.yaml", decode) }
