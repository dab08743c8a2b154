package document

import (
	"strings"
	"testing"
	"unicode"
)

// FuzzParse: error or tree, never both, never neither, never a panic, and a message is one line of the file; a tree is within
// its bounds and has a place for everything; and a decoder of it says the same of itself.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{everything, "", "a: &a {b: *a}\n<<: *a\n", "a: [1, ~, {? b : c}]\n---\n", "? [a]\n: !b |\n  c\n",
		"some: &s [a, b]\nwords: *s\nnamed: {<<: [{x: {weight: 1}}, {y: }]}\n", "name: \"\\u0000\"\n", "a: [[[[{{{{- - - ! &"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := Parse("f", data, rules)
		if (root == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v, want one of them", root, err)
		}
		if err != nil {
			oneLine(t, err)
			return
		}
		if size := check(t, root); root.Kind != Mapping || size > rules.Nodes {
			t.Fatalf("accepted %s of %d values", root.Kind, size)
		}
		d := NewDecoder("f")
		s := decode(d, root)
		if d.Err() != nil {
			oneLine(t, d.Err())
			return
		}
		if s.Name == "" || s.Wait < 0 || s.Count < -1 || s.Count > 9 || len(s.Some) > 2 || d.Given("some") != (len(s.Some) > 0) {
			t.Fatalf("accepted impossible settings: %+v", s)
		}
	})
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	for line := range strings.Lines(err.Error()) {
		oneOf(t, strings.TrimSuffix(line, "\n"))
	}
}

func oneOf(t *testing.T, line string) {
	t.Helper()
	if !strings.HasPrefix(line, "f:") || strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		t.Fatalf("message is not one line of the file: %q", line)
	}
}

// check gives the number of nodes as an alias-blind reader counts them.
func check(t *testing.T, n *Node) int {
	t.Helper()
	if n.Line < 1 || n.Column < 1 {
		t.Fatalf("no place: %+v", n)
	}
	if (n.Kind != Scalar && n.Text != "") || (n.Kind != Sequence && n.List != nil) || (n.Kind != Mapping && n.Fields != nil) {
		t.Fatalf("two kinds in one: %+v", n)
	}
	size := 1
	for _, e := range n.List {
		size += check(t, e)
	}
	keys := make(map[string]bool)
	for _, f := range n.Fields {
		if keys[f.Key] || f.Line < 1 || f.Column < 1 {
			t.Fatalf("key twice, or no place: %+v", f)
		}
		keys[f.Key] = true
		size += check(t, f.Value)
	}
	return size
}
