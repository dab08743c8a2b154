package relay

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// liveRelay is a relay between a client and a server.
type liveRelay struct {
	*Relay
	*network
	f      family
	listen netip.AddrPort // of its listeners
}

const (
	listenPort  = 3128
	liveReaders = 4 // of events: one for each worker
)

func newLiveRelay(t *testing.T, f family) *liveRelay {
	t.Helper()
	n := newNetwork(t)
	r, err := Load(Options{
		Mark: Mark, Table: Table, Early: 256, PerSource: 256, Expire: time.Minute, Readers: liveReaders,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	any := netip.IPv4Unspecified()
	if !f.relay.Is4() {
		any = netip.IPv6Unspecified()
	}
	return &liveRelay{Relay: r, network: n, f: f, listen: netip.AddrPortFrom(any, listenPort)}
}

func (l *liveRelay) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// intercepts has what clients send to port 80 of a prefix come to the relay's listeners.
func (l *liveRelay) intercepts(p netip.Prefix, early Early) {
	l.t.Helper()
	l.must(l.SetEntries([]Entry{{
		ID: 7, Listen: l.listen, Destinations: []netip.Prefix{p}, Ports: []Ports{{80, 80}}, Intercept: true, Early: early,
	}}))
	l.must(l.Attach(l.north))
}

func (l *liveRelay) farOne() netip.AddrPort { return netip.AddrPortFrom(l.f.farOne, 80) }

// listener is one of the relay's own.
func (l *liveRelay) listener(options ...func(fd int) error) net.Listener {
	l.t.Helper()
	made, err := listenWith(l.listen, append([]func(fd int) error{transparent}, options...)...)
	l.must(err)
	l.t.Cleanup(func() { made.Close() })
	return made
}

// count reads one verdict.
func (l *liveRelay) count(v relayVerdict) uint64 {
	l.t.Helper()
	all, err := l.Verdicts()
	l.must(err)
	return all[verdictNames[v]]
}

func (l *liveRelay) wantCount(v relayVerdict, want uint64) {
	l.t.Helper()
	if got := l.count(v); got != want {
		all, _ := l.Verdicts()
		l.t.Errorf("%s: %d, want %d; of %v", verdictNames[v], got, want, all)
	}
}

// accepted is a connection with the worker that has it.
type accepted struct {
	net.Conn
	worker int
}

func (a accepted) client() netip.AddrPort { return unmapped(a.RemoteAddr()) }
func (a accepted) server() netip.AddrPort { return unmapped(a.LocalAddr()) }

func unmapped(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// group is as many listeners as there are workers. What they accept comes by the channel.
func (l *liveRelay) group(workers int) <-chan accepted {
	l.t.Helper()
	all := make(chan accepted, 256)
	for worker := range workers {
		options := []func(fd int) error{reusePort}
		if worker == 0 { // the others join its group, which has the program
			options = append(options, byHash(workers))
		}
		made := l.listener(options...)
		if worker == 0 {
			l.must(l.makeKnown(made))
		}
		go func() {
			for {
				c, err := made.Accept()
				if err != nil {
					return
				}
				all <- accepted{c, worker}
			}
		}()
	}
	return all
}

// makeKnown tells the kernel of a listener.
func (l *liveRelay) makeKnown(made net.Listener) error {
	raw, err := made.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = l.SetListener(int(fd), l.listen) })
	return errors.Join(err, failed)
}

// readers are those of all workers.
func (l *liveRelay) readers() []*Events {
	l.t.Helper()
	var all []*Events
	for number := range liveReaders {
		e, err := l.Events(number)
		l.must(err)
		l.t.Cleanup(func() { e.Close() })
		all = append(all, e)
	}
	return all
}

// next requires an event, within the time that tests have, and that the reader has it which its hash says.
func (l *liveRelay) next(readers []*Events) Event {
	l.t.Helper()
	wake := make([]unix.PollFd, len(readers))
	for i, r := range readers {
		wake[i] = unix.PollFd{Fd: int32(r.FD()), Events: unix.POLLIN}
	}
	for {
		n, err := unix.Poll(wake, int(patience/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		l.must(err)
		if n == 0 {
			l.t.Fatal("no event")
		}
		i := slices.IndexFunc(wake, func(p unix.PollFd) bool { return p.Revents != 0 })
		var one [1]Event
		if n, err = readers[i].Take(one[:]); n == 0 || err != nil {
			l.t.Fatal(n, err)
		}
		if e := one[0]; int(e.Hash%liveReaders) != i {
			l.t.Fatalf("reader %d has %+v", i, e)
		}
		return one[0]
	}
}

// receive requires that something comes by a channel.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("not reached")
}
