package document

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decoder turns a tree into configuration. Only the first mistake of a value counts: after it every method returns a zero value, so
// callers need not check after each key. The keys of a mapping and the entries of a list are values of their own, so the mistakes of
// all of them are reported. Each value has a key path, "pools.video.surrogates[2]", which messages name.
type Decoder struct {
	file     string
	err      *Error            // the first mistake of the current value
	mistakes []*Error          // all of them
	kept     int               // how many of them are about values that can be used nevertheless: names that Refer has refused, keys that are given twice
	across   bool              // the whole document is decoded: further mistakes do not follow from earlier ones
	places   map[string]Place  // of every decoded value, by key path
	meant    map[string]bool   // key paths that misspelt keys were probably meant to be, or whose value was refused
	respelt  map[string]string // the keys that are meant, by the key paths of misspelt ones
	keys     map[string][]Key  // of the mappings, by key path
	missing  []missing         // of the mistakes
	warnings []string

	describing *description // nil: a document is decoded
}

// NewDecoder returns a Decoder for one tree; messages call its file by name.
func NewDecoder(name string) *Decoder {
	return &Decoder{file: name, places: make(map[string]Place), meant: make(map[string]bool), respelt: make(map[string]string), keys: make(map[string][]Key)}
}

// File returns the file's name in messages.
func (d *Decoder) File() string { return d.file }

// Err returns an *Error if the current value or, at the end, the document has mistakes.
func (d *Decoder) Err() error {
	if d.describing != nil {
		return errDescribing // decoders leave out the checks of values that are none
	}
	if d.err == nil {
		return nil
	}
	return combine(d.mistakes)
}

// each decodes a value within another one. A mistake in it does not stop the decoding of the next one.
func (d *Decoder) each(decode func()) {
	before := d.err
	d.err = nil
	decode()
	if before != nil {
		d.err = before
	}
}

// Wrong refuses a value. valid says what would be valid; "" if the problem says it.
func (d *Decoder) Wrong(n *Node, path, problem, valid string) {
	d.WrongAt(n.Place, path, problem, valid)
}

// WrongText refuses a text and quotes it.
func (d *Decoder) WrongText(n *Node, path, s, problem, valid string) {
	d.Wrong(n, path, fmt.Sprintf("%q %s", Clip(s), problem), valid)
}

// Between decodes a duration from least to most.
func (d *Decoder) Between(path string, n *Node, least, most time.Duration) time.Duration {
	if d.told(n, durationSchema) {
		return 0
	}
	v := d.Duration(path, n)
	if d.Err() == nil && (v < least || v > most) {
		d.WrongText(n, path, n.Text, "is out of range", fmt.Sprintf("from %v to %v", least, most))
	}
	return v
}

// WrongAt refuses what is, or is missing, at a place.
func (d *Decoder) WrongAt(p Place, path, problem, valid string) {
	if d.describing != nil {
		d.describing.touched++
		return
	}
	if d.err != nil && !d.across {
		return
	}
	e := p.wrong(path, problem, valid)
	e.File = d.file
	d.mistakes = append(d.mistakes, e)
	if d.err == nil {
		d.err = e
	}
}

// Refer refuses a name at path that is not one of the known ones, which the document lists at the key path from. If none of them is similar,
// valid says what would be valid; "" for any of them. It is called at the end of decoding, and reports the mistake with all others, unless one
// of those leaves the list incomplete.
func (d *Decoder) Refer(path, name, problem, valid, from string, known []string) {
	if d.describing != nil || name == "" || slices.Contains(known, name) {
		return
	}
	open := d.Doubtful(from) || slices.Contains(known, "") || d.unnamed(from)
	if !open {
		if valid == "" || Nearest(name, known) != "" {
			valid = Meant(name, known)
		}
		d.each(func() { d.Refuse(path, fmt.Sprintf("%q %s", Clip(name), problem), valid) })
		e := d.mistakes[len(d.mistakes)-1]
		e.kept, e.from = true, from
		d.kept++
	}
}

// unnamed reports whether an entry of the list at a key path, or its name, was refused.
func (d *Decoder) unnamed(list string) bool {
	name := func(path string) bool {
		entry, is := strings.CutPrefix(path, list+"[")
		_, key, closed := strings.Cut(entry, "]")
		return is && closed && (key == "" || key == ".name")
	}
	for path := range d.meant {
		if name(path) {
			return true
		}
	}
	return slices.ContainsFunc(d.mistakes, func(e *Error) bool { return name(e.Key) })
}

// Refuse refuses the value at a key path, in checks across the document.
func (d *Decoder) Refuse(path, problem, valid string) { d.WrongAt(d.Place(path), path, problem, valid) }

// Warn reports something that works, but not as one might expect.
func (d *Decoder) Warn(p Place, path, text string) {
	e := p.wrong(path, text, "")
	e.File = d.file
	d.warnings = append(d.warnings, e.Error())
}

// Warnings returns the lines of Warn, formatted like errors.
func (d *Decoder) Warnings() []string { return d.warnings }

// Place returns the position of the value at a key path, or else of what contains it. For an entry by name it is the name's.
func (d *Decoder) Place(path string) Place {
	for {
		if p, ok := d.places[path]; ok {
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		switch {
		case path == "":
			return Place{1, 1}
		case cut < 0:
			path = ""
		default:
			path = path[:cut]
		}
	}
}

// Places are the positions of a document's values, for users of a configuration without a decoder. The zero value has no document.
type Places struct{ of *Decoder }

// Places returns the positions in the document.
func (d *Decoder) Places() Places { return Places{d} }

// Wrong returns a mistake at the value of a key path, or at what contains it.
func (p Places) Wrong(path, problem, valid string) *Error {
	e := p.At(path).wrong(path, problem, valid)
	if p.of != nil {
		e.File = p.of.file
	}
	return e
}

// At returns the position of the value at a key path, or else of what contains it.
func (p Places) At(path string) Place {
	if p.of == nil {
		return Place{1, 1}
	}
	return p.of.Place(path)
}

// Doubtful reports whether the value at a key path was refused, or its key misspelt: nothing follows from its default.
func (d *Decoder) Doubtful(path string) bool {
	return d.meant[path] || slices.ContainsFunc(d.mistakes, func(e *Error) bool { return e.Key == path })
}

// Given reports whether the document has a value at the key path.
func (d *Decoder) Given(path string) bool {
	_, given := d.places[path]
	return given
}

const noValue = "has no value"

// Key describes a key of a mapping.
type Key struct {
	Name    string
	Now     string                     // the key that replaced this one, which is refused; "": it is in use
	Default string                     // what to write for what holds without the key; "": nothing says that, or it depends
	Help    string                     // what the key is for, in a line: for the schema and the reference
	Decode  func(path string, n *Node) // called with a value that is not Null
}

// Fields decodes the keys of n in the file's order. A Null, which only an entry by name can be, has no keys.
func (d *Decoder) Fields(path string, n *Node, keys []Key) {
	if of, only := d.shapeOf(n, Mapping); only {
		d.describeFields(of, path, n, keys)
		return
	}
	if !d.Given(path) {
		d.places[path] = n.Place
	}
	d.keys[path] = keys
	if n.Kind == Null {
		return
	}
	if n.Kind != Mapping {
		d.Wrong(n, path, "is "+n.Kind.String(), "a mapping with "+keyNames(keys))
		return
	}
	for _, f := range n.Fields {
		d.each(func() { d.field(path, n, f, keys) })
	}
}

func (d *Decoder) field(path string, n *Node, f Field, keys []Key) {
	at := Join(path, f.Key)
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == f.Key })
	switch {
	case i < 0:
		d.WrongAt(f.Place, at, "is not a key", Meant(f.Key, names(keys)))
		right := Nearest(f.Key, names(keys))
		d.meant[Join(path, right)] = true
		if right != "" && !n.has(right) {
			d.respelt[at] = right
		}
	case keys[i].Now != "":
		d.WrongAt(f.Place, at, "is not a key", fmt.Sprintf("did you mean %s?", keys[i].Now))
		d.meant[Join(path, keys[i].Now)] = true
	case f.Value.Kind == Null:
		d.WrongAt(f.Place, at, noValue, "leave the key out for the default")
		d.meant[at] = true
	default:
		d.places[at] = f.Value.Place
		keys[i].Decode(at, f.Value)
	}
}

// has reports whether a mapping has a key.
func (n *Node) has(key string) bool {
	return slices.ContainsFunc(n.Fields, func(f Field) bool { return f.Key == key })
}

// Require refuses a mapping that lacks a key without a default.
func (d *Decoder) Require(path string, n *Node, names ...string) {
	if of, only := d.shapeOf(n, Mapping); only {
		if of != nil {
			of.required = append(of.required, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
				return slices.Contains(d.describing.conditional, Join(path, name))
			})...)
		}
		return
	}
	if n.Kind != Mapping && (n.Kind != Null || d.err != nil) {
		return // it was refused before
	}
	for _, name := range names {
		at := Join(path, name)
		if i := slices.IndexFunc(d.mistakes, func(e *Error) bool { return e.Key == at && e.Problem == noValue }); i >= 0 {
			d.missing = append(d.missing, missing{d.mistakes[i], name, d.keys[path]}) // there is no default
		} else if !d.meant[at] && !n.has(name) {
			d.each(func() { d.Wrong(n, at, "is missing", "") })
			d.missing = append(d.missing, missing{d.mistakes[len(d.mistakes)-1], name, d.keys[path]})
		}
	}
}

// Entries decodes a mapping whose keys are names that the user chooses; an entry may be Null.
func (d *Decoder) Entries(path string, n *Node, entry func(path, name string, n *Node)) {
	if of, only := d.shapeOf(n, Mapping); only {
		d.describeEntries(of, path, entry)
		return
	}
	if n.Kind != Mapping {
		d.Wrong(n, path, "is "+n.Kind.String(), "a mapping by name")
		return
	}
	for _, f := range n.Fields {
		at := Join(path, f.Key)
		d.places[at] = f.Place
		d.each(func() { entry(at, f.Key, f.Value) })
	}
}

// List decodes each entry of a list, which may be empty.
func (d *Decoder) List(path string, n *Node, entry func(path string, n *Node)) {
	if of, only := d.shapeOf(n, Sequence); only {
		if of != nil {
			of.items = d.value(func(n *Node) { entry(Index(path, 0), n) })
		}
		return
	}
	switch {
	case n.Kind == Scalar:
		d.Wrong(n, path, "must be a list: ["+Clip(n.Text)+"]", "")
	case n.Kind == Mapping && len(n.Fields) > 0:
		d.Wrong(n, path, "is a mapping, and must be a list", fmt.Sprintf("with a dash before each entry: - %s: ...", Clip(n.Fields[0].Key)))
	case n.Kind != Sequence:
		d.Wrong(n, path, "is "+n.Kind.String(), "a list")
	}
	if d.err != nil {
		return
	}
	for i, e := range n.List {
		at := Index(path, i)
		d.each(func() {
			if e.Kind == Null {
				d.Wrong(e, at, noValue, "leave the dash out")
				return
			}
			d.places[at] = e.Place
			entry(at, e)
		})
	}
}

// NonEmptyList decodes a list with at least one entry.
func (d *Decoder) NonEmptyList(path string, n *Node, entry func(path string, n *Node)) {
	if of, _ := d.shapeOf(n, Sequence); of != nil {
		of.least = 1
	}
	if n.Kind == Sequence && len(n.List) == 0 {
		d.Wrong(n, path, "is an empty list", "at least one entry")
	}
	d.List(path, n, entry)
}

// AtMost bounds the number of entries of a list or mapping.
func (d *Decoder) AtMost(path string, n *Node, limit int) {
	if d.describing != nil {
		if of := d.describing.of[n]; of != nil {
			of.most = limit
		}
		return
	}
	if count := max(len(n.List), len(n.Fields)); count > limit {
		d.Wrong(n, path, fmt.Sprintf("has %d entries", count), fmt.Sprintf("at most %d", limit))
	}
}

// Distinct decodes a list with at least one value and no duplicates.
func Distinct[T comparable](d *Decoder, path string, n *Node, decode func(path string, n *Node) T) []T {
	var out []T
	seen := make(map[T]bool)
	d.NonEmptyList(path, n, func(at string, n *Node) {
		v := decode(at, n)
		if d.err == nil && seen[v] {
			d.WrongText(n, at, n.Text, "is there twice", "each value once")
		}
		seen[v] = true
		out = append(out, v)
	})
	return out
}
