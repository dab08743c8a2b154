// Package quictest makes the packets of QUIC clients for tests, and reads those of captures. It seals by its own reading of RFC 9001,
// so that a wrong key in package quic does not open what it made itself.
package quictest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"baton/packet/quic"
)

// Client seals the packets of one connection attempt.
type Client struct {
	Version             quic.Version
	Destination, Source []byte
	Token               []byte
}

// Crypto is a CRYPTO frame.
func Crypto(offset int, data []byte) []byte {
	b := append([]byte{byte(quic.Crypto)}, Varint(uint64(offset))...)
	return append(append(b, Varint(uint64(len(data)))...), data...)
}

// Varint is the shortest variable-length integer, RFC 9000 section 16.
func Varint(v uint64) []byte {
	switch {
	case v < 1<<6:
		return []byte{byte(v)}
	case v < 1<<14:
		return binary.BigEndian.AppendUint16(nil, uint16(v)|1<<14)
	case v < 1<<30:
		return binary.BigEndian.AppendUint32(nil, uint32(v)|2<<30)
	}
	return binary.BigEndian.AppendUint64(nil, v|3<<62)
}

// Initial is a sealed Initial packet of at least size bytes: PADDING frames are added behind the others.
func (c *Client) Initial(number uint32, frames []byte, size int) []byte {
	return c.Seal(0xc3, number, frames, size)
}

// Seal makes an Initial whose first byte is, before protection and but for the type, the given one. Its low bits are the length of
// the packet number, less one.
func (c *Client) Seal(first byte, number uint32, frames []byte, size int) []byte {
	numberLength := int(first&3) + 1
	if c.Version == quic.Version2 {
		first |= 0x10
	}
	header := c.header(first)
	header = append(append(header, Varint(uint64(len(c.Token)))...), c.Token...)
	padding := max(0, size-len(header)-2-numberLength-len(frames)-16)
	frames = append(frames[:len(frames):len(frames)], make([]byte, padding)...)
	length := numberLength + len(frames) + 16
	header = binary.BigEndian.AppendUint16(header, uint16(length)|1<<14)
	at := len(header)
	header = append(header, binary.BigEndian.AppendUint32(nil, number)[4-numberLength:]...)

	key, iv, hp := c.keys()
	for i := range 4 {
		iv[11-i] ^= byte(number >> (8 * i))
	}
	packet := seal(key, iv, header, frames)
	mask := make([]byte, 16)
	block(hp).Encrypt(mask, packet[at+4:at+20])
	packet[0] ^= mask[0] & 0x0f
	for i := range numberLength {
		packet[at+i] ^= mask[1+i]
	}
	return packet
}

// ZeroRTT is a 0-RTT packet with these bytes behind its header, which nobody but the server can read.
func (c *Client) ZeroRTT(sealed []byte) []byte {
	first := byte(0xd0)
	if c.Version == quic.Version2 {
		first = 0xe0
	}
	b := append(c.header(first), Varint(uint64(len(sealed)))...)
	return append(b, sealed...)
}

func (c *Client) header(first byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{first}, uint32(c.Version))
	b = append(append(b, byte(len(c.Destination))), c.Destination...)
	return append(append(b, byte(len(c.Source))), c.Source...)
}

func (c *Client) keys() (key, iv, hp []byte) {
	salt, prefix := "38762cf7f55934b34d179ae6a4c80cadccbb7f0a", "quic "
	if c.Version == quic.Version2 {
		salt, prefix = "0dede3def700a6db819381be6e269dcbf9bd2ed9", "quicv2 "
	}
	secret := expand(mac(Hex(salt), c.Destination), "client in", 32)
	return expand(secret, prefix+"key", 16), expand(secret, prefix+"iv", 12), expand(secret, prefix+"hp", 16)
}

// expand is HKDF-Expand-Label for one block of output, RFC 8446 section 7.1 and RFC 5869 section 2.3.
func expand(secret []byte, label string, length int) []byte {
	info := append([]byte{0, byte(length), byte(6 + len(label))}, "tls13 "+label...)
	return mac(secret, append(info, 0, 1))[:length]
}

func mac(key, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil)
}

func block(key []byte) cipher.Block {
	b, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the keys above have its length
	}
	return b
}

func seal(key, iv, header, frames []byte) []byte {
	aead, err := cipher.NewGCM(block(key))
	if err != nil {
		panic(err) // AES has its block size
	}
	return aead.Seal(header, iv, frames, header)
}

// Hex reads hexadecimal digits.
func Hex(digits string) []byte {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err) // a test's own text
	}
	return b
}
