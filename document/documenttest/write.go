package documenttest

import (
	"regexp"
	"strconv"
	"strings"

	"baton/document"
)

// writer writes a tree as YAML, a line for each key and entry, and notes where it has written what.
type writer struct {
	text   strings.Builder
	line   int // of what is written next, from 1
	column int
	nodes  map[*document.Node]document.Place
	keys   map[*document.Node][]document.Place // of a mapping's keys
}

// write returns the text of a tree.
func write(root *document.Node) *writer {
	w := &writer{line: 1, column: 1, nodes: make(map[*document.Node]document.Place), keys: make(map[*document.Node][]document.Place)}
	w.value(root, 0)
	w.put("\n")
	return w
}

func (w *writer) put(s string) {
	w.text.WriteString(s)
	if i := strings.LastIndex(s, "\n"); i >= 0 {
		w.line, w.column = w.line+strings.Count(s, "\n"), len(s)-i
		return
	}
	w.column += len(s)
}

// at is the place of what is written next.
func (w *writer) at() document.Place { return document.Place{Line: w.line, Column: w.column} }

// value writes a value; the lines after its first one are indented.
func (w *writer) value(n *document.Node, indent int) {
	w.nodes[n] = w.at()
	next := "\n" + strings.Repeat(" ", indent)
	switch n.Kind {
	case document.Scalar:
		w.put(scalar(n.Text))
	case document.Sequence:
		for i, e := range n.List {
			if i > 0 {
				w.put(next)
			}
			w.put("- ")
			w.value(e, indent+2)
		}
		if len(n.List) == 0 {
			w.put("[]")
		}
	case document.Mapping:
		w.mapping(n, indent, next)
	}
}

func (w *writer) mapping(n *document.Node, indent int, next string) {
	for i, f := range n.Fields {
		if i > 0 {
			w.put(next)
		}
		w.keys[n] = append(w.keys[n], w.at())
		w.put(scalar(f.Key) + ":")
		switch v := f.Value; {
		case v.Kind == document.Scalar, len(v.List)+len(v.Fields) == 0 && v.Kind != document.Null:
			w.put(" ")
		case v.Kind != document.Null:
			w.put(next + "  ")
		}
		w.value(f.Value, indent+2)
	}
	if len(n.Fields) == 0 {
		w.put("{}")
	}
}

// plain matches texts that mean themselves without quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9/_.+-][A-Za-z0-9/_.%+-]*$`)

func scalar(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
