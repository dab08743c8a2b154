package trunkproto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version of the protocol that this package speaks, the only one.
const Version = 1

// Sizes of a hello and of its nonce, in bytes.
const (
	HelloSize = 24
	NonceSize = 16
)

const helloMagic = "BTNR"

var wire = binary.BigEndian

// ErrVersion says that the peer speaks no version of the protocol that is spoken here.
var ErrVersion = errors.New("no common version of the trunk protocol")

// Malformed is why bytes are not what they should be.
type Malformed struct {
	What   string // hello, header, answer
	Reason string
}

func (e *Malformed) Error() string { return "read the " + e.What + ": " + e.Reason }

// Hello is what the acceptor of a trunk says first, as it is on the wire. Both ends keep it until the header: the seal covers it.
type Hello [HelloSize]byte

// NewHello returns the hello for one trunk. The nonce must come from a cryptographic source and be used once.
func NewHello(nonce [NonceSize]byte) Hello {
	var h Hello
	copy(h[:], helloMagic)
	h[4], h[5] = Version, Version
	copy(h[HelloSize-NonceSize:], nonce[:])
	return h
}

// ParseHello reads a hello from the bytes that have come. n is how many of them it takes, 0 while more are needed. The error is
// [ErrVersion] or a [*Malformed], as soon as it is certain.
func ParseHello(b []byte) (h Hello, n int, err error) {
	if m := min(len(b), len(helloMagic)); string(b[:m]) != helloMagic[:m] {
		return Hello{}, 0, &Malformed{"hello", "what answers is no relay"}
	}
	if len(b) < HelloSize {
		return Hello{}, 0, nil
	}
	if newest, oldest := b[4], b[5]; newest < Version || oldest > Version {
		return Hello{}, 0, fmt.Errorf("read the hello: %w: the acceptor speaks %d to %d, this relay %d", ErrVersion, oldest, newest, Version)
	}
	return Hello(b), HelloSize, nil
}
