package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/trunkproto"
)

func TestEnds(t *testing.T) {
	r := newRelay(t, 1, defaults())
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, client, server *net.TCPConn)
	}{
		{"client closes", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			expectRead(t, server, "ask")
			say(t, server, "answer")
			expectRead(t, client, "answer")
			client.Close()
			expectEnd(t, server, io.EOF)
			server.Close()
		}},
		{"server closes behind its answer", func(t *testing.T, client, server *net.TCPConn) {
			say(t, server, "answer")
			server.Close()
			expectRead(t, client, "answer")
			expectEnd(t, client, io.EOF)
			client.Close()
		}},
		{"half-close of the client", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			_ = client.CloseWrite()
			expectRead(t, server, "ask")
			expectEnd(t, server, io.EOF)
			time.Sleep(10 * time.Millisecond)
			say(t, server, "late answer")
			expectRead(t, client, "late answer")
			server.Close()
			expectEnd(t, client, io.EOF)
			client.Close()
		}},
		{"half-close of the server", func(t *testing.T, client, server *net.TCPConn) {
			_ = server.CloseWrite()
			expectEnd(t, client, io.EOF)
			say(t, client, "still here")
			expectRead(t, server, "still here")
			client.Close()
			expectEnd(t, server, io.EOF)
			server.Close()
		}},
		{"client resets", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			expectRead(t, server, "ask")
			reset(t, client)
			expectEnd(t, server, unix.ECONNRESET)
		}},
		{"server resets", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			expectRead(t, server, "ask")
			reset(t, server)
			expectEnd(t, client, unix.ECONNRESET)
		}},
		{"server resets behind its answer", func(t *testing.T, client, server *net.TCPConn) {
			say(t, server, "half an ans")
			expectRead(t, client, "half an ans")
			reset(t, server)
			expectEnd(t, client, unix.ECONNRESET)
		}},
		{"reset after the own FIN", func(t *testing.T, client, server *net.TCPConn) {
			_ = server.CloseWrite()
			expectEnd(t, client, io.EOF)
			reset(t, server)
			eventually(t, "the client is reset", func() bool {
				_, err := client.Write([]byte("x"))
				return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			outer := r.t
			r.t = t
			defer func() { r.t = outer }()
			client, server := r.pair()
			tt.run(t, client, server)
			client.Close()
			server.Close()
			r.settled()
		})
	}
}

// A server that refuses, or that cannot be reached, resets the client: a FIN might be taken for an empty answer.
func TestRefused(t *testing.T) {
	r := newRelay(t, 1, defaults())
	r.server.Close()
	r.refused()
	r.settled()
	if n := r.workers[0].count.Refused[trunkproto.Refused].Load(); n != 1 {
		t.Errorf("%d are counted as refused, want 1", n)
	}
}

// A server that resets while the client does not read: the client still gets what came in front of the reset, as far as it
// was taken, and then the reset; one that never reads does not keep the flow for ever.
func TestResetBehindBytes(t *testing.T) {
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprintf("client reads: %t", reads), func(t *testing.T) {
			cfg := defaults()
			if !reads {
				cfg.Timeouts.Reset = 300 * time.Millisecond
			}
			r := newRelay(t, 1, cfg)
			client, server := r.pair()
			_ = client.SetReadBuffer(16 << 10)
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<14) // 256 KiB: in the sockets' buffers and the pipe
			if _, err := server.Write(sent); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the relay has all", func() bool { n := &r.workers[0].count; return n.Copied.Load()+n.Spliced.Load() >= uint64(len(sent)) })
			reset(t, server)
			if reads {
				got, err := io.ReadAll(client)
				if !errors.Is(err, unix.ECONNRESET) || !bytes.Equal(got, sent) {
					t.Errorf("got %d bytes, %v, want %d and a reset", len(got), err, len(sent))
				}
			}
			r.settled()
		})
	}
}

// Many clients with all kinds of transfers at once, over two workers: every byte arrives, each at its own end, and nothing is left.
func TestManyFlows(t *testing.T) {
	r := newRelay(t, 2, defaults())
	_ = r.server.SetDeadline(time.Time{})
	var servers sync.WaitGroup
	servers.Go(func() {
		for {
			c, err := r.server.AcceptTCP()
			if err != nil {
				return
			}
			servers.Go(func() { // an echo, in pieces
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.Copy(c, struct{ io.Reader }{c}); err == nil {
					_ = c.CloseWrite()
				}
			})
		}
	})
	var clients errgroup.Group
	for i := range 64 {
		clients.Go(func() error {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for range 20 {
				if err := echo(t.Context(), r.entry.Listen, random); err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
	r.server.Close()
	servers.Wait()
	r.settled()
	for i, w := range r.workers {
		if w.count.Flows.Load() == 0 {
			t.Errorf("worker %d had no flow", i)
		}
	}
}

// echo sends up to a MiB, expects it back, and ends the connection in one of the ways there are.
func echo(ctx context.Context, at netip.AddrPort, random *rand.Rand) error {
	var d net.Dialer
	d.SetMultipathTCP(false)
	conn, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	c := conn.(*net.TCPConn)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	b := make([]byte, 1+random.IntN(1<<(1+random.IntN(20))))
	for i := range len(b) / 8 {
		binary.NativeEndian.PutUint64(b[8*i:], random.Uint64())
	}
	how := random.IntN(4)
	var sending errgroup.Group
	sending.Go(func() error {
		if _, err := c.Write(b); err != nil {
			return err
		}
		if how == 0 {
			return c.CloseWrite()
		}
		return nil
	})
	n := len(b)
	if how == 1 {
		n = random.IntN(n)
	}
	got := make([]byte, n)
	_, err = io.ReadFull(c, got)
	if err != nil || !bytes.Equal(got, b[:n]) {
		return fmt.Errorf("of %d bytes others came back: %w", n, err)
	}
	switch how {
	case 0:
		if k, err := c.Read(got[:1]); k != 0 || err != io.EOF {
			return fmt.Errorf("at the end: %d, %w", k, err)
		}
	case 1, 2:
		_ = c.SetLinger(0)
		c.Close()
		_ = sending.Wait()
		return nil
	}
	return sending.Wait()
}

// More flows than there may be wait until others have ended.
func TestFlowsAreBounded(t *testing.T) {
	cfg := defaults()
	cfg.Limits.Flows = 3
	r := newRelay(t, 1, cfg)
	var clients []*net.TCPConn
	for range 5 {
		clients = append(clients, r.dial())
	}
	eventually(t, "no more are accepted", func() bool { return r.workers[0].count.Full.Load() > 0 })
	if n := r.live(); n != 3 {
		t.Errorf("%d flows, want 3", n)
	}
	for _, c := range clients[:3] {
		r.accept().Close()
		c.Close()
	}
	for _, c := range clients[3:] {
		s := r.accept()
		say(t, s, "hello")
		expectRead(t, c, "hello")
		s.Close()
		c.Close()
	}
	r.settled()
}

// A flow without a byte is ended, with resets both ways.
func TestIdle(t *testing.T) {
	cfg := defaults()
	cfg.Timeouts.Idle = 200 * time.Millisecond
	r := newRelay(t, 1, cfg)
	client, server := r.pair()
	expectEnd(t, client, unix.ECONNRESET)
	expectEnd(t, server, unix.ECONNRESET)
	r.settled()
}

// A worker's descriptors are its own, and go with it.
func TestDescriptors(t *testing.T) {
	before := descriptors(t)
	t.Run("run", func(t *testing.T) {
		r := newRelay(t, 1, defaults())
		client, server := r.pair()
		if open := descriptors(t); open > before+8 { // the test's own sockets, the runtime's poller
			t.Errorf("%d descriptors are open, %d were before", open, before)
		}
		client.Close()
		server.Close()
		r.settled()
	})
	eventually(t, "the descriptors are closed", func() bool { return descriptors(t) <= before })
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
