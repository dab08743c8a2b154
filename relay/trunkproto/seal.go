package trunkproto

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
)

// sealLabel separates header seals from other uses of the same secret.
var sealLabel = []byte("baton trunk header\x00")

// Sealer makes and verifies the seals of one secret. It must not be used concurrently: each worker has its own.
type Sealer struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// NewSealer returns a sealer for a secret of at least 32 random bytes that both relays share. It copies the secret.
func NewSealer(secret []byte) *Sealer { return &Sealer{mac: hmac.New(sha256.New, secret)} }

// seal returns the seal of a header up to the seal's value. It is valid until the next call.
func (s *Sealer) seal(hello *Hello, header []byte) []byte {
	s.mac.Reset()
	s.mac.Write(sealLabel)
	s.mac.Write(hello[:])
	s.mac.Write(header)
	return s.mac.Sum(s.sum[:0])
}

// opens reports whether a header that ends with a seal was sealed for the trunk with that hello.
func (s *Sealer) opens(hello *Hello, header []byte) bool {
	at := len(header) - sha256.Size
	if at < prefixSize+tlvSize || header[at-3] != typeSeal || wire.Uint16(header[at-2:]) != sha256.Size {
		return false
	}
	return hmac.Equal(s.seal(hello, header[:at]), header[at:])
}
