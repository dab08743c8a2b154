package document

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Schema is a JSON Schema (draft 7, which editors know).
type Schema map[string]any

// SchemaOf returns the schema of the documents that decode takes. It has decode run on values that stand for all of a kind: what they are asked to
// be is what the schema says. The schema refuses no document that decode takes; it takes some that decode refuses, as it knows nothing of checks
// that a part makes itself. Keys that a part requires depending on others are not required by the schema: conditional has their key paths, with
// "name" for names that the user chooses.
func SchemaOf[C any](title string, decode Decode[C], conditional ...string) Schema {
	d := NewDecoder(title)
	d.describing = &description{of: make(map[*Node]*shape), conditional: conditional}
	root := d.describing.probe(Mapping)
	decode(d, root)
	out := d.describing.of[root].schema()
	out["$schema"], out["title"] = "http://json-schema.org/draft-07/schema#", title
	return out
}

// description is what a decoder has found out about its documents.
type description struct {
	of          map[*Node]*shape // of the values that stand for all of a kind
	conditional []string
	depth       int
	candidate   *Node // that may be taken as it is
	touched     int   // times that it was asked to be something, or that a value was refused
}

// shape is what values of one kind have to be.
type shape struct {
	kind           Kind
	scalars        []Schema
	properties     map[string]*value
	required       []string
	entries, items *value
	least, most    int
}

// value stands for all values at a place, by their kinds.
type value struct {
	shapes []*shape
	words  []string // taken as they are
	forms  []Schema // likewise, of texts of a form
	empty  bool     // Null is taken
	key    Key      // that has the value; of the values of a list or by name: none
}

var errDescribing = errors.New("no document is decoded")

// deepest bounds schemas of values that contain themselves.
const deepest = 24

func (s *description) probe(kind Kind) *Node {
	n := &Node{Place: Place{1, 1}, Kind: kind, size: 1}
	stand := &Node{Place: Place{1, 1}, Kind: Scalar, size: 1}
	switch kind { // the others' decoders may look for content
	case Mapping:
		n.Fields = []Field{{Place{1, 1}, "", stand}}
	case Sequence:
		n.List = []*Node{stand}
	}
	s.of[n] = &shape{kind: kind}
	return n
}

// plainWords are tried where a decoder may compare the text itself; the last one is taken only by what takes everything.
var plainWords = []string{"none", "all", "any", "auto", "off", "on", "measured", "system", "default", "\x00"}

// plainForms are tried likewise: texts of a form.
var plainForms = map[string]Schema{"192.0.2.1": addressSchema}

// value finds out what a decoder takes.
func (d *Decoder) value(decode func(n *Node)) *value {
	v := new(value)
	if d.describing.depth++; d.describing.depth < deepest {
		for _, word := range plainWords {
			if d.takes(decode, &Node{Place: Place{1, 1}, Kind: Scalar, Text: word, size: 1}) {
				v.words = append(v.words, word)
			}
		}
		for form, schema := range plainForms {
			if d.takes(decode, &Node{Place: Place{1, 1}, Kind: Scalar, Text: form, size: 1}) {
				v.forms = append(v.forms, schema)
			}
		}
		if slices.Contains(v.words, "\x00") {
			v.words, v.forms = nil, nil
		}
		for _, kind := range []Kind{Scalar, Mapping, Sequence} { // a list last: a part may keep the value for later
			n := d.describing.probe(kind)
			decode(n)
			v.shapes = append(v.shapes, d.describing.of[n])
		}
	}
	d.describing.depth--
	return v
}

// takes tells whether a decoder takes a value without asking for more.
func (d *Decoder) takes(decode func(n *Node), n *Node) bool {
	before := d.describing.touched
	d.describing.candidate = n
	decode(n)
	return d.describing.touched == before
}

// touch notes that a value was asked to be something, if it is the candidate: decoders make values of their own, too, such as of a name.
func (s *description) touch(n *Node) {
	if n == s.candidate {
		s.touched++
	}
}

// told notes what a single value has to be, and tells whether the decoder only describes.
func (d *Decoder) told(n *Node, s Schema) bool {
	if d.describing == nil {
		return false
	}
	if of := d.describing.of[n]; of == nil {
		d.describing.touch(n)
	} else if of.kind == Scalar {
		of.scalars = append(of.scalars, s)
	}
	return true
}

// shapeOf returns the shape of a value of a kind, nil for values of another, and tells whether the decoder only describes.
func (d *Decoder) shapeOf(n *Node, kind Kind) (*shape, bool) {
	if d.describing == nil {
		return nil, false
	}
	of := d.describing.of[n]
	if of == nil {
		d.describing.touch(n)
		return nil, true
	}
	if of.kind != kind {
		return nil, true
	}
	return of, true
}

func (d *Decoder) describeFields(of *shape, path string, n *Node, keys []Key) {
	if of == nil {
		if n.Kind == Null && n == d.describing.candidate {
			d.describing.touched-- // it has no keys, which is right
		}
		return
	}
	if of.properties == nil {
		of.properties = make(map[string]*value)
	}
	for _, k := range keys {
		if k.Now == "" {
			v := d.value(func(n *Node) { k.Decode(Join(path, k.Name), n) })
			v.key = k
			of.properties[k.Name] = v
		}
	}
}

func (d *Decoder) describeEntries(of *shape, path string, entry func(path, name string, n *Node)) {
	if of == nil {
		return
	}
	for _, name := range []string{"name", "AT", "1"} { // names of a few forms
		v := d.value(func(n *Node) { entry(Join(path, name), name, n) })
		v.empty = d.takes(func(n *Node) { entry(Join(path, name), name, n) }, &Node{Place: Place{1, 1}, size: 1})
		if of.entries = v; v.schema() != nil {
			return
		}
	}
}

// schema renders a value; nil if no kind of value is taken.
func (v *value) schema() Schema {
	var all []Schema
	for _, s := range v.shapes {
		if one := s.schema(); one != nil {
			all = append(all, one)
		}
	}
	all = append(all, v.forms...)
	if len(v.words) > 0 {
		all = append(all, Schema{"enum": v.words})
	}
	if v.empty {
		all = append(all, Schema{"type": "null"})
	}
	return either(all)
}

func either(all []Schema) Schema {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return Schema{"anyOf": all}
}

// orAny is the schema of what is not known: everything.
func orAny(v *value) Schema {
	if v != nil {
		if s := v.schema(); s != nil {
			return s
		}
	}
	return Schema{}
}

// described is the schema of a key's value, with what the key says of itself.
func (v *value) described() Schema {
	s := maps.Clone(orAny(v)) // others may share it
	if v.key.Help != "" {
		s["description"] = v.key.Help
	}
	if text := v.key.Default; text != "" {
		s["default"] = text
		if number, err := strconv.Atoi(text); err == nil {
			s["default"] = number
		} else if is, err := strconv.ParseBool(text); err == nil {
			s["default"] = is
		} else if list, ok := strings.CutPrefix(text, "["); ok {
			s["default"] = strings.Split(strings.TrimSuffix(list, "]"), ", ")
		}
	}
	return s
}

func (s *shape) schema() Schema {
	switch s.kind {
	case Scalar:
		var all []Schema
		for _, one := range s.scalars { // the same may have been asked twice
			if !slices.ContainsFunc(all, func(o Schema) bool { return fmt.Sprint(o) == fmt.Sprint(one) }) {
				all = append(all, one)
			}
		}
		return either(all)
	case Sequence:
		if s.items == nil {
			return nil
		}
		out := Schema{"type": "array", "items": orAny(s.items)}
		s.bounds(out, "minItems", "maxItems")
		return out
	}
	if s.properties == nil && s.entries == nil {
		return nil
	}
	out := Schema{"type": "object", "additionalProperties": false}
	if s.entries != nil {
		out["additionalProperties"] = orAny(s.entries)
	}
	if s.properties != nil {
		properties := Schema{}
		for _, name := range slices.Sorted(maps.Keys(s.properties)) {
			properties[name] = s.properties[name].described()
		}
		out["properties"] = properties
	}
	if len(s.required) > 0 {
		out["required"] = s.required
	}
	s.bounds(out, "minProperties", "maxProperties")
	return out
}

func (s *shape) bounds(out Schema, least, most string) {
	if s.least > 0 {
		out[least] = s.least
	}
	if s.most > 0 {
		out[most] = s.most
	}
}

// The forms of single values. A text may look like a number; a number may be quoted.
var (
	textSchema     = Schema{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	booleanSchema  = Schema{"enum": []any{true, false, "true", "false"}}
	durationSchema = Schema{"type": "string", "pattern": `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`, "examples": []string{"10s", "500ms"}}
	pathSchema     = Schema{"type": "string", "pattern": "^/", "examples": []string{"/path/to/file"}}
	percentSchema  = Schema{"type": "string", "pattern": "^[^%]+%$", "examples": []string{"50%"}}
	prefixSchema   = Schema{"type": "string", "pattern": `^[0-9A-Fa-f:.]+/[0-9]+$`, "examples": []string{"192.0.2.0/24", "2001:db8::/48"}}
	addressSchema  = Schema{"type": "string", "pattern": `^[0-9A-Fa-f:.]+$`, "examples": []string{"192.0.2.1", "2001:db8::1"}}
)

func integerSchema(low, high int) Schema {
	return Schema{"anyOf": []Schema{{"type": "integer", "minimum": low, "maximum": high}, {"type": "string", "pattern": "^[-+]?[0-9]+$"}}}
}

func choiceSchema(words []string) Schema {
	var all []any
	for _, w := range words {
		all = append(all, w)
		if v, err := strconv.Atoi(w); err == nil {
			all = append(all, v)
		} else if v, err := strconv.ParseBool(w); err == nil {
			all = append(all, v)
		}
	}
	return Schema{"enum": all}
}

func unitSchema(units []unit, ignoreCase bool) Schema {
	var names []string
	for _, u := range units {
		name := u.name
		if ignoreCase {
			var b strings.Builder
			for _, c := range name {
				fmt.Fprintf(&b, "[%c%c]", c, c-'a'+'A')
			}
			name = b.String()
		}
		names = append(names, name)
	}
	return Schema{"type": "string", "pattern": `[0-9.]\s*(` + strings.Join(names, "|") + ")$", "examples": []string{"500" + units[len(units)/2].name}}
}
