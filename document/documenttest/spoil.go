package documenttest

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"baton/document"
)

// The kinds of mistakes whose place is not exact: an entry of a list may have several values that only one may have, and a reference may be at its key.
const (
	DuplicateEntry   = "duplicate entry"
	UnknownReference = "unknown reference"
)

// Wrong is a document with one mistake.
type Wrong struct {
	Kind   string // of mistake
	Of     string // the key path of the value or key
	Text   string
	At     document.Place // of the mistake
	Remedy *regexp.Regexp // what a message says to write instead
}

// Spoil returns documents that each have one mistake, made at every place of a valid document: unknown and missing keys, values of a wrong type, missing,
// out of range or not among the words, bad addresses, duplicates, and names that are not there. It knows from the schema what would be right. references
// matches the key paths of names that are listed elsewhere in the document.
func Spoil(text string, schema document.Schema, references *regexp.Regexp) ([]Wrong, error) {
	root, err := document.Parse("f", []byte(text), document.Rules{Bytes: 1 << 20, Nodes: 1 << 16, Root: "a mapping"})
	if err != nil {
		return nil, err
	}
	s := &spoiler{root: root, references: references}
	s.visit("", root, alternatives(schema))
	return s.all, nil
}

type spoiler struct {
	root       *document.Node
	references *regexp.Regexp
	all        []Wrong
}

// add notes the document as it is. at finds the mistake in what was written.
func (s *spoiler) add(kind, path string, at func(*writer) document.Place, remedy string) {
	w := write(s.root)
	s.all = append(s.all, Wrong{kind, path, w.text.String(), at(w), regexp.MustCompile(remedy)})
}

// replaced adds the document with another value in place of n.
func (s *spoiler) replaced(kind, path string, n *document.Node, by document.Node, remedy string) {
	before := *n
	n.Kind, n.Text, n.List, n.Fields = by.Kind, by.Text, by.List, by.Fields
	s.add(kind, path, func(w *writer) document.Place { return w.nodes[n] }, remedy)
	*n = before
}

// fields adds the document with other keys of n; the mistake is at the key of a number, or at the mapping.
func (s *spoiler) fields(kind, path string, n *document.Node, by []document.Field, key int, remedy string) {
	before := n.Fields
	n.Fields = by
	s.add(kind, path, func(w *writer) document.Place {
		if key < 0 {
			return w.nodes[n]
		}
		return w.keys[n][key]
	}, remedy)
	n.Fields = before
}

const (
	suggests = `\(did you mean .+\?\)$`
	offers   = `\(.+\)$`
)

// visit spoils a value, of which the schema has alternatives, and all below it.
func (s *spoiler) visit(path string, n *document.Node, can []document.Schema) {
	switch n.Kind {
	case document.Mapping:
		s.mapping(path, n, can)
	case document.Sequence:
		s.list(path, n, can)
	case document.Scalar:
		s.scalar(path, n, can)
	}
}

func (s *spoiler) mapping(path string, n *document.Node, can []document.Schema) {
	known, needed := keys(can)
	for i, f := range n.Fields {
		at := document.Join(path, f.Key)
		s.fields("duplicate key", at, n, append(slices.Clone(n.Fields), f), len(n.Fields), `first on line \d+ \(keep one of them\)$`)
		if slices.Contains(known, f.Key) {
			misspelt, null := slices.Clone(n.Fields), slices.Clone(n.Fields)
			misspelt[i].Key = Misspell(f.Key)
			null[i].Value = &document.Node{}
			s.fields("misspelt key", at, n, misspelt, i, suggests)
			s.fields("missing value", at, n, null, i, offers)
		}
		if slices.Contains(needed, f.Key) {
			s.fields("missing key", at, n, slices.Delete(slices.Clone(n.Fields), i, i+1), min(0, len(n.Fields)-2), offers)
		}
		s.visit(at, f.Value, below(can, f.Key))
	}
	if len(known) > 0 {
		strange := append(slices.Clone(n.Fields), document.Field{Key: "zzzqqq", Value: &document.Node{Kind: document.Scalar, Text: "1"}})
		s.fields("unknown key", document.Join(path, "zzzqqq"), n, strange, len(n.Fields), offers)
	}
	if path != "" {
		s.replaced("wrong type", path, n, document.Node{Kind: document.Scalar, Text: "zzz qqq"}, offers)
	}
}

// mistyped adds the document with a value of another type than those that the schema has.
func (s *spoiler) mistyped(path string, n *document.Node, can []document.Schema) {
	text := document.Node{Kind: document.Scalar, Text: "1"}
	switch mapping, list := types(can); {
	case !mapping:
		s.replaced("wrong type", path, n, document.Node{Kind: document.Mapping, Fields: []document.Field{{Key: "zzzqqq", Value: &text}}}, offers)
	case !list:
		s.replaced("wrong type", path, n, document.Node{Kind: document.Sequence, List: []*document.Node{&text}}, offers)
	}
}

func (s *spoiler) list(path string, n *document.Node, can []document.Schema) {
	s.mistyped(path, n, can)
	for i, e := range n.List {
		at := document.Index(path, i)
		copied := clone(e)
		before := n.List
		n.List = append(slices.Clone(before), copied)
		s.add(DuplicateEntry, at, func(w *writer) document.Place { return w.nodes[copied] }, `.`)
		n.List = before
		s.visit(at, e, items(can))
	}
}

// scalar spoils a single value by what it has to be.
func (s *spoiler) scalar(path string, n *document.Node, can []document.Schema) {
	s.mistyped(path, n, can)
	by := func(kind, text, remedy string) {
		s.replaced(kind, path, n, document.Node{Kind: document.Scalar, Text: text}, remedy)
	}
	if s.references.MatchString(path) {
		by(UnknownReference, Misspell(n.Text), suggests)
		by(UnknownReference, "zzzqqq", offers)
		return
	}
	words, number := choices(can)
	_, noDuration := time.ParseDuration(n.Text)
	_, noAddress := netip.ParseAddr(n.Text)
	_, noPrefix := netip.ParsePrefix(n.Text)
	endpoint, noEndpoint := netip.ParseAddrPort(n.Text)
	switch {
	case slices.Contains(words, n.Text):
		by("unknown word", "zzzqqq", offers)
		if len(n.Text) > 3 {
			by("misspelt word", Misspell(n.Text), suggests)
		}
	case number:
		by("out of range", "99999999999999999999", offers)
		by("wrong type", "many", offers)
	case strings.HasSuffix(n.Text, "%"):
		by("out of range", "9999999%", offers)
		by("wrong type", "half", offers)
	case noDuration == nil:
		by("out of range", "-1s", offers)
		by("wrong type", "soon", offers)
	case noAddress == nil:
		by("bad address", n.Text+".1", offers)
	case noPrefix == nil:
		by("bad address", strings.Split(n.Text, "/")[0]+"/129", offers)
	case noEndpoint == nil:
		by("bad address", endpoint.Addr().String()+":80:80", offers)
		by("bad address", fmt.Sprintf("%s:99999", strings.TrimSuffix(n.Text, fmt.Sprintf(":%d", endpoint.Port()))), offers)
	}
}

// Misspell swaps the last two letters that differ, or doubles the last one.
func Misspell(word string) string {
	for i := len(word) - 1; i > 1; i-- {
		if word[i] != word[i-1] {
			return word[:i-1] + word[i:i+1] + word[i-1:i] + word[i+1:]
		}
	}
	return word + word[len(word)-1:]
}

func clone(n *document.Node) *document.Node {
	out := *n
	out.List, out.Fields = nil, nil
	for _, e := range n.List {
		out.List = append(out.List, clone(e))
	}
	for _, f := range n.Fields {
		f.Value = clone(f.Value)
		out.Fields = append(out.Fields, f)
	}
	return &out
}
