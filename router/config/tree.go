package config

import (
	"fmt"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNodes bounds the tree with its aliases expanded: a few lines of aliases of aliases can stand for billions.
const maxNodes = 1 << 20

// kind is what a node of the file is.
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

// node is a YAML value with its place in the file; anchors, aliases and merge keys are resolved.
type node struct {
	kind   kind
	line   int
	text   string  // scalar
	list   []*node // sequence
	fields []field // mapping, in the file's order
	size   int     // nodes below and including this one, with aliases expanded
}

type field struct {
	key   string
	line  int
	value *node
}

// treeError is a fault of the YAML as such, before any key has a meaning.
type treeError struct {
	line                int
	key, problem, right string
}

func (e *treeError) Error() string { return e.problem }

// parseTree gives the mapping at the root of the only document of data.
func parseTree(data []byte) (root *node, err error) {
	// The YAML library is the one part here that is not ours and sees what strangers send: a fault in it must end as a
	// refused file, not as a router that dies in a reload.
	defer func() {
		if fault := recover(); fault != nil {
			root, err = nil, &treeError{line: 1, problem: fmt.Sprintf("is not YAML: the parser failed: %v", fault)}
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
	switch len(bodies) {
	case 0:
		return nil, &treeError{line: 1, problem: "is empty", right: "vips and pools are needed"}
	case 1:
	default:
		return nil, &treeError{line: lineOf(bodies[1]), problem: "a second document begins here", right: "one document in a file"}
	}
	b := &treeBuilder{anchors: make(map[string]*node)}
	root, err = b.build("", bodies[0])
	if err != nil {
		return nil, err
	}
	if root.kind != mapping {
		return nil, &treeError{line: root.line, problem: "is " + root.kind.String(), right: "a mapping with vips and pools"}
	}
	return root, nil
}

type treeBuilder struct {
	anchors map[string]*node
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return max(t.Position.Line, 1)
	}
	return 1
}

func (b *treeBuilder) build(path string, n ast.Node) (*node, error) {
	out := &node{line: 1, size: 1}
	if n == nil {
		return out, nil
	}
	out.line = lineOf(n)
	fail := func(problem, right string) (*node, error) {
		return nil, &treeError{line: out.line, key: path, problem: problem, right: right}
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	case *ast.AnchorNode:
		value, err := b.build(path, n.Value)
		if err != nil {
			return nil, err
		}
		b.anchors[n.Name.GetToken().Value] = value
		return value, nil
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		value, ok := b.anchors[name]
		if !ok {
			return fail(fmt.Sprintf("no anchor &%s before this alias", name), "")
		}
		return value, nil
	case *ast.TagNode:
		return fail("tags are not used here", "the value without "+n.GetToken().Value)
	case *ast.SequenceNode:
		out.kind = sequence
		for i, entry := range n.Values {
			value, err := b.build(path+"["+strconv.Itoa(i)+"]", entry)
			if err != nil {
				return nil, err
			}
			out.list = append(out.list, value)
			out.size += value.size
		}
	case *ast.MappingNode:
		return b.buildMapping(path, out, n.Values)
	case *ast.MappingValueNode:
		return b.buildMapping(path, out, []*ast.MappingValueNode{n})
	default:
		return fail("is not a value: "+n.Type().YAMLName(), "")
	}
	if out.size > maxNodes {
		return fail("holds too many values", "fewer aliases of aliases")
	}
	return out, nil
}

func (b *treeBuilder) buildMapping(path string, out *node, values []*ast.MappingValueNode) (*node, error) {
	out.kind = mapping
	at := make(map[string]int, len(values))
	var merged []*node
	for _, v := range values {
		line := lineOf(v.Key)
		if v.Key.IsMergeKey() {
			from, err := b.build(join(path, "<<"), v.Value)
			if err != nil {
				return nil, err
			}
			merged = append(merged, from)
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			return nil, &treeError{line: line, key: path, problem: "has a key that is not a name", right: "a plain word"}
		}
		if first, twice := at[key]; twice {
			return nil, &treeError{line: line, key: join(path, key),
				problem: fmt.Sprintf("is given twice, first on line %d", out.fields[first].line)}
		}
		value, err := b.build(join(path, key), v.Value)
		if err != nil {
			return nil, err
		}
		if value.kind == null {
			value = &node{line: line, size: 1} // the token of an empty value may be on a later line
		}
		at[key] = len(out.fields)
		out.fields = append(out.fields, field{key: key, line: line, value: value})
		out.size += value.size
	}
	// YAML 1.1 merge key: what the mapping says itself wins, then the first that is merged.
	for _, from := range merged {
		sources := []*node{from}
		if from.kind == sequence {
			sources = from.list
		}
		for _, source := range sources {
			if source.kind != mapping {
				return nil, &treeError{line: out.line, key: join(path, "<<"), problem: "is " + source.kind.String(), right: "a mapping"}
			}
			for _, f := range source.fields {
				if _, ok := at[f.key]; !ok {
					at[f.key] = len(out.fields)
					out.fields = append(out.fields, f)
					out.size += f.value.size
				}
			}
		}
	}
	if out.size > maxNodes {
		return nil, &treeError{line: out.line, key: path, problem: "holds too many values", right: "fewer aliases of aliases"}
	}
	return out, nil
}

// keyText gives the text of a mapping's key when it is a plain or quoted scalar.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch n := key.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.MappingKeyNode, *ast.MergeKeyNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return "", false
	}
	t := key.GetToken()
	if t == nil || t.Type == token.MappingKeyType {
		return "", false
	}
	return t.Value, true
}

// join appends a key to a key path; a key that is no plain word is quoted.
func join(path, key string) string {
	for _, c := range []byte(key) {
		if c <= ' ' || c == '.' || c == ':' || c == '[' || c == '"' || c >= 0x7f {
			key = strconv.Quote(key)
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
