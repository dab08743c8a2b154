package worker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// blackHole is an address that answers no SYN: what waits to be accepted there is as much as may.
func blackHole(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
	for range 8 {
		d := net.Dialer{Timeout: 200 * time.Millisecond}
		d.SetMultipathTCP(false)
		c, err := d.Dial("tcp", at.String())
		if err != nil {
			return at
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of connections is never full")
	return at
}

func probe(t *testing.T, w *Worker, via string, target netip.AddrPort) trunkproto.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	a, err := w.Probe(ctx, strings.Split(via, ","), target)
	if err != nil {
		t.Fatalf("via %s to %v: %v", via, target, err)
	}
	return a
}

// What a relay far away tells of an address.
func TestProbes(t *testing.T) {
	for _, security := range []config.Security{config.Plaintext, config.TLS} {
		t.Run(string(security), func(t *testing.T) {
			var peer netip.AddrPort
			c := newChainOf(t, security, 3, func(hop int, cfg *config.Config) {
				if hop == 2 {
					cfg.Allow = nil
					peer = cfg.Peers[0].Address
				}
			})
			w := c.hops[0][0]
			open, closed := addrOf(c.server), unusedPort(t)
			none := netip.AddrPort{}
			for _, tt := range []struct {
				name   string
				via    string
				target netip.AddrPort
				want   trunkproto.Status
				hop    uint8
				rtt    bool
			}{
				{"no target", "r2", none, trunkproto.Connected, 1, false},
				{"no target behind two trunks", "r2,r3", none, trunkproto.Connected, 2, false},
				{"a server", "r2,r3", open, trunkproto.Connected, 2, true},
				{"a port that refuses", "r2,r3", closed, trunkproto.Connected, 2, true},
				{"not allowed", "r2,r3", netip.MustParseAddrPort("192.0.2.1:80"), trunkproto.NotAllowed, 2, false},
				{"not allowed at that relay", "r2", open, trunkproto.NotAllowed, 1, false},
				{"that relay's peer", "r2", peer, trunkproto.Connected, 1, true},
				{"no such relay", "r9", open, trunkproto.NoSuchRelay, 0, false},
				{"no such relay behind the first", "r2,r9", open, trunkproto.NoSuchRelay, 1, false},
				{"a way through here", "r2,r1", open, trunkproto.Loop, 0, false},
			} {
				t.Run(tt.name, func(t *testing.T) {
					a := probe(t, w, tt.via, tt.target)
					if a.Status != tt.want || a.Hop != tt.hop || (a.RTT > 0) != tt.rtt || a.RTT > time.Second {
						t.Errorf("%+v, want %v at %d, RTT %v", a, tt.want, tt.hop, tt.rtt)
					}
				})
			}
			_ = c.server.SetDeadline(time.Now().Add(soon))
			s, err := c.server.AcceptTCP()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(s); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("the server's connection ends with %v, want a reset", err)
			}
			s.Close()
			c.settled()
			refused, begun := uint64(0), c.sum(func(w *Worker) uint64 { return w.count.Flows.Load() })
			for _, w := range c.workers {
				for i := range w.count.Refused {
					refused += w.count.Refused[i].Load()
				}
			}
			if n := c.sum(func(w *Worker) uint64 { return w.count.Probes.Load() }); n < 9 || begun != 0 || refused != 0 {
				t.Errorf("%d probes, %d flows, %d refused: probes alone", n, begun, refused)
			}
		})
	}
}

// An address that does not answer is one that was waited for: by which relay is open, the one that is behind waits no longer than those
// in front.
func TestProbeOfNobody(t *testing.T) {
	securely(t, func(t *testing.T, security config.Security) {
		c := newChainOf(t, security, 2, func(_ int, cfg *config.Config) { cfg.Timeouts.Connect = soon / 20 })
		c.ready()
		if a := probe(t, c.hops[0][0], "r2", blackHole(t)); a.Status != trunkproto.TimedOut || a.RTT != 0 {
			t.Errorf("%+v, want %v", a, trunkproto.TimedOut)
		}
		c.settled()
	})
}

// A probe that cannot be, is given up, or meets the end of its worker, leaves nothing.
func TestProbesEnd(t *testing.T) {
	c := newChain(t, 2, func(_ int, cfg *config.Config) { cfg.Timeouts.Connect = time.Minute })
	w := c.hops[0][0]
	for _, via := range [][]string{nil, {""}, {"r2", "UP"}} {
		if a, err := w.Probe(t.Context(), via, addrOf(c.server)); err == nil {
			t.Errorf("via %q: %+v", via, a)
		}
	}
	if a, err := w.Probe(t.Context(), []string{"r2"}, netip.MustParseAddrPort("0.0.0.0:80")); err != nil || a.Status == trunkproto.Connected {
		t.Errorf("to no host: %+v, %v", a, err)
	}
	silent := blackHole(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ask := func(w *Worker, ctx context.Context) {
		_, err := w.Probe(ctx, []string{"r2"}, silent)
		done <- err
	}
	go ask(w, ctx)
	eventually(t, "the last relay measures", func() bool {
		all := flows(t, c.hops[1])
		return len(all) == 1 && all[0].Probe && all[0].Stage == "connecting"
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	c.settled()
	go ask(c.hops[0][1], t.Context())
	eventually(t, "the last relay measures", func() bool { return len(flows(t, c.hops[1])) == 1 })
	c.hops[0][1].Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("at the worker's end: %v", err)
	}
	if _, err := c.hops[0][1].Probe(t.Context(), []string{"r2"}, silent); !errors.Is(err, ErrClosed) {
		t.Errorf("after it: %v", err)
	}
}

// A probe has no client that a server could be shown, whatever its header asks for.
func TestProbeThatShowsAClient(t *testing.T) {
	c := newChain(t, 2, nil)
	at := c.hops[0][0].cfg.Peers[0].Address
	for _, shown := range []trunkproto.ClientAddress{trunkproto.Spoofed, trunkproto.ProxyHeader} {
		conn, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(soon))
		var got [trunkproto.HelloSize]byte
		if _, err := io.ReadFull(conn, got[:]); err != nil {
			t.Fatal(err)
		}
		hello, _, err := trunkproto.ParseHello(got[:])
		if err != nil {
			t.Fatal(err)
		}
		via, _ := trunkproto.JoinNames("r2")
		h := trunkproto.Header{Probe: true, Server: addrOf(c.server), Via: via, ClientAddress: shown}
		header, err := h.Append(nil, "r1", &hello, trunkproto.NewSealer(secret.Secret))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(header); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if a, n, err := trunkproto.ParseAnswer(answer); err != nil || n != len(answer) || a.Status != trunkproto.Connected || a.RTT == 0 {
			t.Errorf("%v: %+v, %v in %x", shown, a, err, answer)
		}
		c.accept().Close()
		conn.Close()
	}
	c.settled()
}
