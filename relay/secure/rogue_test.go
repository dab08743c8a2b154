package secure

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

// rogue is an opener whose records the test makes itself: crypto/tls says what a peer may say besides its bytes only when it is asked.
type rogue struct {
	t      testing.TB
	secret []byte // of what it says
	aead   cipher.AEAD
	iv     []byte
	number uint64 // of the next record
}

// newRogue is a pair behind its handshake, with what the opener's side needs to speak for itself.
func newRogue(t testing.TB) (*pair, *rogue) {
	t.Helper()
	var log bytes.Buffer
	p := newPair(t, identitiesOnce(t), identitiesOnce(t))
	cfg := identitiesOnce(t).now.Load().open.Clone()
	cfg.ServerName, cfg.KeyLogWriter = "r2", &log
	cfg.ClientSessionCache = nil
	p.opener = p.other(cfg, true)
	if a, b := p.shake(); a != nil || b != nil {
		t.Fatalf("handshake: opener: %v, acceptor: %v", a, b)
	}
	if suite := p.opener.tls.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("SKIP: %s is negotiated here, the test's records are AES-128-GCM's", tls.CipherSuiteName(suite))
	}
	for line := range strings.Lines(log.String()) {
		if f := strings.Fields(line); f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(f[2])
			if err != nil {
				t.Fatal(err)
			}
			r := &rogue{t: t}
			r.rekey(secret)
			return p, r
		}
	}
	t.Fatal("no secret was logged")
	return nil, nil
}

// expand is HKDF-Expand-Label with SHA-256 (RFC 8446, section 7.1).
func expand(t testing.TB, secret []byte, label string, size int) []byte {
	t.Helper()
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(append(info, "tls13 "+label...), 0)
	out, err := hkdf.Expand(sha256.New, secret, string(info), size)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *rogue) rekey(secret []byte) {
	block, err := aes.NewCipher(expand(r.t, secret, "key", 16))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.aead, err = cipher.NewGCM(block); err != nil {
		r.t.Fatal(err)
	}
	r.secret, r.iv, r.number = secret, expand(r.t, secret, "iv", 12), 0
}

// Types of what is in a record (RFC 8446, section 5.1).
const (
	alert       = 21
	handshaking = 22
	application = 23
)

// record is one, encrypted (RFC 8446, section 5.2).
func (r *rogue) record(kind byte, plain []byte) []byte {
	nonce := bytes.Clone(r.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(r.number >> (56 - 8*i))
	}
	r.number++
	header := binary.BigEndian.AppendUint16([]byte{application, 3, 3}, uint16(len(plain)+1+r.aead.Overhead()))
	return r.aead.Seal(header, nonce, append(bytes.Clone(plain), kind), header)
}

// keyUpdate is the message, and the key is another one behind it.
func (r *rogue) keyUpdate(answer bool) []byte {
	message := []byte{24, 0, 0, 1, 0}
	if answer {
		message[4] = 1
	}
	out := r.record(handshaking, message)
	r.rekey(expand(r.t, r.secret, "traffic upd", sha256.Size))
	return out
}

// A key is changed in the middle of a flow, by the peer for its own bytes and for ours, and no byte is lost, whatever the pieces.
func TestKeyUpdate(t *testing.T) {
	for _, answer := range []bool{false, true} {
		for piece := 1; piece < 200; piece += 13 {
			p, r := newRogue(t)
			var wire, want []byte
			for i := range 5 {
				text := bytes.Repeat([]byte{byte('a' + i)}, 50)
				wire = append(wire, r.record(application, text)...)
				wire = append(wire, r.keyUpdate(answer)...)
				want = append(want, text...)
			}
			wire = append(wire, r.record(alert, []byte{1, 0})...)
			var got []byte
			b := make([]byte, Most)
			var err error
			for len(wire) > 0 && err == nil {
				n := min(piece, len(wire))
				p.acceptor.Feed(wire[:n])
				wire = wire[n:]
				n, err = p.acceptor.Read(b)
				got = append(got, b[:n]...)
				write(t, p.acceptor, []byte("x"))
			}
			if _, err = p.acceptor.Read(b); err == nil || !bytes.Equal(got, want) {
				t.Errorf("pieces of %d: got %q, %v, want %q and its end", piece, got, err, want)
			}
			said := p.acceptor.Said()
			back, err := p.pass(p.acceptor, p.opener)
			if err != nil || len(back) == 0 || strings.Trim(string(back), "x") != "" {
				t.Errorf("pieces of %d: the other direction: %q, %v", piece, back, err)
			}
			if answered := p.opener.Said() > 0 && said > 0; !answered {
				t.Error("nothing was said")
			}
		}
	}
}

// A peer that has its key updates answered, and does not take the answers, is cut off: they would fill the memory.
func TestAnswersAreBounded(t *testing.T) {
	p, r := newRogue(t)
	b := make([]byte, Most)
	for range 1 << 16 {
		p.acceptor.Feed(append(r.keyUpdate(true), r.record(application, []byte("x"))...)) // with a byte each, no count of crypto/tls's is reached
		_, err := p.acceptor.Read(b)
		if n := len(p.acceptor.Pending()); n > mostPending+Most {
			t.Fatalf("%d bytes of answers are pending", n)
		}
		if err == ErrUntaken {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("answers without end")
}
