package config

import "baton/document"

// Schema is the JSON Schema of forwarder.yaml.
func Schema() document.Schema { return document.SchemaOf("Baton: forwarder.yaml", decode) }
