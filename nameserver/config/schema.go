package config

import "baton/document"

// Schema is the JSON Schema of nameserver.yaml.
func Schema() document.Schema {
	return document.SchemaOf("Baton: nameserver.yaml", decode, "policy.default")
}
