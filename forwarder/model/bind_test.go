package model

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// The host of these tests: port 1 is the host, ports 2 to 4 are links with addresses of their own.
var (
	internal = [2]netip.Addr{netip.MustParseAddr("192.0.0.2"), netip.MustParseAddr("64:ff9b:1::2")}
	server   = [2]netip.Addr{netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("2001:db8:5::5")}
	linkOf   = func(six int, no openflow.PortNo) netip.Addr { return []netip.Addr{v4(no), v6(no)}[six] }
	v4       = func(no openflow.PortNo) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(no)}) }
	v6       = func(no openflow.PortNo) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(no)})
	}
	gatewayMAC = packet.MAC{2, 0x42, 0x74}
)

func link(six int, no openflow.PortNo, weight uint16) openflow.Bucket {
	field := openflow.FieldIPv4Src
	if six == 1 {
		field = openflow.FieldIPv6Src
	}
	return openflow.Bucket{Weight: weight, WatchPort: no, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{
		set(openflow.Match{}.Addr(field, linkOf(six, no))), port(no),
	}}
}

// host is a switch that binds flows by groups 16 (IPv4) and 17 (IPv6) by a method, with these weights of the links from port 2 on.
type host struct {
	*Switch
	t *testing.T
}

func newHost(t *testing.T, a openflow.ActionBind, weights ...uint16) *host {
	t.Helper()
	h := &host{&Switch{Pipeline: pipeline.New(pipeline.Limits{Tables: 3, Bindings: true}), NormalStack: true, Bindings: NewBindings(1000)}, t}
	for no := range openflow.PortNo(len(weights) + 1) {
		h.Ports = append(h.Ports, Port{No: no + 1, There: true, Live: true})
	}
	h.do(&openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeIndirect, Group: 1, Buckets: []openflow.Bucket{{
		WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny,
		Actions: []openflow.Action{set(openflow.Match{}.MAC(openflow.FieldEthSrc, gatewayMAC)), port(1)},
	}}})
	for six, etherType := range []uint64{typeIPv4, typeIPv6} {
		h.links(openflow.GroupAdd, six, weights...)
		a.Group = openflow.GroupID(16 + six)
		// The action set and the last table are not for packets that are bound for, nor for answers.
		h.do(entry(0, 1, openflow.Match{}.Port(1).Uint(openflow.FieldEthType, etherType), write(port(2)), openflow.InstructionGotoTable{Table: 1}))
		h.do(entry(1, 1, openflow.Match{}.Port(1).Uint(openflow.FieldEthType, etherType), apply(a)))
	}
	h.do(entry(0, 1, openflow.Match{}.Port(1).Uint(openflow.FieldEthType, 0x88b5), apply(openflow.ActionBind{Method: a.Method, Group: 16})))
	h.do(entry(0, 0, nil, apply(openflow.ActionUnbind{Group: 1}), openflow.InstructionGotoTable{Table: 2}))
	h.do(entry(2, 0, nil, apply(port(openflow.PortNormal))))
	return h
}

func (h *host) do(m openflow.Message) {
	h.t.Helper()
	if err := openflow.Check(m); err != nil {
		h.t.Fatalf("%+v: %v", m, err)
	}
	if _, err := h.Pipeline.Apply(time.Time{}, m); err != nil {
		h.t.Fatalf("%+v: %v", m, err)
	}
}

func (h *host) links(c openflow.GroupCommand, six int, weights ...uint16) {
	m := &openflow.GroupMod{Command: c, Kind: openflow.GroupTypeSelect, Group: openflow.GroupID(16 + six)}
	for i, w := range weights {
		m.Buckets = append(m.Buckets, link(six, openflow.PortNo(2+i), w))
	}
	h.do(m)
}

// out sends a frame from the host and returns the port of the link that it took, 0 for none.
func (h *host) out(frame []byte) openflow.PortNo {
	h.t.Helper()
	before := bytes.Clone(frame)
	r := h.Receive(1, frame)
	if !bytes.Equal(before, frame) {
		h.t.Fatal("the input was changed")
	}
	if len(r.Sent) > 1 {
		h.t.Fatalf("sent %+v", r.Sent)
	}
	if len(r.Sent) == 0 {
		return 0
	}
	wantSums(h.t, r.Sent[0].Frame)
	return r.Sent[0].Port
}

// in receives a frame by a link and returns what the host gets of it, nil if the host's stack has it.
func (h *host) in(no openflow.PortNo, frame []byte) []byte {
	h.t.Helper()
	r := h.Receive(no, frame)
	if (len(r.Sent) == 1) == (r.Stack != nil) || len(r.Sent) == 1 && r.Sent[0].Port != 1 {
		h.t.Fatalf("sent %+v, the stack has %x", r.Sent, r.Stack)
	}
	if r.Stack != nil {
		if !bytes.Equal(r.Stack, frame) {
			h.t.Errorf("the stack has %x of %x", r.Stack, frame)
		}
		return nil
	}
	wantSums(h.t, r.Sent[0].Frame)
	return r.Sent[0].Frame
}

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

func tcp(src, dst netip.AddrPort, flags packet.Flags) []byte {
	return packet.Build(packet.Spec{Src: src, Dst: dst, Flags: flags, Payload: []byte("abc")})
}

// ip is a frame of IP with a transport whose checksum, where it has one, is filled in.
func ip(src, dst netip.Addr, protocol byte, l4 []byte) []byte {
	l4 = bytes.Clone(l4)
	sum, field := packet.PseudoHeader(src, dst, packet.Protocol(protocol), len(l4)), 2
	switch protocol {
	case protocolUDP:
		field = 6
	case protocolICMP:
		sum = 0
	case protocolICMPv6:
	default:
		field = 0
	}
	if field != 0 && len(l4) >= field+2 {
		binary.BigEndian.PutUint16(l4[field:], packet.Checksum(l4, sum))
	}
	mac := make([]byte, 12)
	if src.Is6() {
		head := []byte{0x60, 0, 0, 0, byte(len(l4) >> 8), byte(len(l4)), protocol, 64}
		return slices.Concat(mac, []byte{0x86, 0xdd}, head, src.AsSlice(), dst.AsSlice(), l4)
	}
	n := 20 + len(l4)
	head := slices.Concat([]byte{0x45, 0, byte(n >> 8), byte(n), 0x12, 0x34, 0, 0, 64, protocol, 0, 0}, src.AsSlice(), dst.AsSlice())
	binary.BigEndian.PutUint16(head[10:], packet.Checksum(head, 0))
	return slices.Concat(mac, []byte{8, 0}, head, l4)
}

func udp(src, dst netip.AddrPort) []byte {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, src.Port()), dst.Port())
	return ip(src.Addr(), dst.Addr(), protocolUDP, append(b, 0, 11, 0, 0, 'a', 'b', 'c'))
}

func echo(src, dst netip.Addr, reply bool, id uint16) []byte {
	protocol, kind := byte(protocolICMP), byte(echoRequest)
	if src.Is6() {
		protocol, kind = protocolICMPv6, echoRequestSix
		if reply {
			kind = echoReplySix
		}
	} else if reply {
		kind = echoReply
	}
	return ip(src, dst, protocol, []byte{kind, 0, 0, 0, byte(id >> 8), byte(id), 0, 1, 'p'})
}

// wantSums requires right checksums of the frame, and of what an ICMP error in it quotes as a whole.
func wantSums(t *testing.T, b []byte) {
	t.Helper()
	v := look(b)
	if v.ipv4 && packet.Checksum(b[v.l3:v.l4], 0) != 0 {
		t.Errorf("IPv4's checksum of %x", b)
	}
	src, dst := ipAddresses(b, v.l3, v.ipv6)
	sum := packet.PseudoHeader(src, dst, packet.Protocol(v.protocol), len(b)-v.l4)
	if v.icmp {
		sum = 0
	}
	if v.checksum() != 0 && !v.fragment && packet.Checksum(b[v.l4:], sum) != 0 {
		t.Errorf("the transport's checksum of %x", b)
	}
}

// TestBindTurns: by turns as often as weights say, in both IP versions; a flow stays where it is, also when weights change.
func TestBindTurns(t *testing.T) {
	for six := range 2 {
		h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 2, 1)
		var first []openflow.PortNo
		for n := range uint16(9) {
			first = append(first, h.out(tcp(at(internal[six], 40000+n), at(server[six], 443), packet.SYN)))
		}
		if want := []openflow.PortNo{2, 3, 2, 2, 3, 2, 2, 3, 2}; !slices.Equal(first, want) {
			t.Errorf("got %v, want %v", first, want)
		}
		h.links(openflow.GroupModify, six, 0, 1)
		for n := range uint16(9) {
			if got := h.out(tcp(at(internal[six], 40000+n), at(server[six], 443), packet.ACK)); got != first[n] {
				t.Errorf("flow %d: by port %v, then %v", n, first[n], got)
			}
		}
		if got := h.out(udp(at(internal[six], 40000), at(server[six], 443))); got != 3 {
			t.Errorf("a new flow by port %v", got)
		}
	}
}

// TestBindMethods scripts flows, each to a server of its own, and the links that they take.
func TestBindMethods(t *testing.T) {
	type flow struct {
		end  int // a flow from the first on that is reset before; -1: none
		want openflow.PortNo
	}
	tests := []struct {
		name       string
		method     openflow.BindMethod
		weights    []uint16
		handshakes map[openflow.PortNo]time.Duration
		flows      []flow
	}{
		{"least", openflow.BindLeast, []uint16{1, 1}, nil, []flow{{-1, 2}, {-1, 3}, {1, 3}, {2, 3}, {0, 2}}},
		{"least by weight", openflow.BindLeast, []uint16{3, 1}, nil, []flow{{-1, 2}, {-1, 2}, {-1, 2}, {-1, 3}, {3, 3}, {0, 2}}},
		{"fastest, nothing measured", openflow.BindFastest, []uint16{1, 1}, nil, []flow{{-1, 2}, {-1, 3}}},
		{"fastest", openflow.BindFastest, []uint16{1, 1}, map[openflow.PortNo]time.Duration{2: 30 * time.Millisecond, 3: 10 * time.Millisecond},
			[]flow{{-1, 3}, {-1, 3}, {-1, 2}, {-1, 3}}},
		{"fastest, one that was not measured", openflow.BindFastest, []uint16{1, 1}, map[openflow.PortNo]time.Duration{2: 10 * time.Millisecond},
			[]flow{{-1, 3}, {-1, 2}, {-1, 2}}},
		{"even", openflow.BindEven, []uint16{1, 1}, nil, []flow{{-1, 2}, {-1, 3}, {-1, 2}, {-1, 3}, {1, 2}, {3, 3}, {5, 3}}},
		{"even by weight", openflow.BindEven, []uint16{2, 1}, nil, []flow{{-1, 2}, {-1, 3}, {-1, 2}, {-1, 2}, {-1, 3}, {-1, 2}}},
		{"even, more than twice the flows", openflow.BindEven, []uint16{1, 1}, nil,
			[]flow{{-1, 2}, {-1, 3}, {-1, 2}, {-1, 3}, {-1, 2}, {-1, 3}, {1, 2}, {3, 3}, {5, 3}}},
		{"even, one that does not end", openflow.BindEven, []uint16{1, 1}, nil,
			[]flow{{-1, 2}, {-1, 3}, {-1, 2}, {1, 3}, {3, 3}, {4, 3}, {-1, 2}, {5, 3}}},
		{"hash", openflow.BindHash, []uint16{1, 1}, nil, []flow{{-1, 3}, {-1, 3}}},
		{"standby", openflow.BindRoundRobin, []uint16{1, 0}, nil, []flow{{-1, 2}, {-1, 2}, {-1, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, openflow.ActionBind{Method: tt.method}, tt.weights...)
			h.Bindings.Handshakes = tt.handshakes
			h.Choose = func(_ *pipeline.Group, live []int) int { return live[len(live)-1] }
			for n, f := range tt.flows {
				of := func(n int, flags packet.Flags) []byte {
					return tcp(at(internal[0], 40000), at(server[0], uint16(n+1)), flags)
				}
				if f.end >= 0 {
					h.out(of(f.end, packet.RST))
				}
				if got := h.out(of(n, packet.SYN)); got != f.want {
					t.Errorf("flow %d: by port %v, want %v", n, got, f.want)
				}
			}
		})
	}
}

// TestBindWithoutPort: what becomes of a flow whose link has gone, and of it when the link is back.
func TestBindWithoutPort(t *testing.T) {
	for _, tt := range []struct {
		name         string
		first, later []byte
		want         openflow.PortNo
	}{
		{"TCP", tcp(at(internal[0], 1), at(server[0], 2), packet.SYN), tcp(at(internal[0], 1), at(server[0], 2), packet.ACK), 0},
		{"TCP, a SYN", tcp(at(internal[0], 1), at(server[0], 2), packet.SYN), tcp(at(internal[0], 1), at(server[0], 2), packet.SYN), 3},
		{"UDP", udp(at(internal[0], 1), at(server[0], 2)), udp(at(internal[0], 1), at(server[0], 2)), 3},
		{"echo", echo(internal[0], server[0], false, 7), echo(internal[0], server[0], false, 7), 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1, 0, 0)
			if got := h.out(tt.first); got != 2 {
				t.Fatalf("by port %v", got)
			}
			h.Ports[1].Live = false
			if got := h.out(tt.later); got != tt.want {
				t.Errorf("without it by port %v, want %v", got, tt.want)
			}
			h.Ports[1].Live = true
			back := tt.want
			if back == 0 {
				back = 2
			}
			if got := h.out(tt.later); got != back {
				t.Errorf("with it again by port %v, want %v", got, back)
			}
			h.links(openflow.GroupModify, 0)
			if got := h.out(tt.later); got != 0 {
				t.Errorf("without a bucket by port %v", got)
			}
			h.Ports[1].Live, h.Ports[2].Live, h.Ports[3].Live = false, false, false
			if got := h.out(udp(at(internal[0], 9), at(server[0], 9))); got != 0 {
				t.Errorf("without a link by port %v", got)
			}
		})
	}
}

// TestBindAffinity: for as many seconds as were asked for, flows to an address go where one went, but not where nothing lives.
func TestBindAffinity(t *testing.T) {
	h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin, Affinity: 60}, 1, 1)
	flow := func(n uint16, to netip.Addr) openflow.PortNo { return h.out(udp(at(internal[0], n), at(to, n))) }
	other := netip.MustParseAddr("203.0.113.6")
	if a, b, c := flow(1, server[0]), flow(2, other), flow(3, server[0]); a != 2 || b != 3 || c != 2 {
		t.Fatalf("by ports %v, %v, %v", a, b, c)
	}
	h.Bindings.Now += 60 * time.Second
	if got := flow(4, server[0]); got != 2 {
		t.Errorf("60 s later by port %v", got)
	}
	h.Ports[1].Live = false
	if got := flow(5, server[0]); got != 3 {
		t.Errorf("without the link by port %v", got)
	}
	h.Ports[1].Live = true
	h.Bindings.Now += 61 * time.Second
	if got := []openflow.PortNo{flow(6, server[0]), flow(7, other)}; got[0] == got[1] {
		t.Errorf("61 s later both by port %v", got[0])
	}
}

// TestBindClashes: two internal addresses whose answers could not be told apart are given different links, as long as there are some.
func TestBindClashes(t *testing.T) {
	h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1, 1)
	var got []openflow.PortNo
	for i := range byte(4) {
		got = append(got, h.out(udp(at(netip.AddrFrom4([4]byte{192, 0, 0, 2 + i}), 53), at(server[0], 53))))
	}
	if want := []openflow.PortNo{2, 3, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("by ports %v, want %v", got, want)
	}
	h.Bindings.Now += keepOther + 1
	if got := h.out(udp(at(netip.AddrFrom4([4]byte{192, 0, 0, 5}), 53), at(server[0], 53))); got == 0 {
		t.Error("there is no room though the others are over")
	}
}

func TestBindingsFull(t *testing.T) {
	h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1)
	h.Bindings.Most = 2
	for n, want := range []openflow.PortNo{2, 2, 0} {
		if got := h.out(udp(at(internal[0], uint16(n)), at(server[0], 53))); got != want {
			t.Errorf("flow %d by port %v, want %v", n, got, want)
		}
	}
	h.Bindings.Now += keepOther + 1
	if got := h.out(udp(at(internal[0], 9), at(server[0], 53))); got != 2 {
		t.Errorf("later by port %v", got)
	}
}

// TestBindAges: how long each flow is remembered, told by which link its next packet takes once the first link is a standby.
func TestBindAges(t *testing.T) {
	a, b := at(internal[0], 40000), at(server[0], 443)
	out := func(flags packet.Flags) func(*host) { return func(h *host) { h.out(tcp(a, b, flags)) } }
	in := func(flags packet.Flags) func(*host) {
		return func(h *host) { h.in(2, tcp(b, at(linkOf(0, 2), 40000), flags)) }
	}
	data := tcp(a, b, packet.ACK)
	tests := []struct {
		name  string
		steps []func(*host)
		last  []byte
		keeps time.Duration
	}{
		{"handshake", []func(*host){out(packet.SYN)}, data, keepOpening},
		{"answered", []func(*host){out(packet.SYN), in(packet.SYN | packet.ACK)}, data, keepTCP},
		{"SYN again, not answered", []func(*host){out(packet.SYN)}, tcp(a, b, packet.SYN), keepOpening},
		{"SYN again, answered", []func(*host){out(packet.SYN), in(packet.SYN | packet.ACK)}, tcp(a, b, packet.SYN), keepActive},
		{"begun in the middle", []func(*host){out(packet.ACK)}, data, keepTCP},
		{"FIN sent", []func(*host){out(packet.SYN), in(packet.ACK), out(packet.FIN | packet.ACK)}, data, keepTCP},
		{"FIN both ways", []func(*host){out(packet.SYN), in(packet.ACK), out(packet.FIN), in(packet.FIN | packet.ACK)}, data, keepClosing},
		{"FIN both ways, SYN", []func(*host){out(packet.SYN), in(packet.ACK), out(packet.FIN), in(packet.FIN)}, tcp(a, b, packet.SYN), -1},
		{"reset", []func(*host){out(packet.SYN), in(packet.ACK), out(packet.RST)}, data, keepClosing},
		{"reset by the peer", []func(*host){out(packet.SYN), in(packet.RST | packet.ACK)}, data, keepClosing},
		{"reset by who is not the peer", []func(*host){out(packet.SYN), in(packet.ACK), in(packet.RST), out(packet.ACK)}, data, keepTCP},
		{"UDP", []func(*host){func(h *host) { h.out(udp(a, b)) }}, udp(a, b), keepOther},
		{"echo", []func(*host){func(h *host) { h.out(echo(a.Addr(), b.Addr(), false, 1)) }}, echo(a.Addr(), b.Addr(), false, 1), keepICMP},
		{"SCTP", []func(*host){func(h *host) { h.out(ip(a.Addr(), b.Addr(), protocolSCTP, make([]byte, 12))) }},
			ip(a.Addr(), b.Addr(), protocolSCTP, make([]byte, 12)), keepTCP},
		{"GRE", []func(*host){func(h *host) { h.out(ip(a.Addr(), b.Addr(), 47, make([]byte, 4))) }}, ip(a.Addr(), b.Addr(), 47, make([]byte, 4)), keepOther},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for late, want := range []openflow.PortNo{2, 3} {
				h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1, 0)
				for _, step := range tt.steps {
					step(h)
				}
				h.links(openflow.GroupModify, 0, 0, 1)
				h.Bindings.Now += tt.keeps + time.Duration(late)
				if got := h.out(tt.last); got != want && tt.keeps+time.Duration(late) >= 0 {
					t.Errorf("after %v by port %v, want %v", h.Bindings.Now, got, want)
				}
			}
		})
	}
}

// TestBindFragments: later fragments go with their first one, and without it nowhere.
func TestBindFragments(t *testing.T) {
	h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1, 1)
	part := func(src, dst netip.AddrPort, id uint16, first bool) []byte {
		b := udp(src, dst)
		binary.BigEndian.PutUint16(b[18:], id)
		field := uint16(0x2000)
		if !first {
			field = 2
		}
		binary.BigEndian.PutUint16(b[20:], field)
		binary.BigEndian.PutUint16(b[24:], 0)
		binary.BigEndian.PutUint16(b[24:], packet.Checksum(b[14:34], 0))
		return b
	}
	us, them := at(internal[0], 1), at(server[0], 2)
	if got := h.out(part(us, them, 7, false)); got != 0 {
		t.Errorf("a later fragment alone by port %v", got)
	}
	for n, want := range []openflow.PortNo{2, 2, 2} {
		if got := h.out(part(us, them, 7, n == 0)); got != want {
			t.Errorf("fragment %d by port %v", n, got)
		}
	}
	back := at(linkOf(0, 2), 1)
	if h.in(2, part(them, back, 8, false)) != nil {
		t.Error("a later fragment alone answers a flow")
	}
	if h.in(2, part(them, back, 8, true)) == nil || h.in(2, part(them, back, 8, false)) == nil {
		t.Error("fragments are not known")
	}
}
