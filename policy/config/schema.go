package config

import "baton/document"

// Schema is the JSON Schema of a policy in a file of its own.
func Schema() document.Schema { return document.SchemaOf("Baton: policy.yaml", decode, "default") }
