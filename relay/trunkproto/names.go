package trunkproto

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of relay names.
const (
	MaxName = 63 // bytes of one
	MaxHops = 8  // relays on a flow's route
)

// Names are relay names in order, joined by commas, as in a header; nil is none. Those of a parsed header alias its bytes.
type Names []byte

// ValidName reports whether a relay can have that name: 1 to [MaxName] bytes of [a-z0-9-].
func ValidName(name string) bool { return validName(name) }

func validName[T string | []byte](name T) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= MaxName
}

// JoinNames joins one or more names. The error quotes an invalid one.
func JoinNames(names ...string) (Names, error) {
	for _, name := range names {
		if !ValidName(name) {
			return nil, fmt.Errorf("join names: %q is not a valid relay name", name)
		}
	}
	return Names(strings.Join(names, ",")), nil
}

// valid reports whether these are one or more valid names.
func (n Names) valid() bool {
	for {
		first, rest := n.Cut()
		if !validName(first) {
			return false
		}
		if len(first) == len(n) {
			return true
		}
		n = rest
	}
}

// Len returns the number of names.
func (n Names) Len() int {
	if len(n) == 0 {
		return 0
	}
	return 1 + bytes.Count(n, []byte(","))
}

// Cut returns the first name and the rest, both nil for none. They alias the names.
func (n Names) Cut() (first []byte, rest Names) {
	if len(n) == 0 {
		return nil, nil
	}
	end := bytes.IndexByte(n, ',')
	if end < 0 {
		return n, nil
	}
	return n[:end:end], n[end+1:]
}

// Last returns the last name, nil for none. It aliases the names.
func (n Names) Last() []byte {
	if len(n) == 0 {
		return nil
	}
	return n[bytes.LastIndexByte(n, ',')+1:]
}

// Has reports whether a name is among them.
func (n Names) Has(name string) bool {
	for len(n) > 0 {
		var first []byte
		if first, n = n.Cut(); string(first) == name {
			return true
		}
	}
	return false
}

func (n Names) String() string { return string(n) }
