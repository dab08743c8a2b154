package trunkproto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version of the protocol, the only one so far.
const Version = 1

// Sizes of a hello and of its nonce, in bytes.
const (
	HelloSize = 24
	NonceSize = 16
)

const helloMagic = "BTNR"

var wire = binary.BigEndian

// ErrVersion means that the peer has no version in common.
var ErrVersion = errors.New("no common version of the trunk protocol")

// Malformed is an error in the format of received bytes.
type Malformed struct {
	What   string // hello, header, answer
	Reason string
}

func (e *Malformed) Error() string { return "read the " + e.What + ": " + e.Reason }

// Hello is what the acceptor of a trunk sends first, in wire format. Both ends keep it until the header, as the seal covers it.
type Hello [HelloSize]byte

// NewHello returns the hello for one trunk. The nonce must come from a cryptographic source and be used once.
func NewHello(nonce [NonceSize]byte) Hello {
	var h Hello
	copy(h[:], helloMagic)
	h[4], h[5] = Version, Version
	copy(h[HelloSize-NonceSize:], nonce[:])
	return h
}

// ParseHello parses a hello from the received bytes. n is its length, 0 while more bytes are needed. The error is [ErrVersion] or a
// [*Malformed], as soon as it is certain.
func ParseHello(b []byte) (h Hello, n int, err error) {
	if m := min(len(b), len(helloMagic)); string(b[:m]) != helloMagic[:m] {
		return Hello{}, 0, &Malformed{"hello", "the peer is not a relay"}
	}
	if len(b) < HelloSize {
		return Hello{}, 0, nil
	}
	if newest, oldest := b[4], b[5]; newest < Version || oldest > Version {
		return Hello{}, 0, fmt.Errorf("read the hello: %w: the acceptor supports %d to %d, this relay %d", ErrVersion, oldest, newest, Version)
	}
	return Hello(b), HelloSize, nil
}
