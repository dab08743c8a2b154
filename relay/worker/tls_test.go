package worker

import (
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// Handshakes that stall end by their deadline; however many there are, a relay that means it gets its trunk.
func TestStalledHandshakes(t *testing.T) {
	c := newChainOf(t, config.TLS, 1, func(_ int, cfg *config.Config) { cfg.Timeouts.Header = soon / 8 })
	before := runtime.NumGoroutine()
	const stalled = 2 * (mostTLSHandshakes + 50) // of two workers
	for i := range stalled {
		conn := c.dialTrunkListener()
		if i%10 > 0 { // some say nothing at all
			say(t, conn, "\x16\x03\x01\x02\x00\x01\x00")
		}
		if i%50 == 0 {
			conn, _ := c.openTrunk(c.tlsConfig("r7", nil), "r7")
			if a := c.answer(conn); a.Status != trunkproto.Connected {
				t.Fatalf("got %v", a.Status)
			}
			c.accept().Close()
			conn.Close()
		}
	}
	if c.handshakes() == 0 {
		t.Error("no handshake had to end for another: nothing was tested")
	}
	if n := runtime.NumGoroutine() - before; n > 2*mostTLSHandshakes+20 {
		t.Errorf("%d goroutines for %d handshakes", n, stalled)
	}
	c.noneWaits()
	if n := c.sum(func(w *Worker) uint64 { return w.count.Expired[waitHeader].Load() }); n == 0 {
		t.Error("no deadline was met: nothing was tested")
	}
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	c.settled()
}

// A trunk whose acceptor stalls in its handshake is given up, and the flow that waits for it is turned away.
func TestStalledAcceptor(t *testing.T) {
	far := listenTCP(t)
	c := newChainOf(t, config.TLS, 2, func(hop int, cfg *config.Config) {
		if hop == 1 {
			cfg.Peers[0].Address = addrOf(far) // accepts by its backlog, and says nothing
			cfg.Timeouts.Connect = 100 * time.Millisecond
		}
	})
	c.refused()
	c.settled()
}

// Thousands of trunks that are opened and closed, at every stage and from both sides, leave nothing.
func TestTrunksLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		c := newChainOf(t, config.TLS, 1, nil)
		cfg := c.tlsConfig("r7", func(cfg *tls.Config) { cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1) })
		var opening errgroup.Group
		opening.SetLimit(16)
		var hellos atomic.Int64
		for i := range 2000 {
			opening.Go(func() error {
				raw, err := net.Dial("tcp", c.trunkListeners[0].String())
				if err != nil {
					return err
				}
				defer raw.Close()
				_ = raw.SetDeadline(time.Now().Add(soon))
				if i%2 == 0 {
					_ = raw.(*net.TCPConn).SetLinger(0)
				}
				stage := i % 10
				if stage > 4 {
					return nil
				}
				if stage > 2 {
					b := make([]byte, i%700)
					_, _ = rand.Read(b)
					_, err := raw.Write(append([]byte{22, 3, 1}, b...))
					return err
				}
				conn := tls.Client(raw, cfg)
				if err := conn.Handshake(); err != nil || stage == 0 {
					return err
				}
				if _, err := io.ReadFull(conn, make([]byte, trunkproto.HelloSize)); err != nil {
					return err
				}
				hellos.Add(1)
				if stage == 1 {
					_, err = conn.Write([]byte("\r\n\r\n\x00"))
				}
				return err
			})
		}
		if err := opening.Wait(); err != nil {
			t.Error(err)
		}
		if n := hellos.Load(); n != 400 {
			t.Errorf("%d hellos were heard, want 400", n)
		}
		c.noneWaits()
		c.settled()
	})
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// So do the trunks that a relay opens, whatever the acceptor does with them.
func TestOpenedTrunksLeaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		far := listenTCP(t)
		c := newChainOf(t, config.TLS, 2, func(hop int, cfg *config.Config) {
			if hop == 1 {
				cfg.Peers[0].Address = addrOf(far)
				cfg.Timeouts.Connect = soon / 20
			}
		})
		cfg := c.tlsConfig("r2", nil)
		var accepting sync.WaitGroup
		accepting.Go(func() {
			for i := 0; ; i++ {
				raw, err := far.Accept()
				if err != nil {
					return
				}
				accepting.Go(func() { forsake(raw, cfg, i%7) })
			}
		})
		for range 50 {
			c.openAtOnce(10)
		}
		c.noneIsReady()
		if n := c.pools(func(p *PoolCounters) uint64 { return p.Opened.Load() }); n == 0 {
			t.Error("no trunk was opened")
		}
		far.Close()
		accepting.Wait()
		c.settled()
	})
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// openAtOnce has each of the first relay's workers open so many trunks besides those that it wants.
func (c *chain) openAtOnce(trunks int) {
	c.t.Helper()
	for _, w := range c.hops[0] {
		if err := w.ask(func(w *Worker) error {
			for range trunks {
				p := w.pools["r2"]
				if err := p.open(w); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// noneIsReady waits until the first relay has no trunk, nor opens one.
func (c *chain) noneIsReady() {
	c.t.Helper()
	for _, w := range c.hops[0] {
		eventually(c.t, "no trunk is ready", func() (none bool) {
			if err := w.ask(func(w *Worker) error {
				p := w.pools["r2"]
				none = p.opening == 0 && len(p.ready) == 0
				return nil
			}); err != nil {
				c.t.Fatal(err)
			}
			return none
		})
	}
}

func (c *chain) pools(count func(*PoolCounters) uint64) uint64 {
	return c.sum(func(w *Worker) (n uint64) {
		for _, p := range w.pools {
			n += count(&p.count)
		}
		return n
	})
}

// forsake is an acceptor of trunks that leaves at one of the stages there are.
func forsake(raw net.Conn, cfg *tls.Config, stage int) {
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(soon))
	conn := tls.Server(raw, cfg)
	if stage >= 4 && conn.Handshake() != nil {
		return // the relay had waited for long enough
	}
	switch stage {
	case 0:
		_ = raw.(*net.TCPConn).SetLinger(0)
	case 1:
		_, _ = raw.Write([]byte("220 mail.example ESMTP\r\n"))
	case 2: // it says nothing, until the relay has gone
		_, _ = io.Copy(io.Discard, raw)
	case 3: // half of a record
		_, _ = raw.Write([]byte{22, 3, 3, 0, 90, 2, 0})
		_, _ = io.Copy(io.Discard, raw)
	case 4:
		_, _ = conn.Write([]byte("220 mail.example ESMTP\r\n"))
	case 5:
		hello := trunkproto.NewHello([trunkproto.NonceSize]byte{1})
		_, _ = conn.Write(hello[:])
		_ = conn.CloseWrite()
	}
}
