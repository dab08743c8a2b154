package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder turns the tree into a Config. The first error stays; after it every method gives a zero value, so that callers
// need not look after each key.
type decoder struct {
	file string
	err  error
}

func (d *decoder) fail(line int, path, problem, right string) {
	if d.err == nil {
		d.err = &Error{File: d.file, Line: line, Key: path, Problem: problem, Right: right}
	}
}

// warning gives the line that tells of something that works, but not as one might expect.
func (d *decoder) warning(line int, path, text string) string {
	return (&Error{File: d.file, Line: line, Key: path, Problem: text}).Error()
}

// key says how one key of a mapping is decoded.
type key struct {
	name   string
	decode func(path string, n *node)
}

// mapping decodes each key of n that is there, in the file's order.
func (d *decoder) mapping(path string, n *node, keys []key) {
	if n.kind != mapping {
		d.fail(n.line, path, "is "+n.kind.String(), "a mapping with "+keyNames(keys))
		return
	}
	for _, f := range n.fields {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == f.key })
		if i < 0 {
			d.fail(f.line, join(path, f.key), "is not a key", suggest(f.key, keys))
			return
		}
		if f.value.kind == null {
			d.fail(f.line, join(path, f.key), "has no value", "leave the key out for the default")
			return
		}
		keys[i].decode(join(path, f.key), f.value)
		if d.err != nil {
			return
		}
	}
}

// require refuses a mapping that lacks a key that has no default.
func (d *decoder) require(path string, n *node, names ...string) {
	for _, name := range names {
		if !slices.ContainsFunc(n.fields, func(f field) bool { return f.key == name }) {
			d.fail(n.line, join(path, name), "is missing", "")
		}
	}
}

func (d *decoder) sequence(path string, n *node, entry func(path string, n *node)) {
	if n.kind != sequence {
		d.fail(n.line, path, "is "+n.kind.String(), "a list")
		return
	}
	if d.err != nil {
		return
	}
	if len(n.list) == 0 {
		d.fail(n.line, path, "is an empty list", "at least one entry")
		return
	}
	for i, e := range n.list {
		at := path + "[" + strconv.Itoa(i) + "]"
		if e.kind == null {
			d.fail(n.line, at, "has no value", "")
			return
		}
		entry(at, e)
		if d.err != nil {
			return
		}
	}
}

func (d *decoder) atMost(path string, n *node, limit int) {
	if count := max(len(n.list), len(n.fields)); count > limit {
		d.fail(n.line, path, fmt.Sprintf("has %d entries", count), fmt.Sprintf("at most %d", limit))
	}
}

func (d *decoder) text(path string, n *node) string {
	if n.kind != scalar {
		d.fail(n.line, path, "is "+n.kind.String(), "a single value; quote it when it begins with [ or {")
		return ""
	}
	for _, c := range []byte(n.text) {
		if c < ' ' || c == 0x7f {
			d.fail(n.line, path, fmt.Sprintf("%q holds a control character", clip(n.text)), "printable text on one line")
			return ""
		}
	}
	return n.text
}

func (d *decoder) nonEmpty(path string, n *node) string {
	s := d.text(path, n)
	if s == "" {
		d.fail(n.line, path, "is empty", "")
	}
	return s
}

// texts decodes a list of distinct values.
func (d *decoder) texts(path string, n *node) []string {
	var out []string
	d.sequence(path, n, func(at string, n *node) {
		s := d.nonEmpty(at, n)
		if d.err == nil && slices.Contains(out, s) {
			d.fail(n.line, at, fmt.Sprintf("%q is there twice", clip(s)), "")
		}
		out = append(out, s)
	})
	return out
}

func (d *decoder) integer(path string, n *node, low, high int) int {
	s := d.text(path, n)
	v, err := strconv.Atoi(s)
	if err != nil || v < low || v > high {
		d.fail(n.line, path, fmt.Sprintf("%q is out of range", clip(s)), fmt.Sprintf("a whole number from %d to %d", low, high))
		return 0
	}
	return v
}

func (d *decoder) duration(path string, n *node) time.Duration {
	s := d.text(path, n)
	v, err := time.ParseDuration(s)
	if err != nil {
		d.fail(n.line, path, fmt.Sprintf("%q is not a duration", clip(s)), "a number with its unit, such as 500ms, 10s or 1h")
		return 0
	}
	if v <= 0 {
		d.fail(n.line, path, fmt.Sprintf("%q is not above zero", clip(s)), "such as 500ms, 10s or 1h")
		return 0
	}
	return v
}

func (d *decoder) regex(path string, n *node) *regexp.Regexp {
	s := d.nonEmpty(path, n)
	re, err := regexp.Compile(s)
	if err != nil {
		d.fail(n.line, path, strings.TrimPrefix(err.Error(), "error parsing regexp: "), "an RE2 expression")
		return nil
	}
	return re
}

// absolute decodes the absolute path of a file; limit is the longest that the kernel takes, in bytes.
func (d *decoder) absolute(path string, n *node, limit int) string {
	s := d.nonEmpty(path, n)
	if d.err == nil && (s[0] != '/' || len(s) > limit) {
		d.fail(n.line, path, fmt.Sprintf("%q is not usable as a path", clip(s)), fmt.Sprintf("an absolute path of at most %d bytes", limit))
	}
	return s
}

// hostPort decodes where a TCP listener of the router's own is; the host may be empty or a name.
func (d *decoder) hostPort(path string, n *node) string {
	s := d.nonEmpty(path, n)
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		var number int
		if number, err = strconv.Atoi(port); err == nil && (number < 1 || number > 65535) {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		d.fail(n.line, path, fmt.Sprintf("%q is not host:port", clip(s)), `such as "127.0.0.1:9464"`)
	}
	return s
}

// addrPort decodes an address that packets can be sent to, with its port.
func (d *decoder) addrPort(path string, n *node) netip.AddrPort {
	s := d.nonEmpty(path, n)
	if d.err != nil {
		return netip.AddrPort{}
	}
	const right = `such as "10.9.9.9:80" or "[2001:db8::9]:443"`
	a, err := netip.ParseAddrPort(s)
	switch {
	case err != nil:
		d.fail(n.line, path, fmt.Sprintf("%q is not address:port", clip(s)), right)
	case a.Port() == 0:
		d.fail(n.line, path, fmt.Sprintf("%q has port 0", s), "a port from 1 to 65535")
	case a.Addr().Zone() != "":
		d.fail(n.line, path, fmt.Sprintf("%q has a zone", clip(s)), "an address that is routed")
	case a.Addr().Is4In6():
		d.fail(n.line, path, fmt.Sprintf("%q is an IPv4 address written as IPv6", s), netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String())
	case a.Addr().IsUnspecified(), a.Addr().IsMulticast(), a.Addr() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		d.fail(n.line, path, fmt.Sprintf("%q is not the address of one host", s), right)
	default:
		return a
	}
	return netip.AddrPort{}
}

// clip bounds what a message quotes.
func clip(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
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
	best, distance := "", 3
	for _, k := range keys {
		if d := editDistance(strings.ToLower(got), k.name); d < distance && d < len(k.name) {
			best, distance = k.name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "one of " + keyNames(keys)
}

// editDistance is Levenshtein's, on bytes; a long a is far from every key and is not worth the time.
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
