package relay

import (
	"context"
	"io"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// A client's connections to others come to the listeners, under the address that the client has meant, and to the worker that the event
// names.
func TestInterceptedConnections(t *testing.T) {
	const workers, connections = liveReaders, 32
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		events, conns := l.readers(), l.group(workers)
		l.intercepts(f.far, EarlyOptimistic)
		used := make(map[int]bool)
		for range connections {
			c := l.client.connect(l.farOne())
			a := receive(t, conns)
			e := l.next(events)
			if a.server() != l.farOne() || a.client() != unmapped(c.LocalAddr()) {
				t.Fatalf("%v is connected to %v", a.client(), a.server())
			}
			if e.Client != a.client() || e.Server != a.server() || e.Entry != 7 || e.Ifindex != l.north {
				t.Fatalf("%v to %v; event %+v", a.client(), a.server(), e)
			}
			if want := int(e.Hash % workers); a.worker != want {
				t.Fatalf("worker %d, of hash %#x: want %d", a.worker, e.Hash, want)
			}
			used[a.worker] = true
			go func() {
				_, _ = io.Copy(a, a)
				a.Close()
			}()
			says(t, c, "a few words")
			if n, err := l.Settle(e.SYN); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if len(used) != workers {
			t.Errorf("only the workers %v", used)
		}
		l.wantCount(relayVerdictSYN_REPORTED, connections)
		l.wantCount(relayVerdictSTEER_FAILED, 0)
	})
}

// Entries are replaced at once: in between there is no moment without.
func TestEntriesAreReplacedAtOnce(t *testing.T) {
	l := newLiveRelay(t, families[0])
	go echo(l.listener())
	l.intercepts(l.f.far, EarlyOff)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for n := 0; err == nil; n++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			entries := []Entry{{ID: 1, Listen: l.listen, Destinations: []netip.Prefix{l.f.far}, Intercept: true}}
			if n%2 == 0 { // in another place
				entries = append([]Entry{{ID: 2, Listen: l.listen, Destinations: []netip.Prefix{l.f.serverNet}, Intercept: true}}, entries...)
			}
			err = l.SetEntries(entries)
		}
		done <- err
	}()
	for range 300 {
		c := l.client.connect(l.farOne())
		says(t, c, "hello")
		c.Close()
	}
	close(stop)
	l.must(<-done)
}

// A socket that rides on a packet does not make it one of this host: routes are looked up behind it, and they need the mark.
func TestSteeringNeedsItsRule(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		go echo(l.listener())
		l.intercepts(f.far, EarlyOff)
		l.must(l.steering.remove("r0"))
		if c, err := l.client.dial(netip.AddrPort{}, l.farOne()); err == nil {
			t.Fatalf("connected to %v without a rule", c.RemoteAddr())
		}
		l.must(l.steering.add("r0"))
		says(t, l.client.connect(l.farOne()), "hello")
	})
}

// Neither checks of sources nor marks that sockets take from packets are in the way, whatever the host has set.
func TestSteeringWithMarksEverywhere(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		for name, value := range map[string]string{
			"ipv4/conf/all/rp_filter": "1", "ipv4/conf/all/src_valid_mark": "1", "ipv4/tcp_fwmark_accept": "1", "ipv4/fwmark_reflect": "1",
			"ipv6/fwmark_reflect": "1",
		} {
			setSysctl(t, name, value)
		}
		go echo(l.listener())
		l.intercepts(f.far, EarlyOff)
		says(t, l.client.connect(l.farOne()), "hello")
	})
}

// Connections that were there before the relay are forwarded as before, those that come later are its own, and when it goes, all are
// forwarded.
func TestStrangersConnectionsGoOn(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		server := netip.AddrPortFrom(f.server, 80)
		go echo(l.server.listen(server))
		before := l.client.connect(server)
		says(t, before, "before")

		conns := l.group(1)
		l.intercepts(f.serverNet, EarlyOff)
		says(t, before, "and now")
		if l.count(relayVerdictPASS_UNKNOWN) == 0 {
			t.Error("no packet was passed as unknown")
		}
		l.client.connect(server)
		if a := receive(t, conns); a.server() != server {
			t.Errorf("connected to %v", a.server())
		}
		l.must(l.Detach(l.north))
		says(t, before, "still")
		says(t, l.client.connect(server), "and forwarded again")
	})
}

// With SYN cookies there is no request for the last packet of a handshake to be steered to.
func TestSteeringWithCookies(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		setSysctl(t, "ipv4/tcp_syncookies", "2") // always; of IPv6, too
		go echo(l.listener())
		l.intercepts(f.far, EarlyOff)
		says(t, l.client.connect(l.farOne()), "hello")
		l.wantCount(relayVerdictSTEERED_SYN, 1)
		l.wantCount(relayVerdictSTEERED_COOKIE, 1)
	})
}

// A client that uses a port again soon after the relay has closed its connection is served at once (its SYN is sent once), by the listener
// that is its entry's now.
func TestSteeringToAPortUsedAgain(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		from := netip.AddrPortFrom(f.client, 5555)
		syns := uint64(0)
		for range 3 {
			conns := l.group(2)
			l.intercepts(f.far, EarlyOff)
			for range 3 {
				c, err := l.client.dial(from, l.farOne())
				l.must(err)
				a := receive(t, conns)
				l.must(a.Close()) // first: what is left of it is here
				if _, err := io.ReadAll(c); err != nil {
					t.Fatal(err)
				}
				c.Close()
				syns++
				l.wantCount(relayVerdictSTEERED_SYN, syns)
				poll(t, "the end of the connection", func() bool { return hasSocket(t, timeWait, from) })
			}
			l.listen = netip.AddrPortFrom(l.listen.Addr(), l.listen.Port()+1)
		}
	})
}

// A connection with a client's address that has not the relay's mark is none of its business.
func (l *liveRelay) leavesUnmarked(from, server netip.AddrPort) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	before, done := l.count(relayVerdictPASS), make(chan error)
	go func() {
		_, err := dialUntil(ctx, from, server, transparent)
		done <- err
	}()
	poll(l.t, "the server to have answered", func() (answered bool) {
		l.must(l.server.do(func() error { answered = hasSocket(l.t, synReceived, from); return nil }))
		return answered && l.count(relayVerdictPASS) > before
	})
	cancel()
	if err := <-done; err == nil {
		l.t.Error("connected")
	}
	l.wantCount(relayVerdictRETURNED, 0)
}

// A connection with a client's address as its own hears from the server by way of the relay.
func TestReturnedConnections(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		server := netip.AddrPortFrom(f.server, 80)
		made := l.server.listen(server)
		from := netip.AddrPortFrom(f.client, 0)
		marked := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(Mark)) }

		l.must(l.AttachReturn(l.south))
		l.leavesUnmarked(netip.AddrPortFrom(f.client, 7776), server)
		c, err := dialWith(from, server, transparent, marked)
		l.must(err)
		var s accepted
		s.Conn, err = made.Accept()
		l.must(err)
		go func() { _, _ = io.Copy(s, s) }()
		says(t, c, "hello")

		// what is left of the socket has its mark
		l.must(c.Close())
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("not closed")
		}
		before := l.count(relayVerdictRETURNED)
		l.must(s.Close())
		poll(t, "the server's FIN", func() bool { return l.count(relayVerdictRETURNED) > before })

		// other connections of the host are not its business
		go echo(made)
		ours, err := dialWith(netip.AddrPort{}, server)
		l.must(err)
		defer ours.Close()
		says(t, ours, "our own")
	})
}
