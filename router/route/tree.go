package route

import (
	"slices"
	"strings"

	"baton/router/config"
)

// node is an entry of a prefix tree.
type node struct {
	prefix  string
	upcall  bool
	pool    uint16
	rewrite config.Rewrite
}

func (n *node) sameAnswer(as *node) bool {
	return n.upcall == as.upcall && n.pool == as.pool && n.rewrite == as.rewrite
}

// nodesOf returns the prefix tree of routes for one host and method. A node yields the first route, in the file's
// order, whose prefix is on the path from the root to the node; a node that equals its parent is omitted. Above all
// is an upcall.
func nodesOf(routes []candidate) []node {
	first := make(map[string]int) // prefix to the first route that has it
	for i, c := range routes {
		if _, ok := first[c.prefix]; !ok {
			first[c.prefix] = i
		}
	}
	prefixes := make([]string, 0, len(first))
	for prefix := range first {
		prefixes = append(prefixes, prefix)
	}
	slices.Sort(prefixes) // a prefix sorts before longer ones

	type ancestor struct {
		node
		route int
	}
	stack := []ancestor{{node{upcall: true}, len(routes)}}
	var nodes []node
	for _, prefix := range prefixes {
		for !strings.HasPrefix(prefix, stack[len(stack)-1].prefix) {
			stack = stack[:len(stack)-1]
		}
		above := &stack[len(stack)-1]
		here := ancestor{node{prefix: prefix}, min(first[prefix], above.route)}
		if c := &routes[here.route]; c.upcall != "" {
			here.upcall = true
		} else {
			here.pool, here.rewrite = uint16(c.pool), c.rewrite
		}
		if !here.sameAnswer(&above.node) {
			nodes = append(nodes, here.node)
		}
		stack = append(stack, here)
	}
	return nodes
}

// entriesOf returns the entries of one host of HTTP, without VIP and id. What is alike for all methods has one
// entry, which only the empty prefix can have, as the method is before the target in the kernel's keys.
func entriesOf(routes []candidate) []PrefixEntry {
	var trees [len(methodIDs)][]node
	alike := !slices.ContainsFunc(routes, func(c candidate) bool { return len(c.methods) > 0 })
	for i, method := range methodIDs {
		switch {
		case !alike:
			trees[i] = nodesOf(forMethod(routes, method))
		case i == 0:
			trees[i] = nodesOf(routes)
		default:
			trees[i] = trees[0]
		}
	}
	var entries []PrefixEntry
	root := commonRoot(trees[:])
	if root != nil {
		entries = append(entries, root.toEntry(AnyMethod))
	}
	for i, nodes := range trees {
		if root != nil {
			nodes = nodes[1:]
		}
		for j := range nodes {
			entries = append(entries, nodes[j].toEntry(uint8(i+1)))
		}
	}
	return entries
}

// forMethod returns the routes that may match requests of a method.
func forMethod(routes []candidate, method string) []candidate {
	var out []candidate
	for i := range routes {
		if methodHolds(routes[i].methods, []byte(method)) {
			out = append(out, routes[i])
		}
	}
	return out
}

// commonRoot returns the node of the empty prefix if all trees have the same one, else nil.
func commonRoot(trees [][]node) *node {
	for _, nodes := range trees {
		if len(nodes) == 0 || nodes[0].prefix != "" || !nodes[0].sameAnswer(&trees[0][0]) {
			return nil
		}
	}
	return &trees[0][0]
}

func (n *node) toEntry(method uint8) PrefixEntry {
	return PrefixEntry{Method: method, Prefix: n.prefix, Pool: n.pool, Rewrite: n.rewrite, Upcall: n.upcall}
}
