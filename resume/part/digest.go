package part

import (
	"bytes"
	"crypto"
	_ "crypto/sha256" // registers the algorithms of Digests
	_ "crypto/sha512"
	"fmt"
	"hash"
	"net/http"

	"github.com/dunglas/httpsfv"
)

// algorithms in use, in order of preference. Others of RFC 9530, section 5, are insecure.
var algorithms = []struct {
	name string
	hash crypto.Hash
}{
	{"sha-512", crypto.SHA512},
	{"sha-256", crypto.SHA256},
}

// Digests are digests of the same bytes, by algorithm: sha-256, sha-512 (RFC 9530).
type Digests map[string][]byte

// Fields with digests: of the whole representation, which is the same in all partial answers, and of the content of one answer.
const (
	ReprDigest    = "Repr-Digest"
	ContentDigest = "Content-Digest"
)

// ParseDigests parses a field with digests. It ignores what it cannot parse, and unknown algorithms.
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

// same compares the algorithms that both have.
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

// Check computes a digest of the bytes written to it, for comparison with an announced one.
type Check struct {
	hash.Hash
	name string
	want []byte
}

// NewCheck checks the strongest of the digests. It is nil if there are none.
func NewCheck(d Digests) *Check {
	for _, a := range algorithms {
		if want, ok := d[a.name]; ok {
			return &Check{a.hash.New(), a.name, want}
		}
	}
	return nil
}

// Err returns an error if the bytes do not match the announced digest. A nil Check accepts everything.
func (c *Check) Err() error {
	if c == nil {
		return nil
	}
	if got := c.Sum(nil); !bytes.Equal(got, c.want) {
		return fmt.Errorf("check the digest: %s is %x, announced is %x", c.name, got, c.want)
	}
	return nil
}
