package quic

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
)

// What the keys of a version's Initial packets are made from: RFC 9001 section 5.2, RFC 9369 section 3.3.
type schedule struct {
	salt        []byte
	key, iv, hp string
}

var (
	schedule1 = schedule{
		salt: []byte{0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a},
		key:  label("quic key", keyLength), iv: label("quic iv", ivLength), hp: label("quic hp", keyLength),
	}
	schedule2 = schedule{
		salt: []byte{0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9},
		key:  label("quicv2 key", keyLength), iv: label("quicv2 iv", ivLength), hp: label("quicv2 hp", keyLength),
	}
	clientIn = label("client in", sha256.Size)
)

// Of AEAD_AES_128_GCM, and of its header protection.
const (
	keyLength    = 16
	ivLength     = 12
	sampleLength = 16
	numberLength = 4 // bytes of the longest packet number; the sample begins behind as many
)

// label is the info of HKDF-Expand-Label without a context, RFC 8446 section 7.1.
func label(name string, length int) string {
	name = "tls13 " + name
	return string([]byte{byte(length >> 8), byte(length), byte(len(name))}) + name + "\x00"
}

// Why an Initial cannot be read.
var (
	// ErrForged says that the packet does not open with the keys of its connection id: a server drops it too.
	ErrForged = errors.New("open QUIC Initial: forged or damaged")
	// ErrReserved says that bits of the header are set that must not be, RFC 9000 section 17.2.
	ErrReserved = errors.New("open QUIC Initial: reserved bits are set")
)

// Keys open a client's Initial packets. They follow from the version and from the destination connection id of its first one. They
// are not safe for concurrent use.
type Keys struct {
	aead   cipher.AEAD
	hp     cipher.Block
	iv     [ivLength]byte
	header []byte // of the packet that was last opened, without protection
	mask   [sampleLength]byte
	nonce  [ivLength]byte
}

// ClientKeys derives the keys of a client's Initial packets. The version must be known.
func ClientKeys(v Version, destination []byte) (*Keys, error) {
	s := &schedule1
	switch v {
	case Version1:
	case Version2:
		s = &schedule2
	default:
		return nil, fmt.Errorf("derive QUIC keys: version %#x is not known", uint32(v))
	}
	initial, err := hkdf.Extract(sha256.New, destination, s.salt)
	if err != nil {
		return nil, fmt.Errorf("derive QUIC keys: %w", err)
	}
	secret, err := hkdf.Expand(sha256.New, initial, clientIn, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive QUIC keys: %w", err)
	}
	k := new(Keys)
	if err := k.derive(secret, s); err != nil {
		return nil, fmt.Errorf("derive QUIC keys: %w", err)
	}
	return k, nil
}

func (k *Keys) derive(secret []byte, s *schedule) error {
	key, err := hkdf.Expand(sha256.New, secret, s.key, keyLength)
	if err != nil {
		return err
	}
	iv, err := hkdf.Expand(sha256.New, secret, s.iv, ivLength)
	if err != nil {
		return err
	}
	hp, err := hkdf.Expand(sha256.New, secret, s.hp, keyLength)
	if err != nil {
		return err
	}
	copy(k.iv[:], iv)
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	k.hp, err = aes.NewCipher(hp)
	return err
}

// Open removes the protection of an Initial packet, appends its frames to into, and gives its packet number. The number is the one
// in the packet: nobody has acknowledged any to a client whose Initials are still read, so that it is not cut (RFC 9000 section
// 17.1). On an error the extended slice is into, though bytes behind it may have changed.
func (k *Keys) Open(into []byte, p *Packet) (frames []byte, number uint32, err error) {
	if p.Kind != Initial || len(p.Bytes)-p.number < numberLength+sampleLength {
		return into, 0, ErrForged
	}
	k.hp.Encrypt(k.mask[:], p.Bytes[p.number+numberLength:][:sampleLength]) // RFC 9001 section 5.4
	first := p.Bytes[0] ^ k.mask[0]&0x0f
	end := p.number + 1 + int(first&3)
	k.header = append(k.header[:0], p.Bytes[:end]...)
	k.header[0] = first
	for i := p.number; i < end; i++ {
		k.header[i] ^= k.mask[1+i-p.number]
		number = number<<8 | uint32(k.header[i])
	}
	k.nonce = k.iv
	for i := range 4 {
		k.nonce[ivLength-1-i] ^= byte(number >> (8 * i))
	}
	frames, err = k.aead.Open(into, k.nonce[:], p.Bytes[end:], k.header)
	if err != nil {
		return into, 0, ErrForged
	}
	if first&0x0c != 0 {
		return into, 0, ErrReserved
	}
	return frames, number, nil
}
