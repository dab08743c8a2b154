package document

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var rules = Rules{Bytes: 1 << 20, Nodes: 1000, Empty: "at least name", Root: "a mapping with name"}

func TestParse(t *testing.T) {
	scalar := func(line, column int, text string) *Node {
		return &Node{Place: Place{line, column}, Kind: Scalar, Text: text}
	}
	tests := []struct {
		name, text string
		want       []Field
	}{
		{"kinds", "a: 1\nb: [x, 'y z']\nc:\n  d: true\n", []Field{
			{Place{1, 1}, "a", scalar(1, 4, "1")},
			{Place{2, 1}, "b", &Node{Place: Place{2, 4}, Kind: Sequence, List: []*Node{scalar(2, 5, "x"), scalar(2, 8, "y z")}}},
			{Place{3, 1}, "c", &Node{Place: Place{4, 3}, Kind: Mapping, Fields: []Field{{Place{4, 3}, "d", scalar(4, 6, "true")}}}},
		}},
		{"nothing stands where it should", "a:\nb:\n  -\n\n  -\nc: [~]\n", []Field{
			{Place{1, 1}, "a", &Node{Place: Place{1, 1}}},
			{Place{2, 1}, "b", &Node{Place: Place{3, 3}, Kind: Sequence, List: []*Node{{Place: Place{3, 3}}, {Place: Place{5, 3}}}}},
			{Place{6, 1}, "c", &Node{Place: Place{6, 4}, Kind: Sequence, List: []*Node{{Place: Place{6, 5}}}}},
		}},
		{"numbers keep their text", "a: 0x10\nb: 1_000\nc: .inf\n1.0: 007\n", []Field{
			{Place{1, 1}, "a", scalar(1, 4, "0x10")},
			{Place{2, 1}, "b", scalar(2, 4, "1_000")},
			{Place{3, 1}, "c", scalar(3, 4, ".inf")},
			{Place{4, 1}, "1.0", scalar(4, 6, "007")},
		}},
		{"alias", "a: &x 1\nb: *x\n", []Field{{Place{1, 1}, "a", scalar(1, 7, "1")}, {Place{2, 1}, "b", scalar(1, 7, "1")}}},
		{"merge: its own wins, then the first", "a: {<<: [{x: 1, y: 1}, {y: 2, z: 2}], x: 0}\n", []Field{
			{Place{1, 1}, "a", &Node{Place: Place{1, 5}, Kind: Mapping, Fields: []Field{
				{Place{1, 39}, "x", scalar(1, 42, "0")},
				{Place{1, 17}, "y", scalar(1, 20, "1")},
				{Place{1, 31}, "z", scalar(1, 34, "2")},
			}}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("f", []byte(tt.text), rules)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Fields, cmpopts.IgnoreUnexported(Node{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", "f:1:1: is empty (at least name)"},
		{"comments alone", "# nothing\n", "f:1:1: is empty (at least name)"},
		{"null", "~\n", "f:1:1: is empty (a mapping with name)"},
		{"list", "# a list\n- a\n", "f:2:1: is a list (a mapping with name)"},
		{"two documents", "a: 1\n---\nb: 2\n", "f:3:1: a second document begins here (one document in a file)"},
		{"too large", strings.Repeat("#", 1<<20+1), "f: is too large (at most 1 MiB)"},
		{"not YAML", "a: [\n", "f:1:4: is not YAML: sequence end token ']' not found"},
		{"key twice", "a: 1\nb: {c: 1, c: 2}\n", "f:2:11: b.c: is given twice, first on line 2 (keep one of them)"},
		{"key that is a list", "? [a]\n: b\n", "f:2:1: is not YAML: found an invalid key for this map"},
		{"tag", "a: !x 1\n", "f:1:4: a: tags are not used here (the value without !x)"},
		{"alias of nothing", "a: [*x]\n", "f:1:5: a[0]: no anchor &x before this alias"},
		{"alias of itself", "a: &x [*x]\n", "f:1:8: a[0]: no anchor &x before this alias"},
		{"merge of a value", "a: {<<: 1}\n", "f:1:5: a.<<: is a single value (a mapping)"},
		{"aliases of aliases", bomb, "f:3:9: a2: holds too many values (fewer aliases of aliases)"},
		{"merges of merges", "a: &a {x: " + strings.Repeat("[", 90) + strings.Repeat("]", 90) + "}\n" +
			"b: [" + strings.Repeat("{<<: *a}, ", 11) + "]\n", "f:2:4: b: holds too many values (fewer aliases of aliases)"},
		{"deep brackets", "a: " + strings.Repeat("[", 101), "f:1:104: is nested too deep (at most 100 levels)"},
		{"deep dashes", strings.Repeat("- ", 101) + "a", "f:1:201: is nested too deep (at most 100 levels)"},
		{"deep tags", "a: " + strings.Repeat("!a\n", 101), "f:101:1: is nested too deep (at most 100 levels)"},
		{"deep anchors", "a: " + strings.Repeat("&a ", 101), "f:1:304: is nested too deep (at most 100 levels)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("f", []byte(tt.text), rules)
			var e *Error
			if got != nil || !errors.As(err, &e) {
				t.Fatalf("Parse = %v, %v, want nil and an *Error", got, err)
			}
			if err.Error() != tt.want {
				t.Errorf("Parse:\n got %s\nwant %s", err, tt.want)
			}
		})
	}
}

// TestParseTakes holds what the bounds on nesting must not refuse.
func TestParseTakes(t *testing.T) {
	for name, text := range map[string]string{
		"100 levels":        "a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"many empty values": "a:\n" + strings.Repeat("  -\n", 300),
		"many anchors":      "a: [" + strings.Repeat("&a 1, ", 300) + "]",
	} {
		if _, err := Parse("f", []byte(text), rules); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestError(t *testing.T) {
	tests := []struct {
		err  Error
		want string
	}{
		{Error{File: "f", Problem: "is too large"}, "f: is too large"},
		{Error{File: "f", Line: 3, Key: "a", Problem: "is odd", Valid: "even"}, "f:3: a: is odd (even)"},
		{Error{File: "f", Line: 3, Column: 7, Key: "a", Problem: "is odd"}, "f:3:7: a: is odd"},
		{Error{File: "a\nb\r\x1b[31m", Line: 1, Problem: "two\u2028lines\tand\u0085more"}, "a b  [31m:1: two lines\tand more"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("Error of %+v:\n got %q\nwant %q", tt.err, got, tt.want)
		}
	}
}

// settings has a value of each kind.
type settings struct {
	Name    string
	Script  string
	Words   []string
	Count   int
	Wait    time.Duration
	On      bool
	Mode    string
	Pattern string
	Some    []string
	Named   map[string]int
	Host    string
	Like    string // one of Named
}

func decode(d *Decoder, root *Node) (s settings) {
	d.Fields("", root, []Key{
		{Name: "name", Decode: func(path string, n *Node) { s.Name = d.Text(path, n) }},
		{Name: "script", Decode: func(path string, n *Node) { s.Script = d.Lines(path, n) }},
		{Name: "words", Decode: func(path string, n *Node) { s.Words = d.Texts(path, n) }},
		{Name: "count", Decode: func(path string, n *Node) { s.Count = d.Integer(path, n, -1, 9) }},
		{Name: "wait", Decode: func(path string, n *Node) { s.Wait = d.Duration(path, n) }},
		{Name: "on", Decode: func(path string, n *Node) { s.On = d.Boolean(path, n) }},
		{Name: "mode", Decode: func(path string, n *Node) { s.Mode = d.Choice(path, n, "is not a mode", "a", "b", "c") }},
		{Name: "pattern", Decode: func(path string, n *Node) {
			if re := d.Regexp(path, n); re != nil {
				s.Pattern = re.String()
			}
		}},
		{Name: "some", Decode: func(path string, n *Node) {
			d.AtMost(path, n, 2)
			d.NonEmptyList(path, n, func(path string, n *Node) { s.Some = append(s.Some, d.Text(path, n)) })
		}},
		{Name: "named", Decode: func(path string, n *Node) {
			s.Named = make(map[string]int)
			d.Entries(path, n, func(path, name string, n *Node) {
				d.Fields(path, n, []Key{{Name: "weight", Decode: func(path string, n *Node) { s.Named[name] = d.Integer(path, n, 0, 9) }}})
				if s.Named[name] == 9 {
					d.Warn(d.Place(path), path+".weight", "is a lot")
				}
			})
		}},
		{Name: "host", Decode: func(path string, n *Node) { s.Host = d.Address(path, n).String() }},
		{Name: "like", Decode: func(path string, n *Node) { s.Like = d.Text(path, n) }},
	})
	d.Require("", root, "name")
	d.Refer("like", s.Like, "is not one of named", "", "named", slices.Sorted(maps.Keys(s.Named)))
	if s.Count > 0 && len(s.Words) > s.Count {
		d.Refuse(fmt.Sprintf("words[%d]", s.Count), "is one too many", "")
	}
	return s
}

const everything = `name: x
script: |
  a
  	b
words: [v, w]
count: 3
wait: 1m30s
on: true
mode: c
pattern: ^a+$
some: [one]
named: {p: {weight: 9}, "q r": }
host: 192.0.2.1
like: p
`

func TestDecoder(t *testing.T) {
	root, err := Parse("f", []byte(everything), rules)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder("f")
	got := decode(d, root)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	want := settings{"x", "a\n\tb\n", []string{"v", "w"}, 3, 90 * time.Second, true, "c", "^a+$", []string{"one"}, map[string]int{"p": 9},
		"192.0.2.1", "p"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"f:12:9: named.p.weight: is a lot"}, d.Warnings()); diff != "" {
		t.Errorf("Warnings (-want +got):\n%s", diff)
	}
	for path, want := range map[string]Place{
		"": {1, 1}, "name": {1, 7}, "words[1]": {5, 12}, "words[2]": {5, 8}, "named.p": {12, 9}, "named.p.weight": {12, 21},
		`named."q r".weight`: {12, 25}, "none.at[3].all": {1, 1},
	} {
		if got := d.Place(path); got != want {
			t.Errorf("Place(%q) = %v, want %v", path, got, want)
		}
	}
	if !d.Given("words[1]") || d.Given("words[2]") {
		t.Error("Given does not distinguish words[1], which exists, from words[2], which does not")
	}
}

func TestDecoderRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "nmae: x", "f:1:1: nmae: is not a key (did you mean name?)"},
		{"unknown key, nothing near", "name: x\n\"a b\": 1", `f:2:1: "a b": is not a key (one of name, script, words, count, wait, on, mode, pattern, some, named, host, like)`},
		{"no value", "name:", "f:1:1: name: has no value (name: ...)"},
		{"missing", "# comment\non: true", "f:2:1: name: is missing (name: ...)"},
		{"empty text", `name: ""`, "f:1:7: name: is empty (at least one character)"},
		{"list for text", "name: [x]", "f:1:7: name: is a list (a single value; quote it when it begins with [ or {)"},
		{"text on two lines", `name: "a\nb"`, `f:1:7: name: "a\nb" holds a control character (printable text on one line)`},
		{"control character in lines", `script: "a\eb"`, `f:1:9: script: "a\x1bb" holds a control character (printable text)`},
		{"long text is clipped", "count: " + strings.Repeat("1", 100), `f:1:8: count: "` + strings.Repeat("1", 77) + `..." is out of range (a whole number from -1 to 9)`},
		{"text for a list", "words: x", "f:1:8: words: must be a list: [x]"},
		{"empty entry", "words:\n  - a\n  -\n  - b", "f:3:3: words[1]: has no value (leave the dash out)"},
		{"below", "count: -2", `f:1:8: count: "-2" is out of range (a whole number from -1 to 9)`},
		{"above", "count: 10", `f:1:8: count: "10" is out of range (a whole number from -1 to 9)`},
		{"fraction", "count: 1.5", `f:1:8: count: "1.5" is out of range (a whole number from -1 to 9)`},
		{"no unit", "wait: 60", `f:1:7: wait: "60" is not a duration (a number with its unit, such as 500ms, 10s or 1h)`},
		{"no time", "wait: 0s", `f:1:7: wait: "0s" is not above zero (such as 500ms, 10s or 1h)`},
		{"yes", "on: yes", `f:1:5: on: "yes" is not a boolean (true or false)`},
		{"choice", "mode: d", `f:1:7: mode: "d" is not a mode (a, b or c)`},
		{"no choice", "mode: ''", `f:1:7: mode: "" is not a mode (a, b or c)`},
		{"pattern", "pattern: (", "f:1:10: pattern: missing closing ): `(` (an RE2 expression)"},
		{"empty list", "some: []", "f:1:7: some: is an empty list (at least one entry)"},
		{"mapping for a list", "some: {a: b}", "f:1:8: some: is a mapping, and must be a list (with a dash before each entry: - a: ...)"},
		{"nothing for a list", "some: {}", "f:1:7: some: is a mapping (a list)"},
		{"too many", "some: [a, b, c]", "f:1:7: some: has 3 entries (at most 2)"},
		{"list for names", "named: [a]", "f:1:8: named: is a list (a mapping by name)"},
		{"value of a name", "named: {a: 1}", "f:1:12: named.a: is a single value (a mapping with weight)"},
		{"no address", "host: x", `f:1:7: host: "x" is not an address (such as 192.0.2.1 or 2001:db8::1)`},
		{"IPv4 as IPv6", `host: "::ffff:192.0.2.1"`, `f:1:7: host: "::ffff:192.0.2.1" is an IPv4 address written as IPv6 (192.0.2.1)`},
		{"zone", `host: "fe80::1%a"`, `f:1:7: host: "fe80::1%a" is not the address of one host (such as 192.0.2.1 or 2001:db8::1)`},
		{"all addresses", `host: "::"`, `f:1:7: host: "::" is not the address of one host (such as 192.0.2.1 or 2001:db8::1)`},
		{"many hosts", "host: 224.0.0.1", `f:1:7: host: "224.0.0.1" is not the address of one host (such as 192.0.2.1 or 2001:db8::1)`},
		{"across", "name: x\ncount: 1\nwords: [a, b]", "f:3:12: words[1]: is one too many"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, err := Parse("f", []byte(tt.text), rules)
			if err != nil {
				t.Fatal(err)
			}
			d := NewDecoder("f")
			decode(d, root)
			if got := slices.DeleteFunc(strings.Split(fmt.Sprint(d.Refused()), "\n"), isIncomplete); tt.name != "missing" && !slices.Equal(got, []string{tt.want}) {
				t.Errorf("decode:\n got %q\nwant %s", got, tt.want)
			}
		})
	}
}

// isIncomplete reports whether the line is the one that all documents of these tests cause.
func isIncomplete(line string) bool { return strings.HasSuffix(line, ": name: is missing (name: ...)") }

// TestDecoderReportsAll: each mistake of a document is reported once, in the file's order, without those that follow from it.
func TestDecoderReportsAll(t *testing.T) {
	many := "words:\n" + strings.Repeat("  - {}\n", 25)
	long := make([]string, 0, 21)
	for i := range 20 {
		long = append(long, fmt.Sprintf("f:%d:5: words[%d]: is a mapping (a single value; quote it when it begins with [ or {)", i+2, i))
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"several", "count: x\nname: [y]\nmode: d\nwait: 1", []string{
			`f:1:8: count: "x" is out of range (a whole number from -1 to 9)`,
			`f:2:7: name: is a list (a single value; quote it when it begins with [ or {)`,
			`f:3:7: mode: "d" is not a mode (a, b or c)`,
			`f:4:7: wait: "1" is not a duration (a number with its unit, such as 500ms, 10s or 1h)`,
		}},
		{"in lists and by names", "name: x\nwords: [[], a, []]\nnamed: {p: {weight: -1}, q: {wight: 1}}", []string{
			`f:2:9: words[0]: is a list (a single value; quote it when it begins with [ or {)`,
			`f:2:16: words[2]: is a list (a single value; quote it when it begins with [ or {)`,
			`f:3:21: named.p.weight: "-1" is out of range (a whole number from 0 to 9)`,
			`f:3:30: named.q.wight: is not a key (did you mean weight?)`,
		}},
		{"a misspelt key is not missing as well", "nmae: x\nxyzzy: 1", []string{
			"f:1:1: nmae: is not a key (did you mean name?)",
			"f:2:1: xyzzy: is not a key (one of name, script, words, count, wait, on, mode, pattern, some, named, host, like)",
		}},
		{"missing beside another", "on: 1", []string{"f:1:1: name: is missing (name: ...)", `f:1:5: on: "1" is not a boolean (true or false)`}},
		{"a reference beside another", "name: x\non: 1\nlike: pp\nnamed: {p: {weight: -1}, ppp: {weight: 1}}", []string{
			`f:2:5: on: "1" is not a boolean (true or false)`,
			`f:3:7: like: "pp" is not one of named (did you mean ppp?)`,
			`f:4:21: named.p.weight: "-1" is out of range (a whole number from 0 to 9)`,
		}},
		{"a reference to what could not be read", "name: x\nlike: p\nnamed: [p]", []string{
			"f:3:8: named: is a list (a mapping by name)",
		}},
		{"a reference to what was misspelt", "name: x\nlike: p\nnamedd: {p: }", []string{
			"f:3:1: namedd: is not a key (did you mean named?)",
		}},
		{"a reference to nothing", "name: x\nlike: p", []string{`f:2:7: like: "p" is not one of named (there are none)`}},
		{"bounded", "name: x\n" + many, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, err := Parse("f", []byte(tt.text), rules)
			if err != nil {
				t.Fatal(err)
			}
			d := NewDecoder("f")
			decode(d, root)
			got := strings.Split(fmt.Sprint(d.Refused()), "\n")
			if tt.want == nil {
				for i := range long {
					tt.want = append(tt.want, strings.Replace(long[i], fmt.Sprintf("f:%d:", i+2), fmt.Sprintf("f:%d:", i+3), 1))
				}
				tt.want = append(tt.want, "f: and 5 more mistakes")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRenamedKey: a key that has another name by now is refused with that name, and the new one is neither missing nor decoded.
func TestRenamedKey(t *testing.T) {
	root, err := Parse("f", []byte("old: 1\n"), rules)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder("f")
	d.Fields("", root, []Key{{Name: "old", Now: "new"}, {Name: "new", Decode: func(string, *Node) { t.Error("decoded") }}})
	d.Require("", root, "new")
	if want := "f:1:1: old: is not a key (did you mean new?)"; fmt.Sprint(d.Err()) != want {
		t.Errorf("got %v\nwant %s", d.Err(), want)
	}
	if got := keyNames([]Key{{Name: "old", Now: "new"}, {Name: "new"}}); got != "new" {
		t.Errorf("messages list %s", got)
	}
}

// TestChecksReportAll: mistakes found by checks are reported together, and with those of values, if they do not follow from them.
func TestChecksReportAll(t *testing.T) {
	refuses := func(key string) func(*Decoder, *settings) {
		return func(d *Decoder, _ *settings) { d.Refuse(key, "is refused", "") }
	}
	all := func(d *Decoder, root *Node) *settings { s := decode(d, root); return &s }
	for text, want := range map[string]string{
		"name: x\non: true": "f:1:7: name: is refused\nf:2:5: on: is refused",
		"name: x\non: 1":    "f:1:7: name: is refused\n" + `f:2:5: on: "1" is not a boolean (true or false)`,
		"nmae: x\non: true": "f:1:1: nmae: is not a key (did you mean name?)\nf:1:7: name: is refused\nf:2:5: on: is refused",
		"name: x\nzz: 1":    "f:1:1: on: is refused\nf:1:7: name: is refused\nf:2:1: zz: is not a key (one of name, script, words, count, wait, on, mode, pattern, some, named, host, like)",
	} {
		if s, err := ParseAs("f", []byte(text), rules, all, refuses("on"), refuses("name")); s != nil || fmt.Sprint(err) != want {
			t.Errorf("%s: %v, got\n%v\nwant\n%s", text, s, err, want)
		}
	}
}

// TestPlaces: mistakes that are found when a configuration is used are at their places, too.
func TestPlaces(t *testing.T) {
	root, err := Parse("f", []byte("words: [a, b]\n"), rules)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder("f")
	decode(d, root)
	p := d.Places()
	got := JoinErrors([]*Error{p.Wrong("words[1]", "is odd", "even"), p.Wrong("words[0].x", "is late", "")})
	if want := "f:1:9: words[0].x: is late\nf:1:12: words[1]: is odd (even)"; fmt.Sprint(got) != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
	if err := JoinErrors(nil); err != nil {
		t.Errorf("an error of no mistakes: %v", err)
	}
	if got := (Places{}).Wrong("a", "is odd", "").Error(); got != ":1:1: a: is odd" {
		t.Errorf("of no document: %s", got)
	}
}
