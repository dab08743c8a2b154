package worker

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/config"
)

// earlyRelay is a relay that is told of SYNs by the test.
type earlyRelay struct {
	relay
	fd      int // of an eventfd: there are SYNs
	mu      sync.Mutex
	coming  []comingSYN
	outcome []string
}

type comingSYN struct {
	SYN
	cancelled bool
}

// take is what the worker hears SYNs by.
func (r *earlyRelay) take(each func(SYN, bool)) error {
	r.mu.Lock()
	coming := r.coming
	r.coming = nil
	r.mu.Unlock()
	for _, c := range coming {
		each(c.SYN, c.cancelled)
	}
	return nil
}

// comes is the kernel's part: the SYN is there first, and then the worker is woken, which may be late.
func (r *earlyRelay) comes(c comingSYN, wake bool) {
	r.t.Helper()
	r.mu.Lock()
	r.coming = append(r.coming, c)
	r.mu.Unlock()
	if !wake {
		return
	}
	if _, err := unix.Write(r.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		r.t.Fatal(err)
	}
}

func newEarly(t *testing.T, mode config.EarlySYN, change func(*config.Config)) *earlyRelay {
	t.Helper()
	cfg := defaults()
	cfg.Timeouts.Early = soon
	if change != nil {
		change(cfg)
	}
	r := &earlyRelay{relay: relay{t: t, server: listenTCP(t)}}
	r.entry = config.Entry{Name: "e", Mode: config.Plain, Listen: reservePort(t), Destination: addrOf(r.server), EarlySYN: mode}
	var err error
	if r.fd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(r.fd) })
	w, err := New(Options{Of: 1, Log: slog.New(slog.DiscardHandler), SYNs: &SYNs{FD: r.fd, Take: r.take}, Settle: func(s SYN, what Settlement) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.outcome = append(r.outcome, fmt.Sprint(what, " ", s.ISN))
	}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.workers = []*Worker{w}
	var running errgroup.Group
	running.Go(w.Run)
	t.Cleanup(func() {
		w.Close()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	})
	r.open(r.workers)
	return r
}

func (r *earlyRelay) expectSettled(want ...string) {
	r.t.Helper()
	same := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Equal(r.outcome, want)
	}
	for end := time.Now().Add(soon); !same() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if !same() {
		r.t.Fatalf("settled: %q, want %q", r.outcome, want)
	}
}

// syn tells of one from the client's address.
func (r *earlyRelay) syn(from netip.AddrPort, isn uint32, held bool) SYN {
	r.t.Helper()
	s := SYN{Client: from, Server: r.entry.Listen, ISN: isn, Entry: "e", Held: held}
	r.comes(comingSYN{SYN: s}, true)
	return s
}

func (r *earlyRelay) dialFrom(from netip.AddrPort) *net.TCPConn {
	r.t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from)}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(r.t.Context(), "tcp", r.entry.Listen.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(soon))
	return c.(*net.TCPConn)
}

func (s Settlement) String() string { return [...]string{"release", "refuse", "taken"}[s] }

// The server is connected to before the client is there, once.
func TestEarly(t *testing.T) {
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("held: %t", held), func(t *testing.T) {
			r := newEarly(t, config.Optimistic, nil)
			from := unusedPort(t)
			r.syn(from, 1, held)
			server := r.accept()
			say(t, server, "220 greeting")
			want := []string{}
			if held {
				want = append(want, "release 1")
				r.expectSettled(want...)
			}
			client := r.dialFrom(from)
			expectRead(t, client, "220 greeting")
			r.expectSettled(append(want, "taken 1")...)
			r.served(client, server)
		})
	}
}

// served has a client ask its server, and both end.
func (r *earlyRelay) served(client, server *net.TCPConn) {
	r.t.Helper()
	say(r.t, client, "ask")
	expectRead(r.t, server, "ask")
	client.Close()
	expectEnd(r.t, server, io.EOF)
	server.Close()
	r.nothingLeft()
}

func (r *earlyRelay) nothingLeft() {
	r.t.Helper()
	r.relay.settled()
	if n := len(r.workers[0].early); n != 0 {
		r.t.Errorf("%d early flows are left", n)
	}
}

// A client that is accepted before the worker was woken has the flow that its SYN begins, and no other.
func TestEarlyBeforeWake(t *testing.T) {
	r := newEarly(t, config.Optimistic, nil)
	from := unusedPort(t)
	r.comes(comingSYN{SYN: SYN{Client: from, Server: r.entry.Listen, ISN: 1, Entry: "e"}}, false)
	client := r.dialFrom(from)
	server := r.accept()
	r.expectSettled("taken 1")
	r.served(client, server)
	if c := &r.workers[0].count; c.Flows.Load() != 1 || c.Early.Load() != 1 {
		t.Errorf("%d flows, %d of them early", c.Flows.Load(), c.Early.Load())
	}
}

// Of a SYN to an entry that has gone nobody makes a flow: its client comes in as if nobody had told of it.
func TestEarlyWithoutEntry(t *testing.T) {
	r := newEarly(t, config.ConnectFirst, nil)
	r.comes(comingSYN{SYN: SYN{Client: unusedPort(t), Server: r.entry.Listen, ISN: 1, Entry: "gone", Held: true}}, true)
	r.expectSettled("release 1", "taken 1")
	r.nothingLeft()
}

// Servers that refuse: who waits for his SYN's answer is refused, who was answered is reset.
func TestEarlyRefused(t *testing.T) {
	r := newEarly(t, config.ConnectFirst, nil)
	r.server.Close()
	r.syn(unusedPort(t), 1, true)
	r.expectSettled("refuse 1", "taken 1")
	from := unusedPort(t)
	r.syn(from, 2, false)
	r.expectSettled("refuse 1", "taken 1", "taken 2")
	r.refused()
	r.nothingLeft()
}

// A client that gives up, begins anew, or never comes leaves nothing behind.
func TestEarlyWithoutClient(t *testing.T) {
	r := newEarly(t, config.ConnectFirst, func(cfg *config.Config) { cfg.Timeouts.Early = 500 * time.Millisecond })
	from := unusedPort(t)
	syn := r.syn(from, 1, true)
	first := r.accept()
	r.expectSettled("release 1")
	r.comes(comingSYN{syn, true}, true)
	expectEnd(t, first, unix.ECONNRESET)
	r.expectSettled("release 1", "taken 1")
	r.syn(from, 2, false)
	second := r.accept()
	r.syn(from, 3, false)
	expectEnd(t, second, unix.ECONNRESET)
	third := r.accept()
	r.comes(comingSYN{syn, true}, true) // of the first one: late
	client := r.dialFrom(from)
	say(t, client, "ask")
	expectRead(t, third, "ask")
	client.Close()
	third.Close()
	r.syn(unusedPort(t), 4, false)
	expectEnd(t, r.accept(), unix.ECONNRESET) // in time
	r.expectSettled("release 1", "taken 1", "taken 2", "taken 3", "taken 4")
	r.nothingLeft()
}

// A server that has reset the flow before its client is there: the client hears what was said in front of that, and is not waited for
// any longer than for other servers.
func TestEarlyServerGone(t *testing.T) {
	r := newEarly(t, config.ConnectFirst, func(cfg *config.Config) {
		cfg.Timeouts.Early, cfg.Timeouts.Reset = 500*time.Millisecond, time.Hour
	})
	from := unusedPort(t)
	r.syn(from, 1, true)
	server := r.accept()
	r.expectSettled("release 1")
	say(t, server, "421 too many")
	reset(t, server)
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from)}
	d.SetMultipathTCP(false)
	if client, err := d.DialContext(t.Context(), "tcp", r.entry.Listen.String()); err == nil {
		defer client.Close()
		_ = client.SetDeadline(time.Now().Add(soon))
		expectRead(t, client.(*net.TCPConn), "421 too many")
		expectEnd(t, client.(*net.TCPConn), unix.ECONNRESET)
	} else if !errors.Is(err, unix.ECONNRESET) { // which may come before it is looked whether the client is connected
		t.Fatal(err)
	}
	r.expectSettled("release 1", "taken 1")

	r.syn(unusedPort(t), 2, true) // of a client that never comes
	server = r.accept()
	r.expectSettled("release 1", "taken 1", "release 2")
	reset(t, server)
	r.expectSettled("release 1", "taken 1", "release 2", "taken 2")
	r.nothingLeft()
}
