package documenttest

import (
	"maps"
	"slices"

	"baton/document"
)

// alternatives are the schemas of which one has to hold.
func alternatives(s document.Schema) []document.Schema {
	of, ok := s["anyOf"].([]document.Schema)
	if !ok {
		return []document.Schema{s}
	}
	var all []document.Schema
	for _, one := range of {
		all = append(all, alternatives(one)...)
	}
	return all
}

// keys returns the keys that a mapping may have, and those that it has to have.
func keys(can []document.Schema) (known, needed []string) {
	for _, s := range can {
		if of, ok := s["properties"].(document.Schema); ok {
			known = append(known, slices.Sorted(maps.Keys(of))...)
		}
		if of, ok := s["required"].([]string); ok {
			needed = append(needed, of...)
		}
	}
	return known, needed
}

// below returns the schemas of the value of a key.
func below(can []document.Schema, key string) (all []document.Schema) {
	for _, s := range can {
		of, _ := s["properties"].(document.Schema)
		if one, ok := of[key].(document.Schema); ok {
			all = append(all, alternatives(one)...)
		} else if one, ok := s["additionalProperties"].(document.Schema); ok {
			all = append(all, alternatives(one)...)
		}
	}
	return all
}

// items returns the schemas of the entries of a list.
func items(can []document.Schema) (all []document.Schema) {
	for _, s := range can {
		if one, ok := s["items"].(document.Schema); ok {
			all = append(all, alternatives(one)...)
		}
	}
	return all
}

// choices returns the words that a value may be, and whether it may be a number within bounds.
func choices(can []document.Schema) (words []string, number bool) {
	for _, s := range can {
		switch of := s["enum"].(type) {
		case []any:
			for _, w := range of {
				if text, ok := w.(string); ok {
					words = append(words, text)
				}
			}
		case []string:
			words = append(words, of...)
		}
		number = number || s["type"] == "integer"
	}
	return words, number
}

// types tells whether a value may be a mapping, or a list.
func types(can []document.Schema) (mapping, list bool) {
	for _, s := range can {
		mapping, list = mapping || s["type"] == "object", list || s["type"] == "array"
	}
	return mapping, list
}
