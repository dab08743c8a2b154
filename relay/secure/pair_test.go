package secure

import (
	"bytes"
	"crypto/tls"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"baton/relay/config"
	"baton/relay/secure/securetest"
)

const soon = 10 * time.Second // for what takes milliseconds on a machine that is not busy

// identities makes the identities of two relays, of one authority, by name.
func identities(t testing.TB) (r1, r2 *Identity) {
	t.Helper()
	a := securetest.NewAuthority(t)
	r1 = identity(t, a.Issue(t, securetest.Certificate{Names: []string{"r1"}}))
	r2 = identity(t, a.Issue(t, securetest.Certificate{Names: []string{"r2"}}))
	return r1, r2
}

func identity(t testing.TB, c config.Credentials) *Identity {
	t.Helper()
	var all Identities
	if err := all.Load(&config.Config{Trunks: &config.Trunks{Credentials: c}}); err != nil {
		t.Fatal(err)
	}
	i, err := all.Of(&c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// pair is the two ends of a trunk, and what carries their ciphertext.
type pair struct {
	t                testing.TB
	buffers          Buffers
	opener, acceptor *Conn
	told             chan struct{}
	piece            func() int // bytes of ciphertext that come at a time
}

func newPair(t testing.TB, opener, acceptor *Identity) *pair {
	p := &pair{t: t, told: make(chan struct{}, 1), piece: func() int { return 64 << 10 }}
	p.opener, p.acceptor = opener.Open("r2", &p.buffers), acceptor.Accept(&p.buffers)
	return p
}

// established is a pair behind its handshake.
func established(t testing.TB) *pair {
	t.Helper()
	p := newPair(t, identitiesOnce(t), identitiesOnce(t))
	if a, b := p.shake(); a != nil || b != nil {
		t.Fatalf("handshake: opener: %v, acceptor: %v", a, b)
	}
	return p
}

// identitiesOnce is one relay that talks to itself, for tests that are not about certificates.
func identitiesOnce(t testing.TB) *Identity {
	t.Helper()
	if self == nil {
		self = identity(t, securetest.NewAuthority(t).Issue(t, securetest.Certificate{Names: []string{"r1", "r2"}}))
	}
	return self
}

var self *Identity

func (p *pair) tell() {
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// carry moves what one end has to send to the other, who does not read it yet.
func (p *pair) carry(from, to *Conn) {
	for out := from.Pending(); len(out) > 0; out = from.Pending() {
		n := min(len(out), p.piece(), to.FeedLimit(1<<20))
		if n == 0 {
			return
		}
		to.Feed(bytes.Clone(out[:n]))
		from.Sent(n)
	}
}

// shake does the handshake of both ends, and gives how it ended.
func (p *pair) shake() (opener, acceptor error) {
	p.t.Helper()
	gate := NewGate(1)
	p.opener.Begin(gate, p.tell)
	p.acceptor.Begin(gate, p.tell)
	deadline := time.After(soon)
	for {
		opened, err := p.opener.Established()
		opener = err
		p.carry(p.opener, p.acceptor)
		accepted, err := p.acceptor.Established()
		acceptor = err
		p.carry(p.acceptor, p.opener)
		if opened && accepted {
			if opener == nil { // the acceptor's verdict comes behind the opener's handshake
				_, opener = p.opener.Read(make([]byte, 1))
			}
			return opener, acceptor
		}
		select {
		case <-p.told:
		case <-deadline:
			p.t.Fatalf("the handshake is not over: opened %t, accepted %t", opened, accepted)
		}
	}
}

// pass moves what one end has to send to the other, and gives the plaintext and how it ended.
func (p *pair) pass(from, to *Conn) (plain []byte, err error) {
	p.t.Helper()
	in, b := make([]byte, 1<<20), make([]byte, Most)
	for out := from.Pending(); len(out) > 0 || to.More(); out = from.Pending() {
		var fed []byte
		if !to.More() {
			fed = in[:copy(in, out[:min(len(out), p.piece(), to.FeedLimit(len(b)))])]
			to.Feed(fed)
			from.Sent(len(fed))
		}
		n, err := to.Read(b)
		clear(fed) // it is ours again
		plain = append(plain, b[:n]...)
		if err != nil {
			return plain, err
		}
	}
	return plain, nil
}

func write(t testing.TB, c *Conn, b []byte) {
	t.Helper()
	if err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", soon, what)
		}
	}
}

// goroutines calls do, and waits until it has left none.
func goroutines(t *testing.T, do func()) {
	t.Helper()
	before := runtime.NumGoroutine()
	do()
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

func random(r *rand.ChaCha8, n int) []byte {
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

// other makes an end with a configuration of one's own.
func (p *pair) other(cfg *tls.Config, opens bool) *Conn {
	c := newConn(&p.buffers)
	if opens {
		c.tls = tls.Client(&c.memory, cfg)
	} else {
		c.tls = tls.Server(&c.memory, cfg)
	}
	return c
}
