// Package document reads a YAML document strictly: every value comes with its place, and all mistakes are
// reported, each in one line, "file:line:column: key.path: what is wrong (what would be valid)".
//
// Parse returns the tree of values, with anchors, aliases and merge keys resolved. A Decoder turns it into configuration: it
// knows the keys, the forms of their values and their places in the file: texts, numbers, times, addresses and names of a network,
// and files with their content. Values of a single part are decoded by that part, which refuses them with Wrong, WrongAt and Refuse.
package document

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Rules are the limits of a document and the hints for one that is no mapping.
type Rules struct {
	Bytes int    // length of the file, in whole MiB: a mistaken path must not fill the memory
	Nodes int    // values with the aliases expanded: a few lines of aliases of aliases can stand for billions
	Empty string // what would be valid instead of an empty file
	Root  string // what would be valid instead of a list or a single value
	List  bool   // the root may be a list
}

// Read reads a configuration file, but no more than Parse needs to refuse one that is too long.
func (r Rules) Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(r.Bytes)+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}

// maxDepth bounds the nesting of values. The YAML library recurses, and takes minutes for documents that are nested deeper.
const maxDepth = 100

// Kind is the form of a value.
type Kind int

// The kinds of a value.
const (
	Null Kind = iota
	Scalar
	Sequence
	Mapping
)

// String returns the kind as messages name it after "is".
func (k Kind) String() string {
	return [...]string{"empty", "a single value", "a list", "a mapping"}[k]
}

// Place is a position in the file, counted from 1.
type Place struct{ Line, Column int }

// Node is a value with its place. An alias is the same node as its anchor.
type Node struct {
	Place
	Kind   Kind
	Text   string  // of a Scalar
	List   []*Node // of a Sequence
	Fields []Field // of a Mapping, in the file's order; no key occurs twice

	size int // nodes below and including this one, with aliases expanded
}

// Field is a key of a mapping with its value; the place is the key's.
type Field struct {
	Place
	Key   string
	Value *Node
}

// Parse returns the mapping, or the list if the rules allow it, at the root of the only document in data; messages call the file by name. It returns a tree or
// an *Error, never both.
func Parse(name string, data []byte, rules Rules) (*Node, error) {
	root, twice, err := read(name, data, rules)
	if err == nil && len(twice) > 0 {
		root, err = nil, combine(twice)
	}
	return root, err
}

// read is Parse that goes on after keys that are given twice, which it returns as mistakes.
func read(name string, data []byte, rules Rules) (*Node, []*Error, error) {
	if len(data) > rules.Bytes {
		return nil, nil, &Error{File: name, Problem: "is too large", Valid: fmt.Sprintf("at most %d MiB", rules.Bytes>>20)}
	}
	b := builder{anchors: make(map[string]*Node), nodes: rules.Nodes}
	root, err := parse(data, rules, &b)
	if err == nil {
		for _, e := range b.twice {
			e.File, e.kept = name, true
		}
		return root, b.twice, nil
	}
	e := &Error{Line: 1, Column: 1, Problem: err.Error()}
	var syntax yaml.Error
	switch {
	case errors.As(err, &e):
	case errors.As(err, &syntax):
		e.Problem = "is not YAML: " + syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			e.Line, e.Column = max(t.Position.Line, 1), max(t.Position.Column, 1)
		}
		e.Valid = remedy(data, e.Line)
	}
	e.File = name
	return nil, nil, e
}

// bracketed is an unquoted IPv6 address with a port: YAML takes its bracket for the begin of a list.
var bracketed = regexp.MustCompile(`[\s:,{[-](\[[0-9A-Fa-f]*:[0-9A-Fa-f:.]*](:[0-9]+)?)`)

// remedy suggests how to fix a line that is not YAML; "" if there is no guess.
func remedy(data []byte, line int) string {
	lines := strings.Split(string(data), "\n")
	if line > len(lines) {
		return ""
	}
	text := lines[line-1]
	if indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]; strings.Contains(indent, "\t") {
		return "indent with spaces"
	}
	if found := bracketed.FindStringSubmatch(text); found != nil {
		return fmt.Sprintf("quote it: %q", found[1])
	}
	return ""
}

func parse(data []byte, rules Rules, b *builder) (root *Node, err error) {
	// The YAML library is not ours and parses whatever is in the file: a fault in it must refuse the file, not kill a daemon
	// during a reload.
	defer func() {
		if fault := recover(); fault != nil {
			root, err = nil, Place{1, 1}.wrong("", fmt.Sprintf("is not YAML: the parser failed: %v", fault), "")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if t := tooDeep(tokens); t != nil {
		return nil, placeOfToken(t).wrong("", "is nested too deep", fmt.Sprintf("at most %d levels", maxDepth))
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode, *ast.CommentGroupNode:
		default:
			bodies = append(bodies, doc.Body)
		}
	}
	if len(bodies) == 0 {
		return nil, Place{1, 1}.wrong("", "is empty", rules.Empty)
	}
	if len(bodies) > 1 {
		return nil, placeOf(bodies[1]).wrong("", "a second document begins here", "one document in a file")
	}
	root, err = b.build("", bodies[0])
	if err == nil && root.Kind != Mapping && !(rules.List && root.Kind == Sequence) {
		return nil, root.wrong("", "is "+root.Kind.String(), rules.Root)
	}
	return root, err
}

// tooDeep returns the token that opens one level more than maxDepth, or nil. Nesting by indentation bounds itself: such a file is
// as long as the square of its levels.
func tooDeep(tokens token.Tokens) *token.Token {
	brackets, prefixes, line := 0, 0, 0
	afterAnchor := false
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		}
		switch t.Type { // prefixes of a value: "- - &a !b value"
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != line {
				prefixes, line = 0, t.Position.Line
			}
			prefixes++
		case token.AnchorType, token.TagType:
			prefixes++
		default:
			if !afterAnchor { // the token after an anchor is its name
				prefixes = 0
			}
		}
		afterAnchor = t.Type == token.AnchorType
		if brackets > maxDepth || prefixes > maxDepth {
			return t
		}
	}
	return nil
}
