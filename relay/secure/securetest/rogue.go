package securetest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
)

// Rogue makes arbitrary records of a TLS client after its handshake, which crypto/tls cannot. It knows TLS_AES_128_GCM_SHA256.
type Rogue struct {
	t      testing.TB
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	number uint64 // of the next record
}

// NewRogue continues for a client that has written its secrets to a log (tls.Config.KeyLogWriter), and nothing after its handshake.
func NewRogue(t testing.TB, s tls.ConnectionState, log string) *Rogue {
	t.Helper()
	if s.CipherSuite != tls.TLS_AES_128_GCM_SHA256 { // RFC 8446, section 9.1: mandatory
		t.Fatalf("%s is negotiated, the test's records are AES-128-GCM's", tls.CipherSuiteName(s.CipherSuite))
	}
	for line := range strings.Lines(log) {
		if f := strings.Fields(line); f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(f[2])
			if err != nil {
				t.Fatal(err)
			}
			r := &Rogue{t: t}
			r.rekey(secret)
			return r
		}
	}
	t.Fatal("no secret was logged")
	return nil
}

// expand is HKDF-Expand-Label with SHA-256 (RFC 8446, section 7.1).
func (r *Rogue) expand(secret []byte, label string, size int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(append(info, "tls13 "+label...), 0)
	out, err := hkdf.Expand(sha256.New, secret, string(info), size)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *Rogue) rekey(secret []byte) {
	block, err := aes.NewCipher(r.expand(secret, "key", 16))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.aead, err = cipher.NewGCM(block); err != nil {
		r.t.Fatal(err)
	}
	r.secret, r.iv, r.number = secret, r.expand(secret, "iv", 12), 0
}

// Content types of records (RFC 8446, section 5.1).
const (
	alert       = 21
	handshake   = 22
	application = 23
)

// record returns an encrypted record (RFC 8446, section 5.2).
func (r *Rogue) record(kind byte, plain []byte) []byte {
	nonce := bytes.Clone(r.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(r.number >> (56 - 8*i))
	}
	r.number++
	header := binary.BigEndian.AppendUint16([]byte{application, 3, 3}, uint16(len(plain)+1+r.aead.Overhead()))
	return r.aead.Seal(header, nonce, append(bytes.Clone(plain), kind), header)
}

// Say returns at most 16 KiB of data as a record.
func (r *Rogue) Say(b []byte) []byte { return r.record(application, b) }

// End returns close_notify.
func (r *Rogue) End() []byte { return r.record(alert, []byte{1, 0}) }

// KeyUpdate changes the key of what follows, and may ask the peer to change its own.
func (r *Rogue) KeyUpdate(answer bool) []byte {
	message := []byte{24, 0, 0, 1, 0}
	if answer {
		message[4] = 1
	}
	out := r.record(handshake, message)
	r.rekey(r.expand(r.secret, "traffic upd", sha256.Size))
	return out
}
