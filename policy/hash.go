package policy

import (
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

func hashName(s string) uint64 { return xxhash.Sum64String(s) }

// mix spreads each bit over all (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// score is the rank of a surrogate for a key: the highest serves. It is weighted rendezvous hashing: a surrogate gets the share of its weight, and when one
// goes, its keys alone move, to the others by their weights.
func score(key, id uint64, weight int) float64 {
	return float64(weight) / -math.Log(unit(mix(key^id)))
}

// unit makes a number between 0 and 1 of a hash, and neither of them: all its 53 bits are exact.
func unit(h uint64) float64 { return (float64(h>>12) + 0.5) / (1 << 52) }

// objectKey returns the hash of an object's name, which is that of ObjectName.
func (r *rules) objectKey(host, path, query string) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.WriteString(host)
	d.WriteString(pathOf(path))
	if query != "" && (r.AllQuery || len(r.Query) > 0) {
		var room [256]byte
		if q := CanonicalQuery(room[:0], query, r.AllQuery, r.Query); len(q) > 0 {
			d.WriteString("?")
			d.Write(q)
		}
	}
	return d.Sum64()
}

// objectName is what objectKey hashes, without the host.
func (r *rules) objectName(path, query string) string {
	name := pathOf(path)
	if q := CanonicalQuery(nil, query, r.AllQuery, r.Query); len(q) > 0 {
		name += "?" + string(q)
	}
	return name
}

func pathOf(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

func addrKey(p netip.Prefix) uint64 {
	a := p.Addr().As16()
	var d xxhash.Digest
	d.Reset()
	d.Write(a[:])
	return d.Sum64()
}

// clientPrefix returns the prefix by which clients are sticky. A query about a shorter prefix keeps that.
func (r *rules) clientPrefix(client netip.Prefix) netip.Prefix {
	length := r.Prefix6
	if client.Addr().Is4() {
		length = r.Prefix4
	}
	p, _ := client.Addr().Prefix(min(length, client.Bits()))
	return p
}

// canonicalHost is a host in lower case, without a port and a dot at the end.
func canonicalHost(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// pair is a parameter of a query, decoded.
type pair struct{ name, value string }

// CanonicalQuery appends the chosen parameters of a query to dst: by name, with escapes that are always the same. Parameters of one name keep
// their order, because it may mean something. An escape that is none stands for itself.
func CanonicalQuery(dst []byte, query string, all bool, names []string) []byte {
	var room [16]pair
	pairs := room[:0]
	for query != "" {
		var one string
		one, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(one, "=")
		if name = unescape(name); one != "" && (all || slices.Contains(names, name)) {
			pairs = append(pairs, pair{name, unescape(value)})
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	for i, p := range pairs {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(appendEscaped(dst, p.name), '=')
		dst = appendEscaped(dst, p.value)
	}
	return dst
}

const hexDigits = "0123456789ABCDEF"

func appendEscaped(dst []byte, s string) []byte {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

// unescape decodes + and %XX. It allocates only if there is one.
func unescape(s string) string {
	first := strings.IndexAny(s, "+%")
	if first < 0 {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:first]...)
	for i := first; i < len(s); i++ {
		switch {
		case s[i] == '+':
			out = append(out, ' ')
		case s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			out = append(out, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
		default:
			out = append(out, s[i])
		}
	}
	return string(out)
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
