package zone

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// A Key is a name in wire form (RFC 1035, section 3.1), in lower case. Keys of equal names are equal, whatever escapes their texts have.
type Key string

// Root is the name of the root.
const Root Key = "\x00"

// KeyOf returns the key of an absolute name.
func KeyOf(name string) (Key, error) {
	wire := make([]byte, maxName)
	n, err := dns.PackDomainName(name, wire, 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("%q is not a domain name", name)
	}
	Lower(wire[:n])
	return Key(wire[:n]), nil
}

const maxName = 255

// Lower makes the letters of a name in wire form small. Lengths of labels are below 'A'.
func Lower(wire []byte) {
	for i, c := range wire {
		if c-'A' < 26 {
			wire[i] = c + ('a' - 'A')
		}
	}
}

// Parent is the name without its first label. The root has none.
func (k Key) Parent() Key { return k[1+int(k[0]):] }

// Within reports whether k is zone, or below it.
func (k Key) Within(zone Key) bool {
	for len(k) > len(zone) {
		k = k.Parent()
	}
	return k == zone
}

// Wild is the wildcard below a name.
func (k Key) Wild() Key { return "\x01*" + k }

// IsWild reports whether the first label is an asterisk.
func (k Key) IsWild() bool { return strings.HasPrefix(string(k), "\x01*") }

// String is the name as text, absolute.
func (k Key) String() string {
	name, _, err := dns.UnpackDomainName([]byte(k), 0)
	if err != nil {
		return fmt.Sprintf("%q", string(k))
	}
	return name
}
