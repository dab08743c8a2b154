package install

import (
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// microflows has a flow of TCP that is open. Port 1 is the host's, its links are 2 and 3. What becomes of its packets is compared with the model.
type microflows struct {
	binder
	six  bool
	link openflow.PortNo
}

func newMicroflows(t *testing.T, six bool) *microflows {
	t.Helper()
	runtime.LockOSThread() // each processor learns for itself; the thread ends with the test
	var one unix.CPUSet
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatalf("keep to a processor: %v", err)
	}
	o := small
	o.Bindings = 1024
	s := &microflows{binder: binder{rig: newRig(t, o), Rand: newRand(t)}, six: six}
	s.rig.pipeline = pipeline.New(pipeline.Limits{Tables: 8, Bindings: true})
	s.model.Pipeline, s.model.Bindings = s.rig.pipeline, model.NewBindings(1024)
	s.want(s.home(openflow.GroupAdd, 1))
	s.want(s.away(openflow.GroupAdd, 1, 2, 3))
	s.flow(0, 1, openflow.Match{}.Port(1), openflow.InstructionWriteMetadata{Metadata: 7, Mask: 0xff}, openflow.InstructionGotoTable{Table: 1})
	s.flow(0, 0, nil, openflow.InstructionGotoTable{Table: 2})
	s.flow(1, 0, nil, apply(openflow.ActionBind{Method: openflow.BindRoundRobin, Group: 16}))
	s.flow(2, 0, nil, apply(openflow.ActionUnbind{Group: 1}))
	s.out(packet.SYN)
	if len(s.sent) != 1 {
		t.Fatal("the flow does not begin")
	}
	s.link = s.sent[0].port
	s.in(packet.SYN | packet.ACK)
	return s
}

// home is the group that takes packets to the host; what it does differs by mark.
func (s *microflows) home(c openflow.GroupCommand, mark byte) *openflow.GroupMod {
	return &openflow.GroupMod{Command: c, Kind: openflow.GroupTypeIndirect, Group: 1, Buckets: []openflow.Bucket{{
		WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: append(rewritten(mark), out(1)),
	}}}
}

func rewritten(mark byte) []openflow.Action {
	return []openflow.Action{
		openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthSrc, packet.MAC{2, 1, mark})},
		openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthDst, packet.MAC{2, 2, mark})},
	}
}

// away is the group that flows are bound from.
func (s *microflows) away(c openflow.GroupCommand, mark byte, ports ...openflow.PortNo) *openflow.GroupMod {
	m := &openflow.GroupMod{Command: c, Kind: openflow.GroupTypeSelect, Group: 16}
	field := openflow.FieldIPv4Src
	if s.six {
		field = openflow.FieldIPv6Src
	}
	for _, no := range ports {
		address := openflow.ActionSetField{Field: openflow.Match{}.Addr(field, s.binder.link(s.six, no))}
		m.Buckets = append(m.Buckets, openflow.Bucket{Weight: 1, WatchPort: no, WatchGroup: openflow.GroupAny, Actions: append(rewritten(mark), address, out(no))})
	}
	return m
}

func (s *microflows) ends() (internal, remote netip.AddrPort) {
	if s.six {
		return netip.MustParseAddrPort("[fd00::2]:1000"), netip.MustParseAddrPort("[fd01::9]:80")
	}
	return netip.MustParseAddrPort("192.0.0.2:1000"), netip.MustParseAddrPort("203.0.113.9:80")
}

func (s *microflows) segment(flags packet.Flags) packet.Spec {
	internal, remote := s.ends()
	return packet.Spec{SrcMAC: packet.MAC{2, 9}, DstMAC: packet.MAC{2, 8}, Src: internal, Dst: remote, Flags: flags, Payload: []byte("of a flow")}
}

func (s *microflows) out(flags packet.Flags) { s.compare(1, packet.Build(s.segment(flags))) }

// reply is from the remote to the address that the link has given the flow.
func (s *microflows) reply(flags packet.Flags) packet.Spec {
	b := s.segment(flags)
	b.Src, b.Dst = b.Dst, netip.AddrPortFrom(s.binder.link(s.six, s.link), b.Src.Port())
	return b
}

func (s *microflows) in(flags packet.Flags) { s.compare(s.link, packet.Build(s.reply(flags))) }

// short is how many of the packets that are sent took microflows.
func (s *microflows) short(do func()) uint64 {
	s.t.Helper()
	before := s.verdicts()["microflows_hit"]
	do()
	return s.verdicts()["microflows_hit"] - before
}

// tries are enough for two flows whose microflows are not in one place, which evict each other: one pair in a thousand is.
const tries = 3

// TestMicroflows: whatever changes is in force for the next packet, as the model says of each, and those after it take the new way at once.
func TestMicroflows(t *testing.T) {
	changes := []struct {
		name   string
		change func(s *microflows)
		ends   bool // the flow, as its link is gone
		long   bool // packets differ in what entries ask for
	}{
		{name: "nothing", change: func(*microflows) {}},
		{name: "the links' group", change: func(s *microflows) { s.want(s.away(openflow.GroupModify, 2, 3, 2)) }},
		{name: "the host's group", change: func(s *microflows) { s.want(s.home(openflow.GroupModify, 2)) }},
		{name: "an entry in front", change: func(s *microflows) {
			s.flow(0, 2, nil, openflow.InstructionGotoTable{Table: 3})
		}, ends: true},
		{name: "a link that is gone", change: func(s *microflows) { s.setPort(model.Port{No: s.link, There: true}) }, ends: true},
		{name: "a link that is not to be used", change: func(s *microflows) {
			s.setPort(model.Port{No: s.link, There: true, Live: true, Config: openflow.PortConfigNoFwd | openflow.PortConfigNoRecv})
		}, ends: true},
		{name: "a link that is not in the group", change: func(s *microflows) { s.want(s.away(openflow.GroupModify, 1, 5-s.link)) }, ends: true},
		{name: "an entry for what packets of a flow differ by", change: func(s *microflows) {
			etherType := map[bool]uint64{false: 0x0800, true: 0x86dd}[s.six]
			s.flow(1, 2, openflow.Match{}.Uint(openflow.FieldEthType, etherType).Uint(openflow.FieldIPECN, 3), apply(out(4)))
		}, long: true},
	}
	for _, six := range []bool{false, true} {
		for _, c := range changes {
			t.Run(fmt.Sprintf("%s, IPv6 %v", c.name, six), func(t *testing.T) {
				want := uint64(2)
				if c.ends || c.long {
					want = 0
				}
				var before, after uint64
				try := func(t *testing.T) {
					s := newMicroflows(t, six)
					s.out(packet.ACK)
					both := func() { s.out(packet.ACK); s.in(packet.ACK) }
					before = s.short(both)
					c.change(s)
					both()
					after = s.short(both)
				}
				for i := range tries {
					t.Run(fmt.Sprint("try ", i+1), try) // a test of its own: its forwarder is gone before the next begins
					if before == 2 && (after == want || c.ends && after <= 1) {
						return
					}
				}
				t.Errorf("%d packets took microflows before and %d after, want 2 and %d", before, after, want)
			})
		}
	}
}

// TestLongWay: packets that say something about their flow, or have something unusual, take no microflow.
func TestLongWay(t *testing.T) {
	both := map[string]func(b *packet.Spec){
		"another link header": func(b *packet.Spec) { b.SrcMAC = packet.MAC{2, 7} },
		"SYN":                 func(b *packet.Spec) { b.Flags = packet.SYN | packet.ACK },
	}
	odd := map[bool]map[string]func(b *packet.Spec){
		false: {
			"options":    func(b *packet.Spec) { b.IPOptions = []byte{1, 1, 1, 0} },
			"a fragment": func(b *packet.Spec) { b.MoreFragments = true },
		},
		true: {"an extension header": func(b *packet.Spec) { b.ExtensionType, b.Extension = 60, []byte{0, 0, 1, 4, 0, 0, 0, 0} }},
	}
	for six, odd := range odd {
		t.Run(fmt.Sprintf("IPv6 %v", six), func(t *testing.T) {
			s := newMicroflows(t, six)
			plain := func() { s.out(packet.ACK); s.in(packet.ACK) }
			plain()
			maps.Copy(odd, both)
			for name, change := range odd {
				out, back := s.segment(packet.ACK), s.reply(packet.ACK)
				change(&out)
				change(&back)
				if n := s.short(func() { s.compare(1, packet.Build(out)); s.compare(s.link, packet.Build(back)) }); n != 0 {
					t.Errorf("%s: %d packets took microflows", name, n)
				}
				plain() // what was learnt from another link header is not this one's
				if n := s.short(plain); n != 2 {
					t.Errorf("after %s: %d packets took microflows", name, n)
				}
			}
			if n := s.short(func() { s.out(packet.FIN | packet.ACK); plain() }); n != 0 {
				t.Errorf("with a FIN: %d packets took microflows", n)
			}
		})
	}
}

// TestMicroflowsCount: entries, groups and buckets count packets that take microflows as those that do not.
func TestMicroflowsCount(t *testing.T) {
	const packets = 10
	s := newMicroflows(t, false)
	s.out(packet.ACK)
	count := func() map[string]openflow.Counter {
		all := make(map[string]openflow.Counter)
		for _, e := range s.installed.entries {
			c := read(&s.kernel.EntryCounts[e.counts])
			all[fmt.Sprint("entry ", e.table, e.priority)] = c
		}
		for _, id := range []openflow.GroupID{1, 16} {
			c, buckets := s.installed.Group(id)
			all[fmt.Sprint("group ", id)] = c
			for i, b := range buckets {
				all[fmt.Sprint("group ", id, " bucket ", i)] = b
			}
		}
		return all
	}
	length := uint64(len(packet.Build(s.segment(packet.ACK))))
	before := count()
	if n := s.short(func() {
		for range packets {
			s.out(packet.ACK)
			s.in(packet.ACK)
		}
	}); n != 2*packets {
		t.Fatalf("%d of %d packets took microflows", n, 2*packets)
	}
	after := count()
	for name, b := range before {
		want := openflow.Counter{Packets: b.Packets + packets, Octets: b.Octets + packets*length}
		if name == fmt.Sprint("group 16 bucket ", 3-s.link) {
			want = b
		}
		if after[name] != want {
			t.Errorf("%s: %+v, then %+v", name, b, after[name])
		}
	}
}
