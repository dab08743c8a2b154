package topology

import (
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxNodes bounds the tree with its aliases expanded: a few lines of aliases of aliases can stand for billions.
const maxNodes = 1 << 18

type kind int

const (
	null kind = iota
	scalar
	sequence
	mapping
)

func (k kind) String() string {
	return [...]string{"empty", "a single value", "a list", "a mapping"}[k]
}

// place is where something stands in the file, from 1.
type place struct{ line, column int }

// node is a YAML value with its place; anchors, aliases and merge keys are resolved.
type node struct {
	place
	kind   kind
	text   string  // scalar
	list   []*node // sequence
	fields []field // mapping, in the file's order
	size   int     // nodes below and including this one, with aliases expanded
}

type field struct {
	place
	key   string
	value *node
}

// parseTree gives the mapping at the root of the only document of data.
func parseTree(data []byte) (root *node, err error) {
	// A fault in the YAML library must end as a refused file.
	defer func() {
		if fault := recover(); fault != nil {
			root, err = nil, &Error{Line: 1, Column: 1, Problem: fmt.Sprintf("is not YAML: the parser failed: %v", fault)}
		}
	}()
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
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
		return nil, &Error{Line: 1, Column: 1, Problem: "is empty", Right: "at least hosts"}
	}
	if len(bodies) > 1 {
		return nil, placeOf(bodies[1]).wrong("", "a second document begins here", "one document in a file")
	}
	b := treeBuilder{anchors: make(map[string]*node)}
	root, err = b.build("", bodies[0])
	if err == nil && root.kind != mapping {
		return nil, root.wrong("", "is "+root.kind.String(), "a mapping with hosts and links")
	}
	return root, err
}

func (p place) wrong(key, problem, right string) *Error {
	return &Error{Line: p.line, Column: p.column, Key: key, Problem: problem, Right: right}
}

func placeOf(n ast.Node) place {
	switch m := n.(type) { // a block mapping's own token is a colon
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil {
			return place{max(t.Position.Line, 1), max(t.Position.Column, 1)}
		}
	}
	return place{1, 1}
}

type treeBuilder struct {
	anchors map[string]*node
}

func (b *treeBuilder) build(path string, n ast.Node) (*node, error) {
	out := &node{place: placeOf(n), size: 1}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	case *ast.AnchorNode:
		value, err := b.build(path, n.Value)
		if err == nil {
			b.anchors[n.Name.GetToken().Value] = value
		}
		return value, err
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		value, ok := b.anchors[name]
		if !ok {
			return nil, out.wrong(path, fmt.Sprintf("no anchor &%s before this alias", clip(name)), "")
		}
		return value, nil
	case *ast.TagNode:
		return nil, out.wrong(path, "tags are not used here", "the value without "+n.GetToken().Value)
	case *ast.SequenceNode:
		out.kind = sequence
		for i, entry := range n.Values {
			value, err := b.build(path+"["+strconv.Itoa(i)+"]", entry)
			if err != nil {
				return nil, err
			}
			out.list = append(out.list, value)
			if out.size += value.size; out.size > maxNodes {
				return nil, tooMany(out, path)
			}
		}
	case *ast.MappingNode:
		return b.mapping(path, out, n.Values)
	case *ast.MappingValueNode:
		return b.mapping(path, out, []*ast.MappingValueNode{n})
	default:
		return nil, out.wrong(path, "is not a value: "+n.Type().YAMLName(), "")
	}
	return out, nil
}

func tooMany(n *node, path string) *Error {
	return n.wrong(path, "holds too many values", "fewer aliases of aliases")
}

func (b *treeBuilder) mapping(path string, out *node, values []*ast.MappingValueNode) (*node, error) {
	out.kind = mapping
	at := make(map[string]int, len(values))
	var merged []*node
	for _, v := range values {
		where := placeOf(v.Key)
		if v.Key.IsMergeKey() {
			from, err := b.build(join(path, "<<"), v.Value)
			if err != nil {
				return nil, err
			}
			if from.kind == sequence {
				merged = append(merged, from.list...)
			} else {
				merged = append(merged, from)
			}
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			return nil, where.wrong(path, "has a key that is not a name", "a plain word")
		}
		if first, twice := at[key]; twice {
			return nil, where.wrong(join(path, key), fmt.Sprintf("is given twice, first on line %d", out.fields[first].line), "")
		}
		value, err := b.build(join(path, key), v.Value)
		if err != nil {
			return nil, err
		}
		if value.kind == null {
			value = &node{place: where, size: 1} // the token of an empty value may be on a later line
		}
		at[key] = len(out.fields)
		out.fields = append(out.fields, field{where, key, value})
		if out.size += value.size; out.size > maxNodes {
			return nil, tooMany(out, path)
		}
	}
	// YAML 1.1 merge key: what the mapping says itself wins, then the first that is merged.
	for _, from := range merged {
		if from.kind != mapping {
			return nil, out.wrong(join(path, "<<"), "is "+from.kind.String(), "a mapping")
		}
		for _, f := range from.fields {
			if _, ok := at[f.key]; !ok {
				at[f.key] = len(out.fields)
				out.fields = append(out.fields, f)
				out.size += f.value.size
			}
		}
		if out.size > maxNodes {
			return nil, tooMany(out, path)
		}
	}
	return out, nil
}

// keyText gives the text of a mapping's key when it is a plain or quoted scalar.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch n := key.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// join appends a key to a key path; a key that is no plain word is quoted.
func join(path, key string) string {
	for _, c := range []byte(key) {
		if c <= ' ' || c == '.' || c == ':' || c == '[' || c == '"' || c >= 0x7f {
			key = strconv.Quote(clip(key))
			break
		}
	}
	if key == "" {
		key = `""`
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// clip bounds what a message quotes.
func clip(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
