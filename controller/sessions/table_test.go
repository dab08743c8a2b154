package sessions

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"baton/api"
	"baton/packet"
)

var (
	client  = netip.MustParseAddrPort("10.1.0.2:40000")
	service = netip.MustParseAddrPort("10.9.9.9:80")
	router  = netip.MustParseAddrPort("10.9.9.9:50000")
	server  = netip.MustParseAddrPort("10.2.0.3:80")
	start   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func kind(from, to netip.AddrPort) Kind {
	switch {
	case to == service:
		return Client
	case to == server && from.Addr() == router.Addr():
		return Leg
	}
	return Unknown
}

// script plays packets to a table.
type script struct {
	*Table
	t   *testing.T
	now time.Time
}

func play(t *testing.T, r Rules) *script {
	t.Helper()
	return &script{New(r, kind), t, start}
}

func (s *script) frame(spec packet.Spec) Seen {
	s.t.Helper()
	f, err := packet.Parse(packet.Build(spec))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.See(s.now, Point{1, 2}, f)
}

// say is a segment from a to b.
func (s *script) say(a, b netip.AddrPort, flags packet.Flags, seq, ack packet.Seq, payload int) Seen {
	s.t.Helper()
	return s.frame(packet.Spec{Src: a, Dst: b, Flags: flags, Seq: seq, Ack: ack, Payload: make([]byte, payload)})
}

// open is a handshake whose first bytes have these numbers.
func (s *script) open(a, b netip.AddrPort, x, y packet.Seq) *Session {
	s.t.Helper()
	s.say(a, b, packet.SYN, x-1, 0, 0)
	s.say(b, a, packet.SYN|packet.ACK, y-1, x, 0)
	return s.say(a, b, packet.ACK, x, y, 0).Session
}

func TestHandshake(t *testing.T) {
	s := play(t, Rules{})
	options := packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(7, 0).AppendWindowScale(9)
	seen := s.frame(packet.Spec{Src: client, Dst: service, Flags: packet.SYN | packet.ECE | packet.CWR, Seq: 99, Options: options, SrcMAC: packet.MAC{2, 1}})
	if seen.Session == nil || !seen.Changed || seen.Session.State != api.ControllerHandshake {
		t.Fatalf("SYN: %+v", seen)
	}
	answer := packet.Options{}.AppendMSS(1400).AppendTimestamps(70, 7).AppendWindowScale(7)
	s.frame(packet.Spec{Src: service, Dst: client, Flags: packet.SYN | packet.ACK | packet.ECE, Seq: 0xffffffff, Ack: 100, Options: answer, SrcMAC: packet.MAC{2, 9}})
	seen = s.say(client, service, packet.ACK, 100, 0, 0)
	if seen.Session.State != api.ControllerEstablished || !seen.Changed {
		t.Fatalf("established: %+v", seen.Session)
	}
	l := seen.Session.ToRouter()
	if l.RcvNxt != 100 || l.SndNxt != 0 || !l.WindowScaling || l.ShiftOffered != 9 || l.ShiftSent != 7 || !l.Timestamps || l.TSvalSeen != 7 ||
		l.TSvalSent != 70 || l.SACK || !l.ECN || l.MSSOffered != 1460 || l.MSSSent != 1400 || l.LocalMAC != (packet.MAC{2, 9}) {
		t.Errorf("%+v", l)
	}
	if at := seen.Session.Opener.At; at != (Point{1, 2}) {
		t.Errorf("at %v", at)
	}
}

// TestBytes: bytes count once and in order, whatever the order of their packets, also where the numbers wrap around.
func TestBytes(t *testing.T) {
	type segment struct {
		at, length int
		fresh      bool
	}
	for _, tt := range []struct {
		name     string
		segments []segment
		want     uint32
	}{
		{"in order", []segment{{0, 100, true}, {100, 50, true}}, 150},
		{"repeated", []segment{{0, 100, true}, {0, 100, false}, {50, 50, false}}, 100},
		{"overlapping", []segment{{0, 100, true}, {50, 100, true}}, 150},
		{"hole filled", []segment{{100, 100, false}, {300, 10, false}, {0, 100, true}, {200, 100, true}}, 310},
		{"hole left", []segment{{0, 10, true}, {20, 10, false}}, 10},
		{"far away", []segment{{1 << 30, 100, false}, {0, 1, true}}, 1},
		{"before", []segment{{-100, 50, false}}, 0},
		{"empty", []segment{{0, 0, false}}, 0},
	} {
		for _, first := range []packet.Seq{1, 0xffffffc0, 0x7fffffc0} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, first), func(t *testing.T) {
				s := play(t, Rules{})
				session := s.open(client, service, first, 5000)
				for _, g := range tt.segments {
					seen := s.say(client, service, packet.ACK, first.Add(uint32(g.at)), 5000, g.length)
					if seen.Fresh != g.fresh {
						t.Errorf("%+v: fresh %v", g, seen.Fresh)
					}
				}
				if got := session.Opener.Bytes(); got != tt.want {
					t.Errorf("%d bytes, want %d", got, tt.want)
				}
			})
		}
	}
}

func TestHeld(t *testing.T) {
	s := play(t, Rules{})
	session := s.open(client, service, 100, 200)
	s.say(client, service, packet.ACK, 100, 200, 50)
	session.Held = true
	for _, f := range []packet.Flags{packet.ACK, packet.ACK | packet.FIN} {
		if seen := s.say(client, service, f, 150, 200, 20); seen.Fate != Hold || session.Opener.Bytes() != 50 || session.Opener.Finished {
			t.Errorf("%v: %+v, %d bytes", f, seen, session.Opener.Bytes())
		}
	}
	if seen := s.say(client, service, packet.ACK, 150, 201, 0); seen.Fate != Forward {
		t.Error("an acknowledgement is held")
	}
	if s.say(client, service, packet.RST, 150, 0, 0); session.State != api.ControllerClosed {
		t.Error("not closed by a RST")
	}
}

func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*script){
		"client resets": func(s *script) { s.say(client, service, packet.RST, 100, 0, 0) },
		"router resets": func(s *script) { s.say(service, client, packet.RST, 200, 0, 0) },
		"both finish": func(s *script) {
			s.say(client, service, packet.FIN|packet.ACK, 100, 200, 0)
			s.say(service, client, packet.FIN|packet.ACK, 200, 101, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, Rules{Linger: 3 * time.Second})
			session := s.open(client, service, 100, 200)
			end(s)
			if session.State != api.ControllerClosed {
				t.Fatal(session.State)
			}
			if gone := s.Tick(s.now.Add(2 * time.Second)); len(gone) != 0 {
				t.Errorf("forgotten at once: %v", gone)
			}
			if gone := s.Tick(s.now.Add(3 * time.Second)); len(gone) != 1 || gone[0].Why != "closed" || len(s.sessions) != 0 {
				t.Errorf("%v", gone)
			}
		})
	}
	s := play(t, Rules{})
	session := s.open(client, service, 100, 200)
	s.say(client, service, packet.FIN|packet.ACK, 110, 200, 0) // behind a hole
	s.say(service, client, packet.FIN|packet.ACK, 200, 100, 0)
	if session.Closed() {
		t.Error("closed by a FIN behind a hole")
	}
}

func TestTimers(t *testing.T) {
	rules := Rules{Handshake: 2 * time.Second, Report: 5 * time.Second, Idle: 20 * time.Second, LegIdle: 30 * time.Second}
	for _, tt := range []struct {
		name  string
		play  func(*script)
		after time.Duration
		why   string
	}{
		{"handshake", func(s *script) { s.say(client, service, packet.SYN, 1, 0, 0) }, 2 * time.Second, "handshake"},
		{"no request", func(s *script) { s.open(client, service, 1, 1) }, 20 * time.Second, "idle"},
		{"not reported", func(s *script) {
			s.open(client, service, 1, 1)
			s.say(client, service, packet.ACK, 1, 1, 10)
		}, 5 * time.Second, "unreported"},
		{"proxied", func(s *script) {
			session := s.open(client, service, 1, 1)
			session.Proxied = true
			s.say(client, service, packet.ACK, 1, 1, 10)
		}, 20 * time.Second, "idle"},
		{"leg", func(s *script) { s.open(router, server, 1, 1) }, 30 * time.Second, "idle"},
		{"repeated SYN", func(s *script) {
			s.say(client, service, packet.SYN, 1, 0, 0)
			s.now = s.now.Add(time.Second)
			s.say(client, service, packet.SYN, 1, 0, 0)
			s.now = start
		}, 2 * time.Second, "handshake"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := play(t, rules)
			tt.play(s)
			if gone := s.Tick(start.Add(tt.after - time.Millisecond)); len(gone) > 0 {
				t.Fatalf("too early: %v", gone[0].Why)
			}
			if gone := s.Tick(start.Add(tt.after)); len(gone) != 1 || gone[0].Why != tt.why || s.Counts().Expired[tt.why] != 1 {
				t.Errorf("%v", gone)
			}
		})
	}
	s := play(t, rules)
	session := s.open(client, service, 1, 1)
	session.State = api.ControllerHandedOff
	s.Hurry(session)
	if gone := s.Tick(start.Add(1000 * time.Hour)); len(gone) != 0 {
		t.Error("a handed-over session expires by itself")
	}
	s = play(t, rules)
	s.open(client, service, 1, 1)
	s.now = start.Add(15 * time.Second)
	s.say(service, client, packet.ACK, 1, 1, 0)
	if gone := s.Tick(start.Add(30 * time.Second)); len(gone) != 0 {
		t.Error("expires though packets have passed")
	}
}

func TestReuse(t *testing.T) {
	s := play(t, Rules{})
	old := s.open(client, service, 100, 200)
	if seen := s.say(client, service, packet.SYN, 99, 0, 0); seen.Session != old || seen.Retired != nil {
		t.Errorf("a repeated SYN: %+v", seen)
	}
	seen := s.say(client, service, packet.SYN, 7777, 0, 0)
	if seen.Retired != old || seen.Session == nil || seen.Session == old || len(s.sessions) != 1 || s.Counts().Retired != 1 {
		t.Errorf("%+v", seen)
	}
	s.Remove(old) // it is not there: the other one stays
	if len(s.sessions) != 1 || s.prefixes[prefix(client.Addr())] != 1 {
		t.Error("removing the old session has removed the other")
	}
}

func TestLimits(t *testing.T) {
	s := play(t, Rules{Total: 5, PerPrefix: 3})
	from := func(a string, port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), port) }
	for i := range uint16(3) {
		if seen := s.say(from("10.1.0.7", 1000+i), service, packet.SYN, 1, 0, 0); seen.Fate != Forward {
			t.Fatal(seen)
		}
	}
	if seen := s.say(from("10.1.0.8", 1), service, packet.SYN, 1, 0, 0); seen.Fate != Refuse || seen.Session != nil {
		t.Error("a fourth session of a prefix")
	}
	s.say(from("10.1.1.8", 1), service, packet.SYN, 1, 0, 0)
	s.say(from("10.1.2.8", 1), service, packet.SYN, 1, 0, 0)
	if seen := s.say(from("10.1.3.8", 1), service, packet.SYN, 1, 0, 0); seen.Fate != Refuse || s.Counts().Refused != 2 {
		t.Error("a sixth session")
	}
	s.Tick(start.Add(time.Hour))
	if len(s.sessions) != 0 || len(s.prefixes) != 0 {
		t.Errorf("%d sessions, %d prefixes are left", len(s.sessions), len(s.prefixes))
	}
}

func TestLegs(t *testing.T) {
	s := play(t, Rules{})
	leg := s.open(router, server, 100, 200)
	if leg.Kind != Leg || leg.Leg != Idle {
		t.Fatalf("%+v", leg)
	}
	n := 0
	s.Legs(func(*Session) { n++ })
	l := leg.ToRouter()
	if n != 1 || l.Peer != server || l.Local != router || l.SndNxt != 100 || l.RcvNxt != 200 {
		t.Errorf("%d legs, %+v", n, l)
	}
	s.say(router, server, packet.ACK, 100, 200, 10)
	if leg.Leg != Used {
		t.Error("a leg with a request is idle")
	}
	if seen := s.say(netip.MustParseAddrPort("10.7.7.7:1"), server, packet.SYN, 1, 0, 0); seen.Session != nil || s.Counts().Untracked != 1 {
		t.Error("a stranger's session is tracked")
	}
}

// FuzzSee: whatever frames come, the table does not fail, and its books agree.
func FuzzSee(f *testing.F) {
	f.Add(packet.Build(packet.Spec{Src: client, Dst: service, Flags: packet.SYN, Options: packet.Options{}.AppendTimestamps(1, 2)}),
		packet.Build(packet.Spec{Src: service, Dst: client, Flags: packet.SYN | packet.ACK, Ack: 1}))
	f.Add(packet.Build(packet.Spec{Src: router, Dst: server, Flags: packet.SYN}), []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s := New(Rules{Total: 3, PerPrefix: 2}, func(from, to netip.AddrPort) Kind {
			if to.Port()%2 == 0 {
				return Client
			}
			return Leg
		})
		now := start
		for range 3 {
			for _, data := range [][]byte{a, b} {
				frame, err := packet.Parse(data)
				if err != nil || frame.Protocol != packet.ProtocolTCP {
					continue
				}
				if seen := s.See(now, Point{}, frame); seen.Session != nil {
					seen.Session.ToRouter()
				}
				now = now.Add(time.Second)
				s.Tick(now)
			}
		}
		if len(s.sessions) != len(s.due) || len(s.sessions) > 3 {
			t.Errorf("%d sessions, %d deadlines", len(s.sessions), len(s.due))
		}
		s.Tick(now.Add(1000000 * time.Hour))
		if len(s.sessions) != 0 || len(s.legs) != 0 || len(s.prefixes) != 0 {
			t.Errorf("%d sessions, %d legs, %d prefixes are left", len(s.sessions), len(s.legs), len(s.prefixes))
		}
	})
}
