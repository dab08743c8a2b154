package config

import "baton/document"

// Schema is the JSON Schema of controller.yaml.
func Schema() document.Schema {
	return document.SchemaOf("Baton: controller.yaml", decode, "policy.default")
}
