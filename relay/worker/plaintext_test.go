package worker

import (
	"bytes"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// hello opens a connection to the last relay's listener for trunks in the clear, and hears what it says.
func (c *chain) hello() (*net.TCPConn, trunkproto.Hello) {
	c.t.Helper()
	conn := c.dialTrunkListener()
	b := make([]byte, trunkproto.HelloSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		c.t.Fatal(err)
	}
	h, _, err := trunkproto.ParseHello(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return conn, h
}

// header is a relay's that opens a trunk to r1 for a flow to the test's server.
func (c *chain) header(hello *trunkproto.Hello, s *trunkproto.Sealer) []byte {
	c.t.Helper()
	at := addrOf(c.server)
	h := trunkproto.Header{Client: at, Server: at, Via: trunkproto.Names("r1")}
	b, err := h.Append(nil, "r7", hello, s)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// Who opens trunks in the clear must know the secret, and have sealed the header for the trunk at hand: what was heard on another one, or
// a hello that somebody else repeats, is of no use. No server hears of the rest.
func TestOpenersOfPlaintextTrunks(t *testing.T) {
	c := newChain(t, 1, nil)
	sealer := trunkproto.NewSealer(secret.Secret)
	first, hello := c.hello()
	good := c.header(&hello, sealer)
	refused := func(name string, header func(*trunkproto.Hello) []byte) {
		t.Helper()
		conn, hello := c.hello()
		if _, err := conn.Write(header(&hello)); err != nil {
			t.Fatal(err)
		}
		if a := c.answer(conn); a.Status != trunkproto.BadHeader {
			t.Errorf("%s: got %v", name, a.Status)
		}
		expectEnd(t, conn, io.EOF)
		conn.Close()
	}
	replay := func(*trunkproto.Hello) []byte { return good }
	refused("another secret", func(h *trunkproto.Hello) []byte {
		return c.header(h, trunkproto.NewSealer([]byte("another secret, of 32 bytes too!")))
	})
	refused("no seal", func(h *trunkproto.Hello) []byte { return c.header(h, nil) })
	refused("a header for another trunk", replay)
	refused("no header", func(*trunkproto.Hello) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") })
	refused("a name on the route changed", func(h *trunkproto.Hello) []byte {
		return bytes.Replace(c.header(h, sealer), []byte("r7"), []byte("r8"), 1)
	})
	if n := c.sum(func(w *Worker) uint64 { return w.count.BadTrunkHeaders.Load() }); n != 5 {
		t.Errorf("%d headers are counted as bad, want 5", n)
	}

	if _, err := first.Write(append(bytes.Clone(good), "x"...)); err != nil {
		t.Fatal(err)
	}
	if a := c.answer(first); a.Status != trunkproto.Connected {
		t.Fatalf("got %v", a.Status)
	}
	server := c.accept()
	expectRead(t, server, "x")
	refused("a header that was used", replay)
	if _, err := first.Write(good); err != nil { // on its own trunk it is the flow's bytes
		t.Fatal(err)
	}
	expectRead(t, server, string(good))
	first.Close()
	expectEnd(t, server, io.EOF)
	server.Close()
	c.settled()
	if n := c.sum(func(w *Worker) uint64 { return w.count.Flows.Load() }); n != 7 {
		t.Errorf("%d flows, want 7", n)
	}
}

// Headers that are cut leave nothing.
func TestCutHeaders(t *testing.T) {
	c := newChain(t, 1, nil)
	for i := range 40 {
		conn, hello := c.hello()
		header := c.header(&hello, trunkproto.NewSealer(secret.Secret))
		say(t, conn, string(header[:1+i%(len(header)-1)]))
		if i%2 > 0 {
			reset(t, conn)
			continue
		}
		_ = conn.CloseWrite()
		expectEnd(t, conn, io.EOF)
	}
	c.noneWaits()
	c.settled()
}

// Nobody waits for a header that stalls for longer than its deadline.
func TestStalledHeaders(t *testing.T) {
	c := newChain(t, 1, func(_ int, cfg *config.Config) { cfg.Timeouts.Header = soon / 50 })
	const stalled = 20
	for i := range stalled {
		conn, hello := c.hello()
		header := c.header(&hello, trunkproto.NewSealer(secret.Secret))
		say(t, conn, string(header[:1+i]))
		defer expectEnd(t, conn, unix.ECONNRESET)
	}
	c.noneWaits()
	if n := c.sum(func(w *Worker) uint64 { return w.count.Expired[waitHeader].Load() }); n != stalled {
		t.Errorf("%d deadlines were met, want %d", n, stalled)
	}
	c.settled()
}

// noneWaits waits until no other relay's trunk is without a flow.
func (c *chain) noneWaits() {
	c.t.Helper()
	eventually(c.t, "no trunk is left", func() bool {
		return c.sum(func(w *Worker) uint64 { return uint64(w.count.Waiting.Load()) }) == 0
	})
}

// A trunk whose acceptor says more than its hello at once is not kept, FIN or not: no event tells of that a second time.
func TestMoreThanHello(t *testing.T) {
	far := listenTCP(t)
	c := newChain(t, 2, func(hop int, cfg *config.Config) {
		if hop == 1 {
			cfg.Peers[0].Address = addrOf(far)
		}
	})
	go func() {
		for {
			conn, err := far.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				hello := trunkproto.NewHello([trunkproto.NonceSize]byte{1})
				_, _ = conn.Write(append(hello[:], "x"...))
				_, _ = io.Copy(io.Discard, conn) // until the relay has gone
			}()
		}
	}()
	c.openAtOnce(10)
	c.noneIsReady()
	if n := c.pools(func(p *PoolCounters) uint64 { return p.Stale.Load() }); n == 0 {
		t.Error("no trunk has become ready: nothing was tested")
	}
	c.settled()
}
