package secure

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"baton/relay/secure/securetest"
)

// withRogue is a pair behind its handshake, with one that speaks for the opener.
func withRogue(t testing.TB) (*pair, *securetest.Rogue) {
	t.Helper()
	var log bytes.Buffer
	p := newPair(t, identitiesOnce(t), identitiesOnce(t))
	cfg := identitiesOnce(t).now.Load().open.Clone()
	cfg.ServerName, cfg.KeyLogWriter, cfg.ClientSessionCache = "r2", &log, nil
	p.opener = p.other(cfg, true)
	if a, b := p.shake(); a != nil || b != nil {
		t.Fatalf("handshake: opener: %v, acceptor: %v", a, b)
	}
	return p, securetest.NewRogue(t, p.opener.tls.ConnectionState(), log.String())
}

// A key is changed in the middle of a flow, by the peer for its own bytes and for ours, and no byte is lost, whatever the pieces.
func TestKeyUpdate(t *testing.T) {
	for _, answer := range []bool{false, true} {
		for piece := 1; piece < 200; piece += 13 {
			p, r := withRogue(t)
			var wire, want []byte
			for i := range 5 {
				text := bytes.Repeat([]byte{byte('a' + i)}, 50)
				wire = append(append(wire, r.Say(text)...), r.KeyUpdate(answer)...)
				want = append(want, text...)
			}
			wire = append(wire, r.End()...)
			var got []byte
			b := make([]byte, Most)
			var err error
			rounds := 0
			for ; len(wire) > 0 && err == nil; rounds++ {
				n := min(piece, len(wire))
				p.acceptor.Feed(wire[:n])
				wire = wire[n:]
				n, err = p.acceptor.Read(b)
				got = append(got, b[:n]...)
				write(t, p.acceptor, []byte("x"))
			}
			if _, err = p.acceptor.Read(b); err != io.EOF || !bytes.Equal(got, want) {
				t.Errorf("pieces of %d: got %q, %v, want %q and its end", piece, got, err, want)
			}
			records := bytes.Count(p.acceptor.Pending(), []byte{23, 3, 3, 0})
			if answers := records - rounds; answers != 0 && !answer || answers != 5 && answer {
				t.Errorf("pieces of %d: %d key updates were answered, asked for: %t", piece, answers, answer)
			}
			back, err := p.pass(p.acceptor, p.opener)
			if err != nil || string(back) != strings.Repeat("x", rounds) {
				t.Errorf("pieces of %d: the other direction: %q, %v", piece, back, err)
			}
		}
	}
}

// A peer that has its key updates answered, and does not take the answers, is cut off: they would fill the memory.
func TestAnswersAreBounded(t *testing.T) {
	p, r := withRogue(t)
	b := make([]byte, Most)
	for range 1 << 16 {
		p.acceptor.Feed(append(r.KeyUpdate(true), r.Say([]byte("x"))...)) // with a byte each, no count of crypto/tls's is reached
		_, err := p.acceptor.Read(b)
		if n := len(p.acceptor.Pending()); n > mostPending+Most {
			t.Fatalf("%d bytes of answers are pending", n)
		}
		if err == ErrNotReading {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("answers without end")
}
