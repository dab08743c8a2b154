package relay

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"baton/datapath/kerneltest"

	"golang.org/x/sys/unix"
)

// info is what a socket says of itself.
type info struct {
	unix.TCPInfo
	congestion string
}

func infoOf(t testing.TB, c net.Conn) info {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var i info
	var failed error
	err = raw.Control(func(fd uintptr) {
		var tcp *unix.TCPInfo
		if tcp, failed = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); failed == nil {
			i.TCPInfo = *tcp
			i.congestion, failed = unix.GetsockoptString(int(fd), unix.SOL_TCP, unix.TCP_CONGESTION)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// wide has room for windows of some megabytes, whatever the host allows. The kernel tells a socket's window shift in its SYN: before that.
func wide(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 8<<20)
}

// needCongestion has the kernel load an algorithm, as a relay does at its start: programs cannot.
func needCongestion(t testing.TB, name string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.SOL_TCP, unix.TCP_CONGESTION, name); err != nil {
		kerneltest.Skip(t, fmt.Sprintf("congestion control %s: %v", name, err))
	}
}

func (l *liveRelay) attachCgroup() {
	l.t.Helper()
	l.must(l.AttachOwnCgroup())
}

// pair is a connection, by both of its ends.
type pair struct{ opener, acceptor net.Conn }

func (l *liveRelay) pair(from host, at net.Listener) pair {
	l.t.Helper()
	to := at.Addr().(*net.TCPAddr).AddrPort()
	var p pair
	l.must(from.do(func() (err error) { p.opener, err = dialWith(netip.AddrPort{}, to, wide); return err }))
	var err error
	p.acceptor, err = at.Accept()
	l.must(err)
	l.t.Cleanup(func() { p.opener.Close(); p.acceptor.Close() })
	return p
}

func (l *liveRelay) wide(at netip.AddrPort) net.Listener {
	l.t.Helper()
	made, err := listenWith(at, wide)
	l.must(err)
	l.t.Cleanup(func() { made.Close() })
	return made
}

// Sockets that are trunks begin as they are told, on both ends; others, and those of other hosts, as ever.
func TestTrunksBegin(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		l.attachCgroup()
		needCongestion(t, "bbr")
		trunk, other := netip.AddrPortFrom(f.relay, 9000), netip.AddrPortFrom(f.relay, 9001)
		to, at := TrunkKey{TrunkTo, trunk}, TrunkKey{TrunkAt, netip.AddrPortFrom(l.listen.Addr(), 9000)}
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{
			to: {Window: 55, Congestion: "cubic", Pace: 123_456_789, Clamp: 3000},
			at: {Window: 77, Congestion: "bbr"},
		}))
		trunks, others, self := l.wide(trunk), l.wide(other), own(t)

		p := l.pair(self, trunks)
		o, a := infoOf(t, p.opener), infoOf(t, p.acceptor)
		if o.Snd_cwnd != 55 || o.congestion != "cubic" || o.Max_pacing_rate != 123_456_789 || o.Snd_ssthresh != 3000 {
			t.Errorf("opener: window %d, %s, at most %d bytes/s, threshold %d", o.Snd_cwnd, o.congestion, o.Max_pacing_rate, o.Snd_ssthresh)
		}
		if a.Snd_cwnd != 77 || a.congestion != "bbr" {
			t.Errorf("acceptor: window %d, %s", a.Snd_cwnd, a.congestion)
		}
		p = l.pair(self, others)
		for name, i := range map[string]info{"opener": infoOf(t, p.opener), "acceptor": infoOf(t, p.acceptor)} {
			if i.Snd_cwnd != 10 || i.Max_pacing_rate != ^uint64(0) {
				t.Errorf("%s of another connection: window %d, at most %d bytes/s", name, i.Snd_cwnd, i.Max_pacing_rate)
			}
		}
		p = l.pair(l.client, trunks)
		if o := infoOf(t, p.opener); o.Snd_cwnd != 10 {
			t.Errorf("opener of another host: window %d", o.Snd_cwnd)
		}
		if a := infoOf(t, p.acceptor); a.Snd_cwnd != 77 {
			t.Errorf("acceptor: window %d", a.Snd_cwnd)
		}
		for key, want := range map[TrunkKey]TrunkCounts{to: {Established: 1}, at: {Established: 2}} {
			if got, err := l.TrunkCounts(key); err != nil || got != want {
				t.Errorf("counts of %v: %+v, %v", key, got, err)
			}
		}
	})
}

// A record may change at any time, may be of those that come from one address alone, and goes when it is not set any more.
func TestTrunksChange(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		l.attachCgroup()
		trunk := netip.AddrPortFrom(f.relay, 9000)
		at, from := TrunkKey{TrunkAt, trunk}, TrunkKey{TrunkFrom, netip.AddrPortFrom(f.client, 0)}
		trunks := l.wide(trunk)
		window := func(from host) uint32 { return infoOf(t, l.pair(from, trunks).acceptor).Snd_cwnd }
		want := func(ofClient, ofOthers uint32) {
			t.Helper()
			if c, o := window(l.client), window(own(t)); c != ofClient || o != ofOthers {
				t.Errorf("windows %d and %d, want %d and %d", c, o, ofClient, ofOthers)
			}
		}
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{at: {Window: 20}, from: {Window: 30}}))
		want(30, 20)
		l.must(l.SetStart(from, TrunkStart{Window: 40}))
		want(40, 20)
		if n, err := l.TrunkCounts(from); err != nil || n.Established != 2 {
			t.Errorf("counts %+v, %v", n, err)
		}
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{at: {Window: 21}}))
		want(21, 21)
		if n, err := l.TrunkCounts(at); err != nil || n.Established != 4 {
			t.Errorf("counts %+v, %v", n, err) // they stay
		}
		if err := l.SetStart(from, TrunkStart{}); err == nil {
			t.Error("what is no trunk is set")
		}
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{from: {Window: 50}}))
		want(10, 10) // nothing is accepted as a trunk
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{at: {}, from: {Congestion: "nosuch"}}))
		want(10, 10)
		if n, err := l.TrunkCounts(from); err != nil || n != (TrunkCounts{Established: 1, Refused: 1}) {
			t.Errorf("counts %+v, %v", n, err)
		}
	})
}

// The window that an acceptor tells is as large as it is told to be, whatever its buffer was, but not in its SYN-ACK: that is not scaled
// (RFC 7323, 2.2), so that an opener has 64 KiB until the acceptor has sent something.
func TestTrunksAcceptorsReceiveWindow(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		l.attachCgroup()
		const segments = 1500
		trunk, other := netip.AddrPortFrom(f.relay, 9000), netip.AddrPortFrom(f.relay, 9001)
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{{TrunkAt, trunk}: {Receive: segments}}))
		advertised := func(at netip.AddrPort) (first, second, mss uint32) {
			made, err := listenWith(at)
			l.must(err)
			defer made.Close()
			p := l.pair(l.client, made)
			first = infoOf(t, p.opener).Snd_wnd
			if _, err := p.acceptor.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(p.opener, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			i := infoOf(t, p.opener)
			return first, i.Snd_wnd, i.Snd_mss
		}
		if first, second, mss := advertised(trunk); first > 65535 || second < segments*mss*9/10 {
			t.Errorf("a trunk is told %d and then %d bytes, want %d segments of %d", first, second, segments, mss)
		}
		if first, second, _ := advertised(other); first > 65535 || second > 128<<10 {
			t.Errorf("another connection is told %d and then %d bytes", first, second)
		}
	})
}

// The window that an opener tells is no larger than it is told to be, and in force with the end of the handshake.
func TestTrunksOpenersReceiveWindow(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		l.attachCgroup()
		const segments = 100
		trunk, other := netip.AddrPortFrom(f.server, 9000), netip.AddrPortFrom(f.server, 9001)
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{{TrunkTo, trunk}: {Receive: segments}}))
		advertised := func(at netip.AddrPort) (window, mss uint32) {
			i := infoOf(t, l.pair(own(t), l.server.listen(at)).acceptor)
			return i.Snd_wnd, i.Snd_mss
		}
		if window, mss := advertised(trunk); window < segments*mss*9/10 || window > segments*mss*11/10 {
			t.Errorf("a trunk tells %d bytes, want %d segments of %d", window, segments, mss)
		}
		if window, _ := advertised(other); window < 1<<20 {
			t.Errorf("another connection tells %d bytes of its buffer", window)
		}
	})
}

// First flights are counted when they are acknowledged, or when their connection ends; with what was sent again.
func TestTrunksFirstFlights(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := newLiveRelay(t, f)
		l.attachCgroup()
		trunk := netip.AddrPortFrom(f.relay, 9000)
		at := TrunkKey{TrunkAt, trunk}
		l.must(l.SetTrunks(map[TrunkKey]TrunkStart{at: {Window: 40, Congestion: "cubic"}}))
		trunks := l.wide(trunk)
		counts := func() TrunkCounts {
			n, err := l.TrunkCounts(at)
			l.must(err)
			return n
		}
		sends := func(p pair, bytes int) {
			t.Helper()
			done := make(chan error, 1)
			go func() {
				_, err := io.CopyN(io.Discard, p.opener, int64(bytes))
				done <- err
			}()
			if _, err := p.acceptor.Write(make([]byte, bytes)); err != nil {
				t.Fatal(err)
			}
			l.must(receive(t, done))
		}
		long := l.pair(l.client, trunks)
		sends(long, 400_000)
		poll(t, "the first flight", func() bool { return counts().Flights == 1 })
		if n := counts(); n.Sent != 40 || n.Retransmitted != 0 {
			t.Errorf("of a long flow: %+v", n)
		}
		short := l.pair(l.client, trunks)
		sends(short, 5000)
		unused := l.pair(l.client, trunks)
		for _, p := range []pair{short, unused} {
			p.opener.Close()
			p.acceptor.Close()
		}
		poll(t, "the end of the short flow", func() bool { return counts().Flights == 2 })
		if n := counts(); n.Established != 3 || n.Sent < 44 || n.Sent > 45 || n.Retransmitted != 0 {
			t.Errorf("with a short flow and none: %+v", n)
		}

		lossy := l.pair(l.client, trunks)
		address := netip.PrefixFrom(f.client, f.clientNet.Bits()).String()
		l.client.ip("addr", "del", address, "dev", "c0") // whose packets then are nobody's
		if _, err := lossy.acceptor.Write(make([]byte, 30_000)); err != nil {
			t.Fatal(err)
		}
		poll(t, "segments to be sent again", func() bool { return counts().Retransmitted > 0 })
		l.client.ip("addr", "add", address, "dev", "c0", "nodad")
		if _, err := io.CopyN(io.Discard, lossy.opener, 30_000); err != nil {
			t.Fatal(err)
		}
		lossy.opener.Close()
		lossy.acceptor.Close()
		poll(t, "the end of the lossy flow", func() bool { return counts().Flights == 3 })
		if n := counts(); n.Established != 4 || n.Retransmitted > 100 {
			t.Errorf("with a lossy flow: %+v", n)
		}
	})
}

func TestTrunksRefused(t *testing.T) {
	k := newRig(t)
	good := TrunkKey{TrunkTo, netip.MustParseAddrPort("10.0.0.1:9")}
	for name, trunks := range map[string]map[TrunkKey]TrunkStart{
		"no address":     {{TrunkTo, netip.AddrPort{}}: {}},
		"no port":        {{TrunkTo, netip.MustParseAddrPort("10.0.0.1:0")}: {}},
		"a port":         {{TrunkFrom, netip.MustParseAddrPort("10.0.0.1:1")}: {}},
		"no kind":        {{0, good.Address}: {}},
		"another kind":   {{4, good.Address}: {}},
		"a window":       {good: {Window: -1}},
		"a long name":    {good: {Congestion: "sixteen_letters_"}},
		"the same twice": {{TrunkAt, netip.MustParseAddrPort("0.0.0.0:9")}: {}, {TrunkAt, netip.MustParseAddrPort("[::]:9")}: {}},
	} {
		if err := k.SetTrunks(trunks); err == nil {
			t.Errorf("%s is set", name)
		}
	}
	many := make(map[TrunkKey]TrunkStart)
	for i := range MaxTrunks {
		many[TrunkKey{TrunkTo, netip.AddrPortFrom(good.Address.Addr(), uint16(i+1))}] = TrunkStart{}
	}
	k.must(k.SetTrunks(many))
	if n := kerneltest.Entries(t, k.objects.TrunkPlaces); n != MaxTrunks {
		t.Errorf("%d are set", n)
	}
	many[TrunkKey{TrunkAt, good.Address}] = TrunkStart{}
	if err := k.SetTrunks(many); err == nil {
		t.Error("one too many is set")
	}
	k.must(k.SetTrunks(map[TrunkKey]TrunkStart{good: {}}))
	k.must(k.SetTrunks(nil))
	if n := kerneltest.Entries(t, k.objects.TrunkPlaces); n != 0 || len(k.trunks.free) != MaxTrunks {
		t.Errorf("%d are left, %d places are free", n, len(k.trunks.free))
	}
}
