package topology

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// decoder turns the tree into a Topology. The first error stays; after it every method gives a zero value, so that callers
// need not look after each key.
type decoder struct {
	file   string
	err    *Error
	places map[string]place // of every value that was decoded, by its key path
}

func (d *decoder) wrong(n *node, path, problem, right string) {
	d.failAt(n.place, path, problem, right)
}

func (d *decoder) failAt(p place, path, problem, right string) {
	if d.err == nil {
		d.err = p.wrong(path, problem, right)
		d.err.File = d.file
	}
}

// refuse is for checks across the file: the place is that of the path, or of what holds it.
func (d *decoder) refuse(path, problem, right string) {
	at := path
	for {
		if p, ok := d.places[at]; ok {
			d.failAt(p, path, problem, right)
			return
		}
		cut := strings.LastIndexAny(at, ".[")
		if cut < 0 {
			d.failAt(place{1, 1}, path, problem, right)
			return
		}
		at = at[:cut]
	}
}

// key says how one key of a mapping is decoded.
type key struct {
	name   string
	decode func(path string, n *node)
}

// fields decodes each key of n that is there, in the file's order.
func (d *decoder) fields(path string, n *node, keys []key) {
	if _, known := d.places[path]; !known {
		d.places[path] = n.place
	}
	if n.kind == null {
		return
	}
	if n.kind != mapping {
		d.wrong(n, path, "is "+n.kind.String(), "a mapping with "+keyNames(keys))
		return
	}
	for _, f := range n.fields {
		at := join(path, f.key)
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == f.key })
		if i < 0 {
			d.failAt(f.place, at, "is not a key", suggest(f.key, keys))
			return
		}
		if f.value.kind == null {
			d.failAt(f.place, at, "has no value", "leave the key out for the default")
			return
		}
		d.places[at] = f.value.place
		keys[i].decode(at, f.value)
		if d.err != nil {
			return
		}
	}
}

// entries decodes a mapping of names of the user's own choice.
func (d *decoder) entries(path string, n *node, entry func(path, name string, n *node)) {
	if n.kind != mapping {
		d.wrong(n, path, "is "+n.kind.String(), "a mapping by name")
		return
	}
	for _, f := range n.fields {
		at := join(path, f.key)
		d.places[at] = f.place
		if entry(at, f.key, f.value); d.err != nil {
			return
		}
	}
}

func (d *decoder) require(path string, n *node, names ...string) {
	for _, name := range names {
		if !slices.ContainsFunc(n.fields, func(f field) bool { return f.key == name }) {
			d.wrong(n, join(path, name), "is missing", "")
		}
	}
}

func (d *decoder) list(path string, n *node, entry func(path string, n *node)) {
	if n.kind != sequence {
		d.wrong(n, path, "is "+n.kind.String(), "a list")
		return
	}
	for i, e := range n.list {
		at := path + "[" + strconv.Itoa(i) + "]"
		d.places[at] = e.place
		if e.kind == null {
			d.wrong(e, at, "has no value", "")
		} else if d.err == nil {
			entry(at, e)
		}
	}
}

func (d *decoder) text(path string, n *node) string {
	if n.kind != scalar {
		d.wrong(n, path, "is "+n.kind.String(), "a single value; quote it when it begins with [ or {")
		return ""
	}
	if n.text == "" {
		d.wrong(n, path, "is empty", "")
	}
	for _, c := range []byte(n.text) {
		if c < ' ' && c != '\t' && c != '\n' || c == 0x7f {
			d.wrong(n, path, fmt.Sprintf("%q holds a control character", clip(n.text)), "printable text")
			return ""
		}
	}
	return n.text
}

// line is text without line breaks.
func (d *decoder) line(path string, n *node) string {
	s := d.text(path, n)
	if strings.ContainsAny(s, "\n\t") {
		d.wrong(n, path, fmt.Sprintf("%q holds a line break or a tab", clip(s)), "text on one line")
		return ""
	}
	return s
}

func (d *decoder) texts(path string, n *node) []string {
	var out []string
	d.list(path, n, func(at string, n *node) { out = append(out, d.line(at, n)) })
	return out
}

func (d *decoder) choice(path string, n *node, words ...string) string {
	s := d.line(path, n)
	if d.err == nil && !slices.Contains(words, s) {
		d.wrong(n, path, fmt.Sprintf("%q is not known", clip(s)), strings.Join(words, " or "))
	}
	return s
}

func (d *decoder) boolean(path string, n *node) bool {
	s := d.line(path, n)
	if d.err == nil && s != "true" && s != "false" {
		d.wrong(n, path, fmt.Sprintf("%q is neither true nor false", clip(s)), "")
	}
	return s == "true"
}

func (d *decoder) integer(path string, n *node, low, high int) int {
	s := d.line(path, n)
	v, err := strconv.Atoi(s)
	if err != nil || v < low || v > high {
		d.wrong(n, path, fmt.Sprintf("%q is out of range", clip(s)), fmt.Sprintf("a whole number from %d to %d", low, high))
	}
	return v
}

// Host names are limited by what fits into the name of a namespace and reads well in a prompt.
var (
	hostName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	linkName      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,79}$`)
	interfaceName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,14}$`)
	processName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)
	dnsName       = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)
)

const (
	hostNameRight      = "a letter, then letters, digits and -, all lower case, 32 at most"
	interfaceNameRight = "a letter, then letters, digits and . _ -, 15 at most"
	processNameRight   = "letters, digits and . _ -, 32 at most"
)

// address decodes an address that a host can have.
func (d *decoder) address(path string, n *node) netip.Addr {
	s := d.line(path, n)
	if d.err != nil {
		return netip.Addr{}
	}
	return d.parseAddress(n.place, path, s)
}

func (d *decoder) parseAddress(at place, path, s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil {
		d.failAt(at, path, fmt.Sprintf("%q is not an IP address", clip(s)), `such as 10.1.0.2 or "fd01::2"`)
		return netip.Addr{}
	}
	if why := unusable(a); why != "" {
		d.failAt(at, path, fmt.Sprintf("%q is %s", clip(s), why), "the address of one host")
		return netip.Addr{}
	}
	return a
}

// unusable says why no host can be given an address, or "".
func unusable(a netip.Addr) string {
	switch {
	case a.Is4In6():
		return "an IPv4 address written as IPv6"
	case a.Zone() != "":
		return "an address with a zone"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "no address of a host"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsMulticast(), a.Is4() && a.As4()[0] >= 240:
		return "not a unicast address"
	case a.Is6() && a.IsLinkLocalUnicast():
		return "a link-local address, which the kernel gives"
	}
	return ""
}

// interfaceAddress decodes an address with the length of its link's prefix.
func (d *decoder) interfaceAddress(path string, n *node) netip.Prefix {
	s := d.line(path, n)
	if d.err != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		d.wrong(n, path, fmt.Sprintf("%q is not an address with the length of its prefix", clip(s)), `such as 10.1.0.2/24 or "fd01::2/64"`)
		return netip.Prefix{}
	}
	if why := unusable(p.Addr()); why != "" {
		d.wrong(n, path, fmt.Sprintf("%q is %s", clip(s), why), "the address of one host")
	}
	if p.Addr().Is4() && p.Bits() < 31 && (p.Addr() == p.Masked().Addr() || p.Addr() == last(p)) {
		d.wrong(n, path, fmt.Sprintf("%q is the network or the broadcast address of its prefix", clip(s)), "an address between them")
	}
	if p.Bits() == 0 {
		d.wrong(n, path, fmt.Sprintf("%q takes every address for its link", clip(s)), "a longer prefix")
	}
	return p
}

// last is the highest IPv4 address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

func keyNames(keys []key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return strings.Join(names, ", ")
}

// suggest names the key that was most likely meant, or all that there are.
func suggest(got string, keys []key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if best := nearest(got, names); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "one of " + keyNames(keys)
}

// nearest is the name at most two edits away, or "".
func nearest(got string, names []string) string {
	best, distance := "", 3
	for _, name := range names {
		if d := editDistance(strings.ToLower(got), name); d < distance && d < len(name) {
			best, distance = name, d
		}
	}
	return best
}

// editDistance is Levenshtein's, on bytes; a long a is far from every name and is not worth the time.
func editDistance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
