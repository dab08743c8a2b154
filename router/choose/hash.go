package choose

import "bytes"

// FNV-1a, 64 bits (RFC 9923).
const (
	offset64 = 0xcbf29ce484222325
	prime64  = 0x100000001b3
)

func fnv1a(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * prime64
	}
	return h
}

// HashPath hashes the raw path, up to a "?", as the kernel program does: 64-bit FNV-1a.
func HashPath(path []byte) uint64 {
	if end := bytes.IndexByte(path, '?'); end >= 0 {
		path = path[:end]
	}
	return fnv1a(offset64, path)
}

// HashQuery hashes the first value of each of the named parameters, in the order of names. Names and values are compared raw.
// False if the query has none of them; then the path is hashed. Only user space does this.
func HashQuery(query []byte, names []string) (uint64, bool) {
	h, found := uint64(offset64), false
	for _, name := range names {
		for rest := query; len(rest) > 0; {
			pair := rest
			if end := bytes.IndexByte(rest, '&'); end >= 0 {
				pair, rest = rest[:end], rest[end+1:]
			} else {
				rest = nil
			}
			key, value, _ := bytes.Cut(pair, []byte("="))
			if string(key) == name {
				h = fnv1a(fnv1a(fnv1a(h, key), []byte("=")), value)
				found = true
				break
			}
		}
		h = fnv1a(h, []byte("&")) // separates pairs
	}
	return h, found
}

// Hash is a request's hash under policy hash: of the named parameters if the query has any, else of the path.
func Hash(path, query []byte, names []string) uint64 {
	if h, ok := HashQuery(query, names); ok {
		return h
	}
	return HashPath(path)
}

// Slot returns the surrogate of a hash, as the kernel program does. False for an empty table.
func Slot(table []uint16, h uint64) (uint16, bool) {
	if len(table) == 0 {
		return 0, false
	}
	return table[uint32(h^h>>32)%uint32(len(table))], true
}
