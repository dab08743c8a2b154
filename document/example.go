package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// missing is a mistake about a key that is not there.
type missing struct {
	mistake *Error
	name    string
	keys    []Key // of the mapping
}

// Refused returns an *Error if the document has mistakes. It is called when all of it is decoded and checked.
func (d *Decoder) Refused() error {
	d.showMissing()
	return d.Err()
}

// showMissing adds to each mistake about a missing key what the key would look like. It is called when all else is done: the decoder of the key tells
// by running, as for the schema.
func (d *Decoder) showMissing() {
	for _, m := range d.missing {
		i := slices.IndexFunc(m.keys, func(k Key) bool { return k.Name == m.name && k.Now == "" })
		if i < 0 {
			continue
		}
		d.describing = &description{of: make(map[*Node]*shape)}
		schema := d.value(func(n *Node) { m.keys[i].Decode(m.mistake.Key, n) }).schema()
		d.describing = nil
		m.mistake.Valid = m.name + ": " + example(schema, 0)
	}
	d.missing = nil
}

// example returns what a value looks like by its schema; an ellipsis stands for what the user chooses.
func example(s Schema, depth int) string {
	if all, ok := s["anyOf"].([]Schema); ok {
		return example(all[0], depth)
	}
	if of, ok := s["examples"].([]string); ok {
		return quoted(of[0])
	}
	switch words := s["enum"].(type) {
	case []any:
		return fmt.Sprint(words[0])
	case []string:
		return words[0]
	}
	if low, ok := s["minimum"].(int); ok {
		return fmt.Sprintf("a whole number from %d to %d", low, s["maximum"])
	}
	items, list := s["items"].(Schema)
	switch {
	case depth > 1:
		return open
	case list:
		return "[" + example(items, depth+1) + "]"
	case s["required"] != nil:
		var all []string
		for _, name := range s["required"].([]string) {
			all = append(all, name+": ...")
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	if entries, ok := s["additionalProperties"].(Schema); ok {
		return "{NAME: " + example(entries, depth+1) + "}"
	}
	return open
}

// open stands for what the user chooses.
const open = "..."

// quoted quotes a text that YAML could take for something else.
func quoted(text string) string {
	if strings.ContainsAny(text, ":[{#") {
		return strconv.Quote(text)
	}
	return text
}
