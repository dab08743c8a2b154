package controller

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/links"
	"baton/balance/tables"
	"baton/openflow"
	"baton/packet"
)

const (
	internalAddress  = "192.0.0.2"
	internalAddress6 = "64:ff9b:1::2"
)

// ruled is a state whose links have weights; 0: not usable. One rule, by the controller.
func ruled(weights ...int) tables.State {
	s := tables.State{
		Datapath: config.OpenVSwitch,
		Internal: tables.Internal{MAC: links.MAC{2, 0, 0, 1, 0, 1}, MTU: 1500, IPv4: netip.MustParseAddr(internalAddress),
			IPv6: netip.MustParseAddr(internalAddress6), Gateways: []tables.Gateway{
				{IPv4: netip.MustParseAddr("192.0.0.1"), IPv6: netip.MustParseAddr("64:ff9b:1::1")},
				{IPv4: netip.MustParseAddr("192.0.0.3"), IPv6: netip.MustParseAddr("64:ff9b:1::3")}}},
		Rules: []tables.Rule{{Otherwise: config.Any, Method: config.Controller}},
	}
	for place, w := range weights {
		n := byte(place)
		s.Links = append(s.Links, tables.Link{Usable: w > 0, Weight: uint16(w), Link: links.Link{Index: place + 1, MAC: links.MAC{2, 0, 0, 0, n, 1},
			MTU: 1500, Carrier: true,
			V4: links.Family{Address: netip.AddrFrom4([4]byte{10, n, 0, 2}), Gateway: netip.AddrFrom4([4]byte{10, n, 0, 1}),
				GatewayMAC: links.MAC{2, 0, 0, 0, n, 4}},
			V6: links.Family{Address: netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::2", n+1)), Gateway: netip.MustParseAddr("fe80::1"),
				GatewayMAC: links.MAC{2, 0, 0, 0, n, 6}}}})
	}
	return s
}

// tcp returns a packet of the host, from an internal port.
func tcp(port uint16, to string, flags packet.Flags) []byte {
	server := netip.MustParseAddrPort(to)
	from := netip.MustParseAddr(internalAddress)
	if server.Addr().Is6() {
		from = netip.MustParseAddr(internalAddress6)
	}
	return packet.Build(packet.Spec{DstMAC: packet.MAC(tables.GatewayMAC(0)), Src: netip.AddrPortFrom(from, port), Dst: server, Flags: flags})
}

// udp makes a datagram of a TCP packet: the ports are at the same place.
func udp(port uint16, to string) []byte {
	b := tcp(port, to, 0)
	if packet.Ethernet(b).Type() == packet.EtherTypeIPv4 {
		b[packet.EthernetSize+9] = byte(protocolUDP)
	} else {
		b[packet.EthernetSize+6] = byte(protocolUDP)
	}
	return b
}

func packetIn(port openflow.PortNo, c tables.Cookie, b []byte) *openflow.PacketIn {
	return &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: uint16(len(b)), Reason: openflow.ReasonAction, Cookie: uint64(c),
		Match: openflow.Match{}.Port(port), Data: b}
}

// TestAlgorithm1 is the paper's algorithm, line by line.
func TestAlgorithm1(t *testing.T) {
	for links := 2; links <= 5; links++ {
		weights := slices.Repeat([]int{1}, links)
		m := newMachine(1000)
		m.set(ruled(weights...))
		// 1: flowCounter ← 0
		flowCounter := 0
		for n := range 40 {
			// 2: for each packet-in event with pkt
			port := uint16(40000 + n)
			// 3: if pkt.flag.SYN == 1 and pkt.flag.ACK == 0
			for _, flags := range []packet.Flags{packet.ACK, packet.SYN | packet.ACK} {
				if r := m.packetIn(0, packetIn(tables.InsidePort, tables.NewCookie(tables.RuleOf, 0), tcp(port, "203.0.113.9:80", flags))); len(r.send) > 0 {
					t.Fatalf("%v led to %v", flags, r.verdict)
				}
			}
			// 4: i ← flowCounter mod N; 5: flowCounter ← flowCounter + 1
			i := flowCounter % links
			flowCounter++
			r := m.packetIn(0, packetIn(tables.InsidePort, tables.NewCookie(tables.RuleOf, 0), tcp(port, "203.0.113.9:80", packet.SYN)))
			if r.verdict != Given || len(r.send) != 3 {
				t.Fatalf("got %v", r)
			}
			// 6 to 8: R.match eth_type == IP, ip_proto == TCP, tcp_src == pkt.tcp.src_port; here also the addresses and the server's port, as
			// another server's flow may have the same port
			rule := r.send[1].(*openflow.FlowMod)
			for field, want := range map[openflow.Field]uint64{openflow.FieldEthType: 0x0800, openflow.FieldIPProto: 6, openflow.FieldTCPSrc: uint64(port)} {
				if got, ok := rule.Match.Get(field); !ok || got.Uint() != want || got.Masked {
					t.Errorf("%v: got %v, want %d", field, got, want)
				}
			}
			// 9 to 12: setField ip_src, eth_src, eth_dst, output to i: a group's, which follows the link's gateway
			do, ok := rule.Instructions[0].(openflow.InstructionWriteActions)
			group := openflow.ActionGroup{Group: tables.LinkGroup(i, false)}
			if !ok || !slices.Equal(do.Actions, []openflow.Action{group}) {
				t.Fatalf("flow %d: %s, want link %d", n, tables.Text(rule), i)
			}
			// 13: install R on the switch; and the packet goes, too
			if rule.Command != openflow.FlowAdd {
				t.Errorf("got %s", tables.Text(rule))
			}
			out := r.send[2].(*openflow.PacketOut)
			if !slices.Equal(out.Actions, []openflow.Action{group}) || !slices.Equal(out.Data, tcp(port, "203.0.113.9:80", packet.SYN)) {
				t.Errorf("got %v", out)
			}
		}
	}
}

// TestRoundRobin: weighted round-robin is exact in every period of the weights' sum, and evenly spread within it.
func TestRoundRobin(t *testing.T) {
	tests := []struct {
		weights []uint16
		want    string
	}{
		{[]uint16{1, 1}, "0101010101"},
		{[]uint16{1, 1, 1}, "012012012"},
		{[]uint16{1, 2}, "101101101"},
		{[]uint16{5, 1, 1}, "00102000010200"},
		{[]uint16{0, 3}, "1111"},
	}
	for _, tt := range tests {
		var options []tables.Option
		for place, w := range tt.weights {
			options = append(options, tables.Option{Place: place, Weight: w})
		}
		s, got := roundRobin{}, ""
		for range tt.want {
			got += strconv.Itoa(s.next(options))
		}
		if got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.weights, got, tt.want)
		}
	}
}

// TestTranscripts plays the files of testdata. A line is an event, or what must follow it, in order and nothing else:
//
//	links W…              the links' weights; 0: not usable
//	address N A           link N has another IPv4 address
//	limit N               as many flows may be
//	affinity TIME         flows to a server use one link for so long
//	at TIME               the clock stands at TIME
//	> tcp PORT SERVER F…  a packet of the host by the rule, with flags
//	> udp PORT SERVER
//	> end PORT SERVER F…  the same, reported as one that begins or ends a flow; "back" before the flags: the server's, by link 0
//	> idle PORT SERVER N  the entry for answers was idle and is gone, after N packets
//	= VERDICT
//	< out|back PORT SERVER link N idle S    an entry is added
//	< delete out|back …                     and deleted
//	< delete link N vM                      all flows of a link
//	< packet link N
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d transcripts, error %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { play(t, f) })
	}
}

// script is a machine with its input so far.
type script struct {
	t       *testing.T
	machine *machine
	now     time.Duration
	did     []string
}

func play(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &script{t: t, machine: newMachine(100)}
	for number, lines := 1, bufio.NewScanner(f); lines.Scan(); number++ {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "=" || words[0] == "<":
			line := strings.Join(words, " ")
			if len(s.did) == 0 || s.did[0] != line {
				t.Fatalf("%s:%d: got %q, want %q", file, number, s.did, line)
			}
			s.did = s.did[1:]
		default:
			if len(s.did) > 0 {
				t.Fatalf("%s:%d: before this, %q", file, number, s.did)
			}
			s.event(words)
		}
	}
	if len(s.did) > 0 {
		t.Fatalf("%s: at the end, %q", file, s.did)
	}
}

func (s *script) number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) event(words []string) {
	m := s.machine
	switch words[0] {
	case "links":
		var weights []int
		for _, w := range words[1:] {
			weights = append(weights, s.number(w))
		}
		state := ruled(weights...)
		if len(m.state.Rules) > 0 {
			state.Rules = m.state.Rules
		}
		s.sent(m.set(state))
	case "address":
		state := m.state
		state.Links = slices.Clone(state.Links)
		state.Links[s.number(words[1])].V4.Address = netip.MustParseAddr(words[2])
		s.sent(m.set(state))
	case "limit":
		m.limit = s.number(words[1])
	case "affinity":
		m.state.Rules[0].Affinity = s.duration(words[1])
	case "at":
		s.now = s.duration(words[1])
	case ">":
		s.packet(words[1], uint16(s.number(words[2])), words[3], words[4:])
	default:
		s.t.Fatalf("%q is no event", words)
	}
}

func (s *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

var flagNames = map[string]packet.Flags{"SYN": packet.SYN, "ACK": packet.ACK, "FIN": packet.FIN, "RST": packet.RST}

func (s *script) packet(kind string, port uint16, server string, more []string) {
	m, rule := s.machine, tables.NewCookie(tables.RuleOf, 0)
	var flags packet.Flags
	for _, word := range more {
		flags |= flagNames[word]
	}
	b := tcp(port, server, flags)
	switch kind {
	case "tcp":
		s.result(m.packetIn(s.now, packetIn(tables.InsidePort, rule, b)))
	case "udp":
		s.result(m.packetIn(s.now, packetIn(tables.InsidePort, rule, udp(port, server))))
	case "end":
		from := openflow.PortNo(tables.InsidePort)
		if more[0] == "back" {
			f, _ := packet.Parse(b)
			link := netip.AddrPortFrom(m.state.Links[0].V4.Address, port)
			from, b = tables.FirstLink, packet.Build(packet.Spec{Src: f.Dst, Dst: link, Flags: flags, Payload: make([]byte, 1000)})[:114]
		}
		s.result(m.packetIn(s.now, packetIn(from, tables.NewCookie(tables.EndOf, 0), b)))
	case "idle":
		f, _, err := readFlow(b)
		if err != nil {
			s.t.Fatal(err)
		}
		if m.flows[f] == nil {
			f.Protocol = protocolUDP
		}
		_, back := m.state.FlowEntries(f, m.flows[f].place, 0)
		s.sent(m.removed(&openflow.FlowRemoved{Cookie: back.Cookie, Table: back.Table, Match: back.Match, Packets: uint64(s.number(more[0]))}))
	default:
		s.t.Fatalf("%q is no packet", kind)
	}
}

func (s *script) result(r result) {
	s.did = append(s.did, "= "+string(r.verdict))
	s.sent(r.send)
}

// sent notes messages in the transcripts' words.
func (s *script) sent(list []openflow.Message) {
	for _, m := range list {
		if err := openflow.Check(m); err != nil {
			s.t.Errorf("%s: %v", tables.Text(m), err)
		}
		switch m := m.(type) {
		case *openflow.PacketOut:
			group := m.Actions[0].(openflow.ActionGroup).Group
			s.did = append(s.did, fmt.Sprintf("< packet link %d", (group-tables.LinkGroup(0, false))/2))
		case *openflow.FlowMod:
			s.did = append(s.did, "< "+s.entry(m))
		}
	}
}

func (s *script) entry(m *openflow.FlowMod) string {
	number := tables.Cookie(m.Cookie).Number() - int(tables.LinkGroup(0, false))
	if m.Command == openflow.FlowDelete {
		return fmt.Sprintf("delete link %d v%d", number/2, 4+2*(number&1))
	}
	get := func(names ...openflow.Field) openflow.TLV {
		for _, f := range names {
			if t, ok := m.Match.Get(f); ok {
				return t
			}
		}
		s.t.Fatalf("%s has no %v", tables.Text(m), names)
		return openflow.TLV{}
	}
	direction, port := "out", get(openflow.FieldTCPSrc, openflow.FieldUDPSrc)
	address, server := get(openflow.FieldIPv4Dst, openflow.FieldIPv6Dst), get(openflow.FieldTCPDst, openflow.FieldUDPDst)
	if m.Table == tables.Back {
		direction, port, server = "back", server, port
		address = get(openflow.FieldIPv4Src, openflow.FieldIPv6Src)
	}
	to := netip.AddrPortFrom(address.Addr(), uint16(server.Uint()))
	text := fmt.Sprintf("%s %d %s link %d idle %d", direction, port.Uint(), to, number/2, m.Idle)
	if m.Command == openflow.FlowDeleteStrict {
		return "delete " + text
	}
	return text
}

// TestOthers: what is no first packet of a flow of the host's leads to nothing.
func TestOthers(t *testing.T) {
	rule := tables.NewCookie(tables.RuleOf, 0)
	fragment := udp(1, "203.0.113.9:53")
	fragment[packet.EthernetSize+7] = 1 // the second one
	icmp := packet.BuildICMP(packet.ICMPSpec{Src: netip.MustParseAddr(internalAddress), Dst: netip.MustParseAddr("203.0.113.9"), Type: 3})
	tests := []struct {
		name string
		in   *openflow.PacketIn
		want Verdict
	}{
		{"from a link", packetIn(tables.FirstLink, rule, tcp(1, "203.0.113.9:80", packet.SYN)), Ignored},
		{"by an entry that is not ours", packetIn(tables.InsidePort, 0, tcp(1, "203.0.113.9:80", packet.SYN)), Ignored},
		{"a rule that is gone", packetIn(tables.InsidePort, tables.NewCookie(tables.RuleOf, 7), tcp(1, "203.0.113.9:80", packet.SYN)), DropRule},
		{"of another address", packetIn(tables.InsidePort, rule, packet.Build(packet.Spec{Src: netip.MustParseAddrPort("172.17.0.2:1"),
			Dst: netip.MustParseAddrPort("203.0.113.9:80"), Flags: packet.SYN})), DropOther},
		{"a later fragment", packetIn(tables.InsidePort, rule, fragment), DropShort},
		{"an ICMP error", packetIn(tables.InsidePort, rule, icmp), DropShort},
		{"no packet", packetIn(tables.InsidePort, rule, []byte{1, 2, 3}), DropShort},
		{"half a header", packetIn(tables.InsidePort, rule, tcp(1, "203.0.113.9:80", packet.SYN)[:40]), DropShort},
		{"a resolver of no link", packetIn(tables.InsidePort, tables.NewCookie(tables.ResolverOf, 0), udp(1, "203.0.113.9:53")), Given},
		{"an end of no flow", packetIn(tables.InsidePort, tables.NewCookie(tables.EndOf, 0), tcp(1, "203.0.113.9:80", packet.RST)), Ignored},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(10)
			m.set(ruled(1, 1))
			if r := m.packetIn(0, tt.in); r.verdict != tt.want || (len(r.send) > 0) != (tt.want == Given) {
				t.Errorf("got %v, want %v", r, tt.want)
			}
		})
	}
}

// FuzzPacketIn: whatever a packet holds, what is sent is well-formed.
func FuzzPacketIn(f *testing.F) {
	f.Add(uint32(1), uint64(tables.NewCookie(tables.RuleOf, 0)), tcp(1, "203.0.113.9:80", packet.SYN))
	f.Add(uint32(1), uint64(tables.NewCookie(tables.RuleOf, 0)), udp(1, "[2001:db8::9]:80"))
	f.Add(uint32(2), uint64(tables.NewCookie(tables.EndOf, 0)), tcp(1, "203.0.113.9:80", packet.FIN))
	for _, text := range []string{askARP, askNeighbour} {
		b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint32(1), uint64(tables.NewCookie(tables.Fixed, 0)), b)
	}
	f.Fuzz(func(t *testing.T, port uint32, cookie uint64, b []byte) {
		m := newMachine(10)
		m.set(ruled(1, 1))
		for range 2 {
			r := m.packetIn(0, packetIn(openflow.PortNo(port), tables.Cookie(cookie), b))
			for _, s := range r.send {
				if err := openflow.Check(s); err != nil {
					t.Fatalf("%s: %v", tables.Text(s), err)
				}
			}
		}
	})
}
