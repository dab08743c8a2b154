package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/secure"
)

const soon = 10 * time.Second // for what takes milliseconds on a machine that is not busy

// The Go runtime has processors beside those that workers keep, as it has in a relay: most tests have two workers.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(4)
	m.Run()
}

// relay is workers with one plain entry, in front of a server that the test is.
type relay struct {
	t       testing.TB
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
func listenTCP(t testing.TB) *net.TCPListener {
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

// reservePort is an address for a worker to listen on; until then it refuses. A socket is bound to it: a port that is merely free may be given
// to another listener with SO_REUSEPORT, too, which then takes half of the connections.
func reservePort(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port))
}

// unusedPort is an address that refuses, and a client may have.
func unusedPort(t testing.TB) netip.AddrPort {
	t.Helper()
	l := listenTCP(t)
	a := addrOf(l)
	l.Close()
	return a
}

func newRelay(t testing.TB, workers int, cfg *config.Config) *relay {
	t.Helper()
	r := &relay{t: t, server: listenTCP(t)}
	r.entry = config.Entry{Name: "e", Mode: config.Plain, Listen: reservePort(t), Destination: addrOf(r.server)}
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

// names are what the workers' resolver knows. The first two addresses of three-addresses refuse: one is not allowed, at the other nobody listens.
var names = map[string][]netip.Addr{
	"localhost":       {netip.MustParseAddr("127.0.0.1")},
	"three-addresses": {netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.99"), netip.MustParseAddr("127.0.0.1")},
	"two-that-refuse": {netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.99")},
}

func lookUp(_ context.Context, name string) ([]netip.Addr, error) {
	if addrs, ok := names[name]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// run starts workers, which have nothing left when the test ends.
func run(t testing.TB, count int, cfg *config.Config) (workers []*Worker) {
	t.Helper()
	var running errgroup.Group
	identities := new(secure.Identities)
	if err := identities.Load(cfg); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		w, err := New(Options{Index: i, Of: count, Log: slog.New(slog.DiscardHandler), Identities: identities, LookUp: lookUp}, cfg)
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
			if n := w.buffers.InUse(); n != 0 {
				t.Errorf("worker %d: %d buffers are left", i, n)
			}
			if n := len(w.tlsHandshakes); n != 0 {
				t.Errorf("worker %d: %d handshakes are left", i, n)
			}
			for slot, s := range w.slots {
				switch s.source.(type) {
				case nil, *inbox, *SYNs, *entry, *trunkListener:
				default:
					t.Errorf("worker %d: slot %d is left: %T", i, slot, s.source)
				}
			}
		}
	})
	return workers
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
				case nil, *inbox, *SYNs, *entry, *trunkListener, *handshake, *trunk:
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
	expectEnd(r.t, c.(*net.TCPConn), unix.ECONNRESET)
}

// pair is the two ends of a flow.
func (r *relay) pair() (client, server *net.TCPConn) {
	r.t.Helper()
	client = r.dial()
	return client, r.accept()
}

func say(t testing.TB, c *net.TCPConn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func expectRead(t testing.TB, c *net.TCPConn, text string) {
	t.Helper()
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		t.Fatalf("got %q, %v, want %q", b, err, text)
	}
}

func expectEnd(t testing.TB, c *net.TCPConn, want error) {
	t.Helper()
	var b [1]byte
	if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, want) {
		t.Fatalf("got %d bytes, %v, want the end: %v", n, err, want)
	}
}

func reset(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
}
