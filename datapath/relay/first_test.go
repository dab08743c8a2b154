package relay

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/packet/packettest"
)

// dialed is how a client's attempt to connect has ended.
type dialed struct {
	net.Conn
	err error
}

// dials has the client connect meanwhile.
func (l *liveRelay) dials() <-chan dialed {
	done := make(chan dialed, 1)
	go func() {
		c, err := l.client.dial(netip.AddrPort{}, l.farOne())
		done <- dialed{c, err}
	}()
	return done
}

// A client is connected when the server has answered, and not before, by the SYN that was held; and by the worker that was told.
func TestConnectFirstReleased(t *testing.T) {
	const workers = liveReaders
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		events, conns := l.readers(), l.group(workers)
		l.intercepts(f.far, EarlyConnectFirst)
		for range 8 {
			done := l.dials()
			e := l.next(events)
			select {
			case <-conns:
				t.Fatal("accepted what is held")
			case d := <-done:
				t.Fatalf("the client is answered: %v", d.err)
			default:
			}
			l.must(l.Release(e))
			a, d := receive(t, conns), receive(t, done)
			l.must(d.err)
			if a.client() != e.Client || a.server() != e.Server || a.worker != int(e.Hash%workers) {
				t.Fatalf("worker %d has %v to %v; event %+v", a.worker, a.client(), a.server(), e)
			}
			go func() { _, _ = a.Write([]byte("hello")); a.Close() }()
			says(t, reader{d}, "hello")
			if n, err := l.Settle(e.SYN); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		l.wantCount(relayVerdictSYN_HELD, 8)
		l.wantCount(relayVerdictSYN_RELEASED, 8)
	})
}

// reader is an end that only listens.
type reader struct{ net.Conn }

func (h reader) Write(b []byte) (int, error) { return len(b), nil }

// A client is refused when the server has refused.
func TestConnectFirstRefused(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		events := l.readers()
		go echo(l.listener())
		l.intercepts(f.far, EarlyConnectFirst)
		done := l.dials()
		l.must(l.Refuse(l.next(events)))
		if d := receive(t, done); !errors.Is(d.err, syscall.ECONNREFUSED) {
			t.Fatalf("the client is told: %v", d.err)
		}
		l.wantCount(relayVerdictSYN_REFUSED, 1)
		l.wantCount(relayVerdictSYN_HELD_AGAIN, 0)
	})
}

// An entry that is listened at as usual: what is held is the host's own.
func TestConnectFirstPlain(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		events := l.readers()
		at := netip.AddrPortFrom(f.relay, 8080)
		made, err := listenWith(at)
		l.must(err)
		defer made.Close()
		go echo(made)
		one := netip.PrefixFrom(f.relay, f.relay.BitLen())
		l.must(l.SetEntries([]Entry{{
			ID: 1, Listen: at, Destinations: []netip.Prefix{one}, Ports: []Ports{{8080, 8080}}, Early: EarlyConnectFirst,
		}}))
		l.must(l.Attach(l.north))
		done := make(chan dialed, 1)
		go func() {
			c, err := l.client.dial(netip.AddrPort{}, at)
			done <- dialed{c, err}
		}()
		l.must(l.Release(l.next(events)))
		d := receive(t, done)
		l.must(d.err)
		says(t, d, "hello")
	})
}

// A SYN that meets full queues is not held, nor told of: the listener has enough to do.
func TestPressedListener(t *testing.T) {
	const backlog = 8
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		made := l.listener()
		l.must(setBacklog(made, backlog))
		l.intercepts(f.far, EarlyOptimistic)
		// nobody accepts
		for range backlog*3/4 + 1 {
			l.client.connect(l.farOne())
		}
		l.wantCount(relayVerdictSYN_REPORTED, backlog*3/4)
		suspended := l.count(relayVerdictSYN_SUSPENDED) // a client on a slow machine repeats its SYN
		if suspended == 0 {
			t.Error("no SYN passed unreported, with a full queue of connections")
		}
		for range backlog*3/4 + 1 {
			c, err := made.Accept()
			l.must(err)
			c.Close()
		}
		// nobody answers: clients that are not there
		mac := l.client.mac("c0")
		for i := range backlog*3/4 + 1 {
			s := f.syn(netip.AddrPortFrom(f.client.Next(), uint16(6000+i)), 80, 1)
			s.SrcMAC, s.DstMAC = mac, macOf(t, "r0")
			before := l.count(relayVerdictSYN_REPORTED) + l.count(relayVerdictSYN_SUSPENDED)
			l.client.inject("c0", packet.Build(s))
			poll(t, "the SYN", func() bool { return l.count(relayVerdictSYN_REPORTED)+l.count(relayVerdictSYN_SUSPENDED) > before })
		}
		l.wantCount(relayVerdictSYN_REPORTED, 2*backlog*3/4)
		if l.count(relayVerdictSYN_SUSPENDED) == suspended {
			t.Error("no SYN passed unreported, with a full queue of SYNs")
		}
	})
}

func macOf(t testing.TB, name string) packet.MAC {
	t.Helper()
	dev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return packet.MAC(dev.HardwareAddr)
}

func (h host) mac(name string) (mac packet.MAC) {
	h.t.Helper()
	if err := h.do(func() error { mac = macOf(h.t, name); return nil }); err != nil {
		h.t.Fatal(err)
	}
	return mac
}

// inject sends a frame by an interface of the host.
func (h host) inject(name string, frame []byte) {
	h.t.Helper()
	err := h.do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index})
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// A SYN whose checksum a device was to finish is refused by a reset that a device is to finish; any other, by a whole one.
func TestRefusedSYNWithPartialChecksum(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		tap, err := datapath.OpenTap("syn%d")
		l.must(err)
		defer tap.Close()
		l.listener()
		l.must(l.SetEntries([]Entry{{
			ID: 1, Listen: l.listen, Destinations: []netip.Prefix{f.far}, Intercept: true, Early: EarlyConnectFirst,
		}}))
		l.must(l.Attach(tap.Ifindex))
		s := f.syn(f.clientAt(1, 4000), 80, 9)
		l.must(l.objects.Refusals.Put(SYN{s.Src, s.Dst, 9}.key().Tuple, relayRefused{Isn: 9, Since: datapath.Clock()}))
		w := &kerneltest.Wires{T: t, In: tap, Out: tap}
		for _, kind := range []packet.SumKind{packet.SumPartial, packet.SumComplete} {
			s.Checksum = kind
			frame := packet.Build(s)
			parsed, err := packet.Parse(frame)
			l.must(err)
			h, sums := kerneltest.Vnet{}, packettest.Checksums()
			if kind == packet.SumPartial {
				h, sums = kerneltest.Vnet{Flags: kerneltest.VnetNeedsCsum, CsumStart: uint16(parsed.L4), CsumOffset: 16}, packettest.PartialChecksum()
			}
			w.Send(h, frame)
			got, reset := w.Receive()
			packettest.Check(t, reset, sums, packettest.Src(s.Dst), packettest.Dst(s.Src),
				packettest.TCP(packettest.Flags(packet.RST|packet.ACK), packettest.Ack(10)))
			if got.Flags&kerneltest.VnetNeedsCsum != h.Flags {
				t.Errorf("sum of kind %d: left with %+v", kind, got)
			}
		}
	})
}

// What is given back has a whole checksum, or the one that it came with.
func TestFinished(t *testing.T) {
	for _, f := range families {
		s := f.syn(f.clientAt(1, 4000), 80, 9)
		want := packet.Build(s)
		for kind, want := range map[packet.SumKind][]byte{packet.SumComplete: want, packet.SumPartial: want} {
			s.Checksum = kind
			got, err := finished(packet.Build(s))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, sum of kind %d:\n% x, want\n% x; %v", f.name, kind, got, want, err)
			}
		}
		s.Checksum = packet.SumWrong
		wrong := packet.Build(s)
		if got, err := finished(bytes.Clone(wrong)); err != nil || !bytes.Equal(got, wrong) {
			t.Errorf("%s, a wrong sum:\n% x, want\n% x; %v", f.name, got, wrong, err)
		}
		if _, err := finished(wrong[:40]); err == nil {
			t.Error("a frame without a TCP header is given back")
		}
	}
	if _, err := finished(nil); err == nil {
		t.Error("no frame is given back")
	}
}
