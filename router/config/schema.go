package config

import "baton/document"

// Schema is the JSON Schema of router.yaml.
func Schema() document.Schema {
	return document.SchemaOf("Baton: router.yaml", decode, "pools.name.surrogates")
}
