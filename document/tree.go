package document

import (
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

func placeOf(n ast.Node) Place {
	switch m := n.(type) { // a block mapping's own token is a colon
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if n == nil {
		return Place{1, 1}
	}
	return placeOfToken(n.GetToken())
}

func placeOfToken(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return Place{1, 1}
	}
	return Place{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// builder converts the library's tree to ours.
type builder struct {
	anchors map[string]*Node
	nodes   int      // most nodes of a tree
	twice   []*Error // mistakes about keys that are given twice, of which the first counts
}

func (b *builder) build(path string, n ast.Node) (*Node, error) {
	out := &Node{Place: placeOf(n), size: 1}
	switch n := n.(type) {
	case nil, *ast.NullNode:
	case *ast.StringNode:
		out.Kind, out.Text = Scalar, n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = Scalar, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.Kind, out.Text = Scalar, n.GetToken().Value
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
			return nil, out.wrong(path, fmt.Sprintf("no anchor &%s before this alias", Clip(name)), "")
		}
		return value, nil
	case *ast.TagNode:
		return nil, out.wrong(path, "tags are not used here", "the value without "+Clip(n.GetToken().Value))
	case *ast.SequenceNode:
		return b.sequence(path, out, n)
	case *ast.MappingNode:
		return b.mapping(path, out, n.Values)
	case *ast.MappingValueNode:
		return b.mapping(path, out, []*ast.MappingValueNode{n})
	default:
		return nil, out.wrong(path, "is not a value: "+n.Type().YAMLName(), "")
	}
	return out, nil
}

// grow counts a value that was added to out.
func (b *builder) grow(path string, out, value *Node) error {
	if out.size += value.size; out.size > b.nodes {
		return out.wrong(path, "holds too many values", "fewer aliases of aliases")
	}
	return nil
}

func (b *builder) sequence(path string, out *Node, n *ast.SequenceNode) (*Node, error) {
	out.Kind = Sequence
	for i, entry := range n.Values {
		value, err := b.build(Index(path, i), entry)
		if err != nil {
			return nil, err
		}
		if value.Kind == Null && i < len(n.Entries) && !n.IsFlowStyle {
			value = &Node{Place: placeOfToken(n.Entries[i].Start), size: 1} // the token of an empty value may be on a later line
		}
		out.List = append(out.List, value)
		if err := b.grow(path, out, value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *builder) mapping(path string, out *Node, values []*ast.MappingValueNode) (*Node, error) {
	out.Kind = Mapping
	at := make(map[string]int, len(values))
	var merged []*Node
	for _, v := range values {
		where := placeOf(v.Key)
		if v.Key.IsMergeKey() {
			from, err := b.build(Join(path, "<<"), v.Value)
			if err != nil {
				return nil, err
			}
			if from.Kind == Sequence {
				merged = append(merged, from.List...)
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
			b.twice = append(b.twice, where.wrong(Join(path, key), fmt.Sprintf("is given twice, first on line %d", out.Fields[first].Line), "keep one of them"))
			continue
		}
		value, err := b.build(Join(path, key), v.Value)
		if err != nil {
			return nil, err
		}
		if value.Kind == Null {
			value = &Node{Place: where, size: 1} // the token of an empty value may be on a later line
		}
		at[key] = len(out.Fields)
		out.Fields = append(out.Fields, Field{where, key, value})
		if err := b.grow(path, out, value); err != nil {
			return nil, err
		}
	}
	// YAML 1.1 merge key: the mapping's own keys win, then those merged first.
	for _, from := range merged {
		if from.Kind != Mapping {
			return nil, out.wrong(Join(path, "<<"), "is "+from.Kind.String(), "a mapping")
		}
		for _, f := range from.Fields {
			if _, ok := at[f.Key]; ok {
				continue
			}
			at[f.Key] = len(out.Fields)
			out.Fields = append(out.Fields, f)
			if err := b.grow(path, out, f.Value); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// keyText returns the text of a mapping's key if it is a plain or quoted scalar.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch n := key.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// Join appends a key to a key path, and quotes it unless it is a plain word.
func Join(path, key string) string {
	for _, c := range []byte(key) {
		if c <= ' ' || c == '.' || c == ':' || c == '[' || c == '"' || c >= 0x7f {
			key = strconv.Quote(Clip(key))
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

// Index appends the index of an entry, from 0, to the key path of a list.
func Index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
