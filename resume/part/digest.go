package part

import (
	"bytes"
	"crypto"
	_ "crypto/sha256" // so that the algorithms of Digests are there
	_ "crypto/sha512"
	"fmt"
	"hash"
	"net/http"
	"slices"

	"github.com/dunglas/httpsfv"
)

// algorithms that are used, the one that is preferred first. Others of RFC 9530, section 5, are insecure.
var algorithms = []struct {
	name string
	hash crypto.Hash
}{
	{"sha-512", crypto.SHA512},
	{"sha-256", crypto.SHA256},
}

// Digests are digests of the same bytes, by the name of their algorithm: sha-256, sha-512 (RFC 9530).
type Digests map[string][]byte

// Fields with digests: of the whole representation, which is the same in answers with parts of it, and of the content of one answer.
const (
	ReprDigest    = "Repr-Digest"
	ContentDigest = "Content-Digest"
)

// ParseDigests reads a field with digests. What cannot be read is as if it were not there, as are algorithms that are not used.
func ParseDigests(h http.Header, name string) Digests {
	lines := h.Values(name)
	if len(lines) == 0 {
		return nil
	}
	dict, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil
	}
	d := make(Digests)
	for _, a := range algorithms {
		member, ok := dict.Get(a.name)
		if !ok {
			continue
		}
		item, ok := member.(httpsfv.Item)
		if !ok {
			continue
		}
		if sum, ok := item.Value.([]byte); ok && len(sum) == a.hash.Size() {
			d[a.name] = sum
		}
	}
	if len(d) == 0 {
		return nil
	}
	return d
}

// same compares by the algorithms that both have.
func (d Digests) same(o Digests) answer {
	result := unknown
	for name, sum := range d {
		other, ok := o[name]
		switch {
		case !ok:
		case !bytes.Equal(sum, other):
			return no
		default:
			result = yes
		}
	}
	return result
}

// Check is a digest that bytes are written to, to be compared with what was announced.
type Check struct {
	hash.Hash
	name string
	want []byte
}

// NewCheck checks the strongest of the digests. It is nil when there are none.
func NewCheck(d Digests) *Check {
	for _, a := range algorithms {
		if want, ok := d[a.name]; ok {
			return &Check{a.hash.New(), a.name, want}
		}
	}
	return nil
}

// Err is an error if the bytes that were written are not those that were announced. A nil Check has nothing against any.
func (c *Check) Err() error {
	if c == nil {
		return nil
	}
	if got := c.Sum(nil); !bytes.Equal(got, c.want) {
		return fmt.Errorf("check the digest: %s is %x, announced is %x", c.name, got, c.want)
	}
	return nil
}

// Algorithms are the names of the digests that can be checked.
func Algorithms() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	slices.Sort(names)
	return names
}
