package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
	"baton/openflow"
	"baton/packet"
)

// device is as much of a switch as tables ask for.
type device struct {
	groups  map[openflow.GroupID]*openflow.GroupMod
	entries map[place]*openflow.FlowMod
}

func newDevice() *device {
	return &device{map[openflow.GroupID]*openflow.GroupMod{}, map[place]*openflow.FlowMod{}}
}

// take does as a message says. It refuses what a switch refuses, and what loses more than it says.
func (d *device) take(m openflow.Message) error {
	if err := openflow.Check(m); err != nil {
		return err
	}
	switch m := m.(type) {
	case *openflow.GroupMod:
		return d.takeGroup(m)
	case *openflow.FlowMod:
		at := placeOf(m)
		switch was := d.entries[at]; {
		case m.Command == openflow.FlowDeleteStrict && was == nil, m.Command == openflow.FlowModifyStrict && was == nil:
			return fmt.Errorf("no such entry")
		case m.Command == openflow.FlowDeleteStrict:
			delete(d.entries, at)
			return nil
		}
		for g := range groupsOf(m) {
			if d.groups[g] == nil {
				return fmt.Errorf("group %d is not there", g)
			}
		}
		e := *m
		e.Command = openflow.FlowAdd
		if m.Command == openflow.FlowModifyStrict {
			e.Cookie = d.entries[at].Cookie // as the specification has it [6.4]
		}
		d.entries[at] = &e
		return nil
	}
	return fmt.Errorf("not a message about tables")
}

func (d *device) takeGroup(m *openflow.GroupMod) error {
	if there := d.groups[m.Group] != nil; there != (m.Command != openflow.GroupAdd) {
		return fmt.Errorf("group %d: there %v", m.Group, there)
	}
	if m.Command == openflow.GroupDelete {
		for _, e := range d.entries {
			if groupsOf(e)[m.Group] {
				return fmt.Errorf("takes %s with it", Text(e))
			}
		}
		delete(d.groups, m.Group)
		return nil
	}
	g := *m
	g.Command = openflow.GroupAdd
	d.groups[m.Group] = &g
	return nil
}

func groupsOf(e *openflow.FlowMod) map[openflow.GroupID]bool {
	set := map[openflow.GroupID]bool{}
	for _, i := range e.Instructions {
		if i, ok := i.(openflow.InstructionApplyActions); ok {
			for _, a := range i.Actions {
				switch a := a.(type) {
				case openflow.ActionGroup:
					set[a.Group] = true
				case openflow.ActionBind:
					set[a.Group] = true
				case openflow.ActionUnbind:
					set[a.Group] = true
				}
			}
		}
	}
	return set
}

func (d *device) tables() Tables {
	m := maker{groups: d.groups, entries: slices.Collect(maps.Values(d.entries))}
	return m.tables()
}

// frame is the fields of a packet as they are in a match.
type frame map[openflow.Field][]byte

func (f frame) meets(m openflow.Match) bool {
	for t := range m.All() {
		v, ok := f[t.Field]
		if !ok {
			return false
		}
		for i := range v {
			mask := byte(0xff)
			if t.Masked {
				mask = t.Mask[i]
			}
			if v[i]&mask != t.Value[i]&mask {
				return false
			}
		}
	}
	return true
}

// answers are all the ways that a packet may go from a table on; more than one if entries of the same priority differ.
func (d *device) answers(f frame, table openflow.TableID) map[string]bool {
	var best []*openflow.FlowMod
	for _, e := range d.entries {
		if e.Table != table || !f.meets(e.Match) || len(best) > 0 && best[0].Priority > e.Priority {
			continue
		}
		if len(best) > 0 && best[0].Priority < e.Priority {
			best = nil
		}
		best = append(best, e)
	}
	all := map[string]bool{}
	if len(best) == 0 {
		all["miss"] = true
	}
	for _, e := range best {
		text, next := "", openflow.TableID(0)
		g := maps.Clone(f)
		for _, i := range e.Instructions {
			switch i := i.(type) {
			case openflow.InstructionApplyActions:
				text += actionsText(i.Actions)
			case openflow.InstructionWriteMetadata:
				g[openflow.FieldMetadata] = binary.BigEndian.AppendUint64(nil, i.Metadata)
			case openflow.InstructionGotoTable:
				next = i.Table
			}
		}
		if next == 0 {
			all[text] = true
			continue
		}
		for after := range d.answers(g, next) {
			all[text+";"+after] = true
		}
	}
	return all
}

var (
	remotes = []string{"203.0.113.9", "198.51.100.53", "198.51.100.54", "8.8.8.8", "192.0.0.1", "192.0.0.2", "10.0.0.2", "10.1.0.2", "10.2.0.2",
		"2001:db8:77::1", "2001:db8:c::53", "64:ff9b:1::1", "2001:db8:a::2", "2001:db8:c::2", "2001:db8:5::5"}
	somePorts = []uint16{53, 80, 443, 853, 5060, 5061, 40000}
)

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomFrame is a packet that rules may ask about.
func randomFrame(r *rand.Rand) frame {
	f := frame{openflow.FieldMetadata: make([]byte, 8)}
	put := func(field openflow.Field, b ...byte) { f[field] = b }
	put(openflow.FieldInPort, 0, 0, 0, byte(1+r.IntN(5)))
	if r.IntN(2) == 0 {
		put(openflow.FieldInPort, 0, 0, 0, InsidePort)
	}
	gateway := GatewayMAC(r.IntN(3))
	put(openflow.FieldEthDst, gateway[:]...)
	if r.IntN(8) == 0 {
		put(openflow.FieldEthType, 0x08, 0x06)
		return f
	}
	to := netip.MustParseAddr(pick(r, remotes...))
	dest, kind, icmp := openflow.FieldIPv4Dst, []byte{0x08, 0x00}, packet.ProtocolICMP
	if to.Is6() {
		dest, kind, icmp = openflow.FieldIPv6Dst, []byte{0x86, 0xdd}, packet.ProtocolICMPv6
	}
	put(openflow.FieldEthType, kind...)
	put(dest, to.AsSlice()...)
	p := pick(r, packet.ProtocolTCP, protocolUDP, icmp, packet.Protocol(132))
	put(openflow.FieldIPProto, byte(p))
	port := binary.BigEndian.AppendUint16(nil, pick(r, somePorts...))
	switch p {
	case packet.ProtocolTCP:
		put(openflow.FieldTCPDst, port...)
	case protocolUDP:
		put(openflow.FieldUDPDst, port...)
	case packet.ProtocolICMP:
		put(openflow.FieldICMPv4Type, pick(r, byte(8), 0))
	case packet.ProtocolICMPv6:
		put(openflow.FieldICMPv6Type, pick(r, byte(128), 135, 136))
	}
	return f
}

// randomState differs from another one in a few things.
func randomState(r *rand.Rand, d config.Datapath) State {
	s := large(d)
	for i := range s.Links {
		l := &s.Links[i]
		l.Usable, l.Weight, l.Tier = r.IntN(3) > 0, uint16(r.IntN(4)), r.IntN(2)
		l.MTU = pick(r, 1500, 1420)
		l.MAC[5] = pick[byte](r, 1, 2)
		if r.IntN(4) == 0 {
			l.Resolvers = nil
		}
	}
	if r.IntN(4) == 0 {
		s.Internal.IPv6 = netip.Addr{}
	}
	methods := []config.Method{config.RoundRobin, config.Least, config.Fastest, config.Hash, config.Controller}
	last := len(s.Rules) - 1
	r.Shuffle(last, func(i, j int) { s.Rules[i], s.Rules[j] = s.Rules[j], s.Rules[i] })
	s.Rules = s.Rules[r.IntN(len(s.Rules)):]
	for i := range s.Rules {
		s.Rules[i].Method = pick(r, methods...)
		s.Rules[i].Otherwise = pick(r, config.Any, config.Drop)
		s.Rules[i].Affinity = time.Duration(r.IntN(2)) * time.Minute
		if r.IntN(3) == 0 {
			s.Rules[i].Links = []int{r.IntN(4)}
		}
	}
	return s
}

func subset(a, b, c map[string]bool) bool {
	for k := range a {
		if !b[k] && !c[k] {
			return false
		}
	}
	return true
}

// TestChange: a change is refused nowhere, ends in the new tables, and at every message of it each packet goes the old way or the new one.
func TestChange(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 150 {
		d := pick(r, config.Baton, config.OpenVSwitch)
		a, b := randomState(r, d), randomState(r, d)
		old, want := Make(a), Make(b)
		s := newDevice()
		for _, m := range Change(Tables{}, old) {
			if err := s.take(m); err != nil {
				t.Fatalf("%s: %v", Text(m), err)
			}
		}
		if got := s.tables(); got.String() != old.String() {
			t.Fatalf("got\n%swant\n%s", got, old)
		}
		var frames []frame
		for range 40 {
			// Of an IP version that the host's side gets or loses there are no flows in between.
			if f := randomFrame(r); f[openflow.FieldIPv6Dst] == nil || a.Internal.IPv6 == b.Internal.IPv6 {
				frames = append(frames, f)
			}
		}
		before, after := s, newDevice()
		for _, m := range Change(Tables{}, want) {
			if err := after.take(m); err != nil {
				t.Fatalf("%s: %v", Text(m), err)
			}
		}
		s = &device{maps.Clone(before.groups), maps.Clone(before.entries)}
		var done []string
		for _, m := range Change(old, want) {
			done = append(done, Text(m))
			if err := s.take(m); err != nil {
				t.Fatalf("%s: %v", strings.Join(done, "\n"), err)
			}
			for _, f := range frames {
				is, was, will := s.answers(f, 0), before.answers(f, 0), after.answers(f, 0)
				if !subset(is, was, will) {
					t.Fatalf("%v goes %v, before %v, after %v, with\n%s", f, is, was, will, strings.Join(done, "\n"))
				}
			}
		}
		if got := s.tables(); got.String() != want.String() {
			t.Fatalf("got\n%swant\n%s", got, want)
		}
		if again := Change(want, Make(b)); len(again) > 0 {
			t.Fatalf("a state that is the same changes: %s", Text(again[0]))
		}
	}
}

// TestChangeLeavesAlone: what a change is not about is not mentioned.
func TestChangeLeavesAlone(t *testing.T) {
	tests := []struct {
		name   string
		change func(*State)
		want   []string
	}{
		{"nothing", func(*State) {}, nil},
		{"a weight", func(s *State) { s.Links[1].Weight = 9 }, []string{"group modify group_id=1048588"}},
		{"a link is gone", func(s *State) { s.Links[0].Usable = false }, []string{"group modify group_id=1048588"}},
		{"all links are gone", func(s *State) { s.Links[0].Usable, s.Links[1].Usable = false, false }, []string{
			"modify_strict table=1,priority=30000", "group delete group_id=1048588"}},
		{"the host's MAC", func(s *State) { s.Internal.MAC[5] = 9 }, []string{"group modify group_id=1,"}},
		{"a rule comes before another", func(s *State) {
			s.Rules = slices.Insert(s.Rules, 0, Rule{To: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, Links: []int{1}, Otherwise: config.Drop,
				Method: config.RoundRobin})
		}, []string{"group add group_id=1048586", "add table=1,priority=30000,", "add table=1,priority=29999,", "delete_strict table=1,priority=30000"}},
		{"an address", func(s *State) { s.Links[1].V4.Address = netip.MustParseAddr("10.1.0.9") }, []string{"group modify group_id=1048588",
			"add table=0,priority=100,cookie=0x42744e4200000000,in_port=3,eth_type=0x800,ipv4_dst=10.1.0.9",
			"delete_strict table=0,priority=100,cookie=0x42744e4200000000,in_port=3,eth_type=0x800,ipv4_dst=10.1.0.2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := small(config.Baton, config.RoundRobin), small(config.Baton, config.RoundRobin)
			tt.change(&b)
			got := Change(Make(a), Make(b))
			ok := len(got) == len(tt.want)
			for i := 0; ok && i < len(got); i++ {
				ok = strings.HasPrefix(Text(got[i]), tt.want[i])
			}
			if !ok {
				for _, m := range got {
					t.Errorf("got %s", Text(m))
				}
				t.Errorf("want %s", strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestRead: tables as reported by a switch are the same tables, whatever the order of fields; flows are separate, and foreign entries are
// included so that they are removed.
func TestRead(t *testing.T) {
	s := large(config.Baton)
	want := Make(s)
	flow := Flow{packet.ProtocolTCP, netip.MustParseAddrPort("192.0.0.2:40000"), netip.MustParseAddrPort("203.0.113.9:443")}
	out, back := s.FlowEntries(flow, 1, 60)
	stranger := openflow.NewFlowMod(openflow.FlowAdd)
	stranger.Match = openflow.Match{}.Port(7)
	var entries []openflow.FlowStats
	for _, e := range append(slices.Clone(want.Entries), out, back, stranger) {
		entries = append(entries, openflow.FlowStats{Table: e.Table, Priority: e.Priority, Cookie: e.Cookie, Idle: e.Idle, Flags: e.Flags,
			Match: backwards(e.Match), Instructions: e.Instructions})
	}
	var groups []openflow.GroupDesc
	for _, g := range want.Groups {
		groups = append(groups, openflow.GroupDesc{Kind: g.Kind, Group: g.Group, Buckets: g.Buckets})
	}
	groups = append(groups, openflow.GroupDesc{Kind: openflow.GroupTypeAll, Group: 7})
	got, flows := Read(entries, groups)
	var left []string
	for _, m := range Change(got, want) {
		left = append(left, Text(m))
	}
	if w := []string{"delete_strict table=0,priority=32768,in_port=7", "group delete group_id=7,type=all"}; !slices.Equal(left, w) {
		t.Errorf("got %q, want %q", left, w)
	}
	if len(flows) != 2 || !bytes.Equal(flows[0].Match, back.Match) || !bytes.Equal(flows[1].Match, out.Match) {
		t.Fatalf("got flows %v", flows)
	}
	if f, place, ok := s.ReadFlow(flows[0]); !ok || f != flow || place != 1 {
		t.Errorf("got %v at %d, %v", f, place, ok)
	}
	if _, _, ok := s.ReadFlow(flows[1]); ok {
		t.Error("the way out was read as the way back")
	}
}

// backwards is a match with its fields the other way round.
func backwards(m openflow.Match) openflow.Match {
	var list []openflow.Match
	for t := range m.All() {
		mask := t.Mask
		if !t.Masked {
			mask = nil
		}
		list = append(list, openflow.Match{}.Bytes(t.Field, t.Value, mask))
	}
	slices.Reverse(list)
	return slices.Concat(list...)
}

// TestFlowEntries: a flow's packets go out by its link's group, and only its answers come back to it.
func TestFlowEntries(t *testing.T) {
	s := large(config.OpenVSwitch)
	s.Internal.IPv6 = netip.MustParseAddr("64:ff9b:1::2")
	tests := []struct{ name, internal, remote, out, back string }{
		{"TCP", "192.0.0.2:40000", "203.0.113.9:443",
			"add table=1,priority=50000,cookie=0x42744e4203000010,idle_timeout=60,eth_type=0x800,ip_proto=6,ipv4_src=192.0.0.2," +
				"ipv4_dst=203.0.113.9,tcp_src=40000,tcp_dst=443 actions=write_actions(group:16),goto_table:3",
			"add table=2,priority=50000,cookie=0x42744e4203000010,idle_timeout=60,in_port=2,eth_type=0x800,ip_proto=6,ipv4_src=203.0.113.9," +
				"ipv4_dst=10.0.0.2,tcp_src=443,tcp_dst=40000 actions=write_actions(set_field:ipv4_dst=192.0.0.2,group:1),goto_table:3"},
		{"UDP", "[64:ff9b:1::2]:40000", "[2001:db8:5::5]:443",
			"add table=1,priority=50000,cookie=0x42744e4203000011,idle_timeout=60,eth_type=0x86dd,ip_proto=17,udp_src=40000,udp_dst=443," +
				"ipv6_src=64:ff9b:1::2,ipv6_dst=2001:db8:5::5 actions=group:17",
			"add table=2,priority=50000,cookie=0x42744e4203000011,idle_timeout=60,in_port=2,eth_type=0x86dd,ip_proto=17,udp_src=443,udp_dst=40000," +
				"ipv6_src=2001:db8:5::5,ipv6_dst=2001:db8:a::2 actions=set_field:ipv6_dst=64:ff9b:1::2,group:1"},
		{"ICMP", "192.0.0.2:0", "203.0.113.9:0",
			"add table=1,priority=50000,cookie=0x42744e4203000010,idle_timeout=60,eth_type=0x800,ip_proto=1,ipv4_src=192.0.0.2," +
				"ipv4_dst=203.0.113.9,icmpv4_type=8 actions=group:16",
			"add table=2,priority=50000,cookie=0x42744e4203000010,idle_timeout=60,in_port=2,eth_type=0x800,ip_proto=1,ipv4_src=203.0.113.9," +
				"ipv4_dst=10.0.0.2,icmpv4_type=0 actions=set_field:ipv4_dst=192.0.0.2,group:1"},
	}
	protocols := map[string]packet.Protocol{"TCP": packet.ProtocolTCP, "UDP": protocolUDP, "ICMP": packet.ProtocolICMP}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flow := Flow{protocols[tt.name], netip.MustParseAddrPort(tt.internal), netip.MustParseAddrPort(tt.remote)}
			out, back := s.FlowEntries(flow, 0, 60)
			for _, m := range []struct {
				got  *openflow.FlowMod
				want string
			}{{out, tt.out}, {back, tt.back}} {
				if got := Text(m.got); got != m.want {
					t.Errorf("got\n%s, want\n%s", got, m.want)
				}
				if err := openflow.Check(m.got); err != nil {
					t.Error(err)
				}
			}
			if f, place, ok := s.ReadFlow(back); !ok || f != flow || place != 0 {
				t.Errorf("got %v at %d, %v", f, place, ok)
			}
		})
	}
}

// TestAdopt: flows of before go on if they can.
func TestAdopt(t *testing.T) {
	flow := Flow{packet.ProtocolTCP, netip.MustParseAddrPort("192.0.0.2:40000"), netip.MustParseAddrPort("203.0.113.9:443")}
	tests := []struct {
		name   string
		change func(*State)
		kept   bool
	}{
		{"nothing has changed", func(*State) {}, true},
		{"another weight and gateway", func(s *State) { s.Links[1].Weight, s.Links[1].V4.GatewayMAC[5] = 9, 9 }, true},
		{"another address", func(s *State) { s.Links[1].V4.Address = netip.MustParseAddr("10.1.0.9") }, false},
		{"the link is not usable", func(s *State) { s.Links[1].Usable = false }, false},
		{"the link is gone from the configuration", func(s *State) { s.Links = s.Links[:1] }, false},
		{"another internal address", func(s *State) { s.Internal.IPv4 = netip.MustParseAddr("192.0.0.4") }, false},
		{"no IPv4", func(s *State) { s.Internal.IPv4 = netip.Addr{} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := small(config.OpenVSwitch, config.Controller)
			out, back := s.FlowEntries(flow, 1, 60)
			alone, _ := s.FlowEntries(Flow{packet.ProtocolTCP, flow.Internal, netip.MustParseAddrPort("203.0.113.9:80")}, 1, 60)
			tt.change(&s)
			kept, stale := s.Adopt([]*openflow.FlowMod{back, out, alone})
			want := map[Flow]int{}
			if tt.kept {
				want[flow] = 1
			}
			if !maps.Equal(kept, want) || len(stale) != 3-2*len(want) {
				t.Errorf("kept %v, removed %d", kept, len(stale))
			}
			for _, m := range stale {
				if m.Command != openflow.FlowDeleteStrict {
					t.Errorf("got %s", Text(m))
				}
			}
		})
	}
}
