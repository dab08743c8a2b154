package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/prologue"
)

const soon = 10 * time.Second // for what takes milliseconds on a machine that is not busy

// relay is workers with one plain entry, in front of a server that the test is.
type relay struct {
	t       *testing.T
	workers []*Worker
	entry   config.Entry
	server  *net.TCPListener
}

func defaults() *config.Config {
	return &config.Config{
		Limits:   config.Limits{Flows: 1000, Pipe: 1 << 20},
		Timeouts: config.Timeouts{Connect: soon, Unacked: time.Minute, Reset: soon, Idle: time.Minute},
	}
}

// listenTCP listens on a port of the loopback address that nobody has.
func listenTCP(t *testing.T) *net.TCPListener {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func addrOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// unusedPort is an address that refuses.
func unusedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	l := listenTCP(t)
	a := addrOf(l)
	l.Close()
	return a
}

func newRelay(t *testing.T, workers int, cfg *config.Config) *relay {
	t.Helper()
	r := &relay{t: t, server: listenTCP(t)}
	r.entry = config.Entry{Name: "e", Mode: config.Plain, Listen: unusedPort(t), Destination: addrOf(r.server)}
	r.workers = run(t, workers, cfg)
	r.open(r.workers)
	return r
}

// open has workers listen for flows.
func (r *relay) open(workers []*Worker) {
	r.t.Helper()
	for _, w := range workers {
		if err := w.Listen(&r.entry); err != nil {
			r.t.Fatal(err)
		}
	}
}

// run starts workers, which have nothing left when the test ends.
func run(t *testing.T, count int, cfg *config.Config) (workers []*Worker) {
	t.Helper()
	var running errgroup.Group
	for i := range count {
		w, err := New(Options{Index: i, Of: count, Log: slog.New(slog.DiscardHandler)}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, w)
		running.Go(w.Run)
	}
	t.Cleanup(func() {
		for _, w := range workers {
			w.Close()
		}
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
		for i, w := range workers {
			if n := w.count.Live.Load(); n != 0 {
				t.Errorf("worker %d: %d flows are left", i, n)
			}
			if n := w.pipes.open - len(w.pipes.empty); n != 0 {
				t.Errorf("worker %d: %d pipes are left", i, n)
			}
			for slot, s := range w.slots {
				switch s.source.(type) {
				case nil, *inbox, *entry, *dock:
				default:
					t.Errorf("worker %d: slot %d is left: %T", i, slot, s.source)
				}
			}
		}
	})
	return workers
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", soon, what)
		}
	}
}

func (r *relay) live() (n int64) {
	for _, w := range r.workers {
		n += w.count.Live.Load()
	}
	return n
}

// settled waits until no flow and none of their descriptors is left.
func (r *relay) settled() {
	r.t.Helper()
	eventually(r.t, "no flow is left", func() bool { return r.live() == 0 })
	for i, w := range r.workers {
		var open []string
		err := w.ask(func(w *Worker) error {
			for slot, s := range w.slots {
				switch s.source.(type) {
				case nil, *inbox, *entry, *dock, *arrival, *trunk:
				default:
					open = append(open, fmt.Sprintf("slot %d: %T", slot, s.source))
				}
			}
			return nil
		})
		if err != nil || len(open) > 0 {
			r.t.Errorf("worker %d: left open: %v %v", i, open, err)
		}
	}
}

func (r *relay) dial() *net.TCPConn {
	r.t.Helper()
	var d net.Dialer
	d.SetMultipathTCP(false)
	c, err := d.DialContext(r.t.Context(), "tcp", r.entry.Listen.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(soon))
	return c.(*net.TCPConn)
}

func (r *relay) accept() *net.TCPConn {
	r.t.Helper()
	_ = r.server.SetDeadline(time.Now().Add(soon))
	c, err := r.server.AcceptTCP()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(soon))
	return c
}

// refused opens a connection that is reset.
func (r *relay) refused() {
	r.t.Helper()
	var d net.Dialer
	d.SetMultipathTCP(false)
	c, err := d.DialContext(r.t.Context(), "tcp", r.entry.Listen.String())
	if errors.Is(err, unix.ECONNRESET) { // before the call has returned
		return
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(soon))
	hearEnd(r.t, c.(*net.TCPConn), unix.ECONNRESET)
}

// pair is the two ends of a flow.
func (r *relay) pair() (client, server *net.TCPConn) {
	r.t.Helper()
	client = r.dial()
	return client, r.accept()
}

func say(t *testing.T, c *net.TCPConn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c *net.TCPConn, text string) {
	t.Helper()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		t.Fatalf("got %q, %v, want %q", b, err, text)
	}
}

func hearEnd(t *testing.T, c *net.TCPConn, want error) {
	t.Helper()
	var b [1]byte
	if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, want) {
		t.Fatalf("got %d bytes, %v, want the end: %v", n, err, want)
	}
}

func reset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestEnds(t *testing.T) {
	r := newRelay(t, 1, defaults())
	for _, tt := range []struct {
		name string
		run  func(t *testing.T, client, server *net.TCPConn)
	}{
		{"client closes", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			hear(t, server, "ask")
			say(t, server, "answer")
			hear(t, client, "answer")
			client.Close()
			hearEnd(t, server, io.EOF)
			server.Close()
		}},
		{"server closes behind its answer", func(t *testing.T, client, server *net.TCPConn) {
			say(t, server, "answer")
			server.Close()
			hear(t, client, "answer")
			hearEnd(t, client, io.EOF)
			client.Close()
		}},
		{"half-close of the client", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			_ = client.CloseWrite()
			hear(t, server, "ask")
			hearEnd(t, server, io.EOF)
			time.Sleep(10 * time.Millisecond)
			say(t, server, "late answer")
			hear(t, client, "late answer")
			server.Close()
			hearEnd(t, client, io.EOF)
			client.Close()
		}},
		{"half-close of the server", func(t *testing.T, client, server *net.TCPConn) {
			_ = server.CloseWrite()
			hearEnd(t, client, io.EOF)
			say(t, client, "still here")
			hear(t, server, "still here")
			client.Close()
			hearEnd(t, server, io.EOF)
			server.Close()
		}},
		{"client resets", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			hear(t, server, "ask")
			reset(t, client)
			hearEnd(t, server, unix.ECONNRESET)
		}},
		{"server resets", func(t *testing.T, client, server *net.TCPConn) {
			say(t, client, "ask")
			hear(t, server, "ask")
			reset(t, server)
			hearEnd(t, client, unix.ECONNRESET)
		}},
		{"server resets behind its answer", func(t *testing.T, client, server *net.TCPConn) {
			say(t, server, "half an ans")
			hear(t, client, "half an ans")
			reset(t, server)
			hearEnd(t, client, unix.ECONNRESET)
		}},
		{"reset after the own FIN", func(t *testing.T, client, server *net.TCPConn) {
			_ = server.CloseWrite()
			hearEnd(t, client, io.EOF)
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
	if n := r.workers[0].count.Refused[prologue.Refused].Load(); n != 1 {
		t.Errorf("%d are counted as refused, want 1", n)
	}
}

// Of a client that does not read, the server is told by TCP: the relay holds no more than its pipe and the sockets' buffers.
func TestBackPressure(t *testing.T) {
	r := newRelay(t, 1, defaults())
	client, server := r.pair()
	const all = 64 << 20
	if err := client.SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	want, sent := sha256.New(), 0
	block := make([]byte, 1<<20)
	done := make(chan error, 1)
	var progress sync.Mutex
	go func() {
		_ = server.SetDeadline(time.Now().Add(time.Minute))
		for range all / len(block) {
			_, _ = random.Read(block)
			want.Write(block)
			if _, err := server.Write(block); err != nil {
				done <- err
				return
			}
			progress.Lock()
			sent += len(block)
			progress.Unlock()
		}
		done <- server.CloseWrite()
	}()
	last, still := -1, 0
	eventually(t, "the server is held up", func() bool {
		time.Sleep(10 * time.Millisecond)
		progress.Lock()
		defer progress.Unlock()
		if sent != last {
			last, still = sent, 0
		}
		still++
		return still > 20
	})
	if last > all/2 {
		t.Errorf("%d bytes were taken for a client that reads nothing", last)
	}
	got := sha256.New()
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	if n, err := io.Copy(got, client); err != nil || n != all {
		t.Fatalf("got %d bytes, %v, want %d", n, err, all)
	}
	if err := <-done; err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("other bytes arrived: %v", err)
	}
	if r.workers[0].count.Spliced.Load() == 0 {
		t.Error("nothing was spliced")
	}
	client.Close()
	server.Close()
	r.settled()
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
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	way := random.IntN(4)
	var sending errgroup.Group
	sending.Go(func() error {
		if _, err := c.Write(b); err != nil {
			return err
		}
		if way == 0 {
			return c.CloseWrite()
		}
		return nil
	})
	n := len(b)
	if way == 1 {
		n = random.IntN(n)
	}
	got := make([]byte, n)
	_, err = io.ReadFull(c, got)
	if err != nil || !bytes.Equal(got, b[:n]) {
		return fmt.Errorf("of %d bytes others came back: %w", n, err)
	}
	switch way {
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
		hear(t, c, "hello")
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
	hearEnd(t, client, unix.ECONNRESET)
	hearEnd(t, server, unix.ECONNRESET)
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
