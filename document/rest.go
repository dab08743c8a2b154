package document

import (
	"fmt"
	"regexp"
	"strings"
)

// rest is a document without the values that were refused, and with the right keys in place of misspelt ones: so
// the other values can be checked, too.
type rest struct {
	dropped []string       // key paths of the values that are left out
	names   []string       // expressions for them in messages
	named   *regexp.Regexp // matches messages that name one of them; nil: none is left out
}

// passes bounds how often the rest of a document is decoded: what was left out may be missing to others.
const passes = 8

// mostSought is with how many mistakes no more are sought: only the first are reported, and each further one is
// compared with what was left out.
const mostSought = 3 * mostMistakes

// findMore adds the mistakes that those of d have hidden: it has the rest of the document decoded and checked. What
// may follow from that something is left out is no mistake.
func findMore[C any](d *Decoder, root *Node, decode Decode[C], checks []func(*Decoder, *C)) {
	var r rest
	last := d
	for range passes {
		if root = r.of(root, last); root == nil {
			return
		}
		next := NewDecoder(d.file)
		c := decode(next, root)
		if len(next.mistakes) == next.kept {
			next.across = true
			for _, check := range checks {
				check(next, c)
			}
		}
		next.showMissing()
		for _, e := range next.mistakes[:min(len(next.mistakes), mostSought)] {
			if !r.follows(e) {
				d.mistakes = append(d.mistakes, e)
			}
		}
		if next.across {
			return
		}
		last = next
	}
}

// of returns the tree without the values that d has refused; nil if nothing is left.
func (r *rest) of(root *Node, d *Decoder) *Node {
	there := make(map[string]bool)
	paths("", root, there)
	drop := make(map[string]bool)
	for _, e := range d.mistakes {
		if e.kept || d.respelt[e.Key] != "" {
			continue
		}
		path := e.Key
		for path != "" && !there[path] { // what is missing, or not at a value
			path = path[:max(0, strings.LastIndexAny(path, ".["))]
		}
		if path == "" {
			return nil
		}
		drop[path] = true
		r.leaveOut(e.Key, d)
		r.leaveOut(path, d)
	}
	if len(r.names) > 0 { // compiled once: each time it takes as long as there are names
		r.named = regexp.MustCompile(strings.Join(r.names, "|"))
	}
	return without("", root, drop, d.respelt)
}

func paths(path string, n *Node, into map[string]bool) {
	into[path] = true
	for _, f := range n.Fields {
		paths(Join(path, f.Key), f.Value, into)
	}
	for i, e := range n.List {
		paths(Index(path, i), e, into)
	}
}

// without copies a tree. A list ends before an entry that is dropped, so that the others keep their indices.
func without(path string, n *Node, drop map[string]bool, respelt map[string]string) *Node {
	out := *n
	out.Fields, out.List = nil, nil
	for _, f := range n.Fields {
		at := Join(path, f.Key)
		if drop[at] {
			continue
		}
		if right := respelt[at]; right != "" {
			f.Key = right
		}
		f.Value = without(at, f.Value, drop, respelt)
		out.Fields = append(out.Fields, f)
	}
	for i, e := range n.List {
		at := Index(path, i)
		if drop[at] {
			break
		}
		out.List = append(out.List, without(at, e, drop, respelt))
	}
	return &out
}

// lastKey matches the last key of a key path.
var lastKey = regexp.MustCompile(`([^."\[\]]+)"?(\[\d+\])*$`)

// leaveOut notes the key path of a value that is left out, and how messages name it: by its key, or by an entry
// that it is in.
func (r *rest) leaveOut(path string, d *Decoder) {
	r.dropped = append(r.dropped, path)
	if m := lastKey.FindStringSubmatch(path); m != nil {
		r.names = append(r.names, `(?i:\b`+regexp.QuoteMeta(strings.TrimSuffix(m[1], "s"))+`s?\b)`) // of a list, or of its entries
	}
	for i, c := range path {
		if c == ']' {
			entry := path[:i+1]
			r.names = append(r.names, regexp.QuoteMeta(entry), fmt.Sprintf(`\bline %d\b`, d.Place(entry).Line))
		}
	}
}

// follows reports whether a mistake may follow from that values are left out: it is about one of them, about what
// contains it, or names it.
func (r *rest) follows(e *Error) bool {
	if strings.HasPrefix(e.Problem, "is missing") {
		return true
	}
	for _, path := range r.dropped {
		if within(e.Key, path) || within(path, e.Key) || e.from != "" && (within(e.from, path) || within(path, e.from)) {
			return true
		}
	}
	return r.named != nil && r.named.MatchString(e.Problem+" "+e.Valid)
}

// within reports whether a key path is that of a value, or of one within it.
func within(path, value string) bool {
	below, is := strings.CutPrefix(path, value)
	return is && (below == "" || below[0] == '.' || below[0] == '[' || value == "")
}
