package model

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

func port(n openflow.PortNo) openflow.Action { return openflow.ActionOutput{Port: n} }

func set(m openflow.Match) openflow.Action { return openflow.ActionSetField{Field: m} }

// newSwitch has three ports, and these flow entries.
func newSwitch(t *testing.T, mods ...openflow.Message) *Switch {
	t.Helper()
	s := &Switch{Pipeline: pipeline.New(pipeline.Limits{Tables: 4})}
	for n := openflow.PortNo(1); n <= 3; n++ {
		s.Ports = append(s.Ports, Port{No: n, There: true, Live: true})
	}
	for _, m := range mods {
		if err := openflow.Check(m); err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if _, err := s.Pipeline.Apply(time.Time{}, m); err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
	}
	return s
}

func entry(table openflow.TableID, priority uint16, m openflow.Match, list ...openflow.Instruction) openflow.Message {
	f := openflow.NewFlowMod(openflow.FlowAdd)
	f.Table, f.Priority, f.Match, f.Instructions = table, priority, m, list
	return f
}

func apply(list ...openflow.Action) openflow.Instruction {
	return openflow.InstructionApplyActions{Actions: list}
}

func write(list ...openflow.Action) openflow.Instruction {
	return openflow.InstructionWriteActions{Actions: list}
}

// unhex reads bytes that are written in words.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// addresses are those of every frame here.
const addresses = "020000000001 020000000002 "

func TestFrames(t *testing.T) {
	field := func(f openflow.Field, v uint64) openflow.Action { return set(openflow.Match{}.Uint(f, v)) }
	label := func(l uint64) openflow.Action { return field(openflow.FieldMPLSLabel, l) }
	tests := []struct {
		name    string
		in      string
		actions []openflow.Action
		want    string // nothing: dropped
		asSet   bool   // as an action set
	}{
		{name: "as it is", in: "88b5 01", want: "88b5 01"},
		{name: "tag pushed", in: "88b5 01", actions: []openflow.Action{openflow.ActionPushVLAN{EtherType: 0x8100}}, want: "8100 0000 88b5 01"},
		{name: "tag pushed before another", in: "8100 e005 88b5 01", actions: []openflow.Action{openflow.ActionPushVLAN{EtherType: 0x88a8}},
			want: "88a8 e005 8100 e005 88b5 01"},
		{name: "tag written", in: "8100 f005 88b5 01", actions: []openflow.Action{field(openflow.FieldVLANVID, 0x1007), field(openflow.FieldVLANPCP, 1)},
			want: "8100 3007 88b5 01"},
		{name: "no tag to pop", in: "88b5 01", actions: []openflow.Action{openflow.ActionPopVLAN{}}, want: "88b5 01"},
		{name: "one tag to pop twice", in: "8100 0005 88b5 01", actions: []openflow.Action{openflow.ActionPopVLAN{}, openflow.ActionPopVLAN{}}, want: "88b5 01"},
		{name: "no tag to pop, in a set", in: "88b5 01", actions: []openflow.Action{openflow.ActionPopVLAN{}}, asSet: true, want: "88b5 01"},
		{name: "no tag to write", in: "88b5 01", actions: []openflow.Action{field(openflow.FieldVLANVID, 0x1007)}},
		{name: "no label to pop", in: "88b5 01", actions: []openflow.Action{openflow.ActionPopMPLS{EtherType: 0x0800}}},
		{name: "label pushed behind a tag", in: "8100 0005 88b5 01", actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8847}, label(5)},
			want: "8100 0005 8847 00005100 01"},
		{name: "second label", in: "8847 00005140 01", actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8848}, label(6)},
			want: "8848 00006040 00005140 01"},
		{name: "label popped", in: "8847 00005140 01", actions: []openflow.Action{openflow.ActionPopMPLS{EtherType: 0x88b5}}, want: "88b5 01"},
		{name: "label pushed in SNAP", in: "000a aaaa03 000000 88b5 0102", actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8847}, label(5)},
			want: "000e aaaa03 000000 8847 00005100 0102"},
		{name: "label popped in SNAP behind a tag", in: "8100 0005 000e aaaa03 000000 8847 00005140 0102",
			actions: []openflow.Action{openflow.ActionPopMPLS{EtherType: 0x88b5}}, want: "8100 0005 000a aaaa03 000000 88b5 0102"},
		{name: "label popped in SNAP that says less", in: "0003 aaaa03 000000 8847 00005140 0102", actions: []openflow.Action{openflow.ActionPopMPLS{EtherType: 0x88b5}}},
		{name: "label pushed in SNAP that says most", in: "05fc aaaa03 000000 88b5 0102", actions: []openflow.Action{openflow.ActionPushMPLS{EtherType: 0x8847}}},
		{name: "type written in SNAP", in: "000a aaaa03 000000 88b5 0102", actions: []openflow.Action{field(openflow.FieldEthType, 0x88b6)},
			want: "000a aaaa03 000000 88b6 0102"},
		{name: "tag pushed before SNAP", in: "000a aaaa03 000000 88b5 0102", actions: []openflow.Action{openflow.ActionPushVLAN{EtherType: 0x8100}},
			want: "8100 0000 000a aaaa03 000000 88b5 0102"},
		{name: "label's TTL runs out", in: "8847 00005101 01", actions: []openflow.Action{openflow.ActionDecMPLSTTL{}}},
		{name: "service tag pushed", in: "8100 0005 88b5 01", actions: []openflow.Action{openflow.ActionPushPBB{EtherType: 0x88e7}, field(openflow.FieldPBBISID, 7)},
			want: "88e7 00000007 020000000001 020000000002 8100 0005 88b5 01"},
		{name: "service tag popped", in: "88e7 00000007 020000000001 020000000002 88b5 01", actions: []openflow.Action{openflow.ActionPopPBB{}}, want: "88b5 01"},
		{name: "the order of a set", in: "88b5 01", asSet: true, want: "8100 0005 8847 00005100 01",
			actions: []openflow.Action{field(openflow.FieldVLANVID, 0x1005), label(5), openflow.ActionPushVLAN{EtherType: 0x8100},
				openflow.ActionPushMPLS{EtherType: 0x8847}}},
		{name: "the last of a kind in a set", in: "8100 0005 88b5 01", asSet: true, want: "8100 0007 88b5 01",
			actions: []openflow.Action{field(openflow.FieldVLANVID, 0x1006), field(openflow.FieldVLANVID, 0x1007)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list := append(slices.Clone(tt.actions), port(2))
			does := apply(list...)
			if tt.asSet {
				does = write(list...)
			}
			got := newSwitch(t, entry(0, 0, nil, does)).Receive(1, unhex(t, addresses+tt.in))
			if tt.want == "" {
				if len(got.Sent) > 0 {
					t.Fatalf("got %x", got.Sent[0].Frame)
				}
				return
			}
			if want := unhex(t, addresses+tt.want); len(got.Sent) != 1 || !bytes.Equal(got.Sent[0].Frame, want) {
				t.Errorf("got %x, want %x", got.Sent, want)
			}
		})
	}
}

// TestChecksumsStayRight: of IP and of what is in it.
func TestChecksumsStayRight(t *testing.T) {
	for _, addr := range []string{"10.0.0.1", "fd00::1"} {
		src := netip.AddrPortFrom(netip.MustParseAddr(addr), 40000)
		b := packet.Build(packet.Spec{Src: src, Dst: src, Flags: packet.ACK, Payload: []byte("hello"),
			Options: packet.Options{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}})
		from := openflow.FieldIPv4Src
		other := netip.MustParseAddr("192.0.2.77")
		if src.Addr().Is6() {
			from, other = openflow.FieldIPv6Src, netip.MustParseAddr("fd00::77:1")
		}
		s := newSwitch(t, entry(0, 0, nil, apply(set(openflow.Match{}.Addr(from, other)), set(openflow.Match{}.Uint(openflow.FieldTCPDst, 81)),
			openflow.ActionDecNWTTL{}, set(openflow.Match{}.Uint(openflow.FieldIPDSCP, 5)), openflow.ActionIncSeq{By: 7},
			openflow.ActionIncTSval{By: 9}, port(2))))
		got := s.Receive(1, b)
		if len(got.Sent) != 1 {
			t.Fatalf("%s: %+v", addr, got)
		}
		f, err := packet.Parse(got.Sent[0].Frame)
		if err != nil {
			t.Fatal(err)
		}
		if f.Src.Addr() != other || f.Dst.Port() != 81 || f.TransportChecksum() != f.TCP().Checksum() || f.Family == packet.FamilyIPv4 && packet.Checksum(f.IPv4(), 0) != 0 {
			t.Errorf("%s: %v to %v, checksum %#x, want %#x: %x", addr, f.Src, f.Dst, f.TCP().Checksum(), f.TransportChecksum(), f.Bytes)
		}
	}
}

// TestTables: priorities, metadata, clear-actions, a miss, and what was put out before it.
func TestTables(t *testing.T) {
	meta := func(v uint64) openflow.Match { return openflow.Match{}.Uint(openflow.FieldMetadata, v) }
	s := newSwitch(t,
		entry(0, 1, openflow.Match{}.Port(1), apply(port(2)), write(port(3)), openflow.InstructionWriteMetadata{Metadata: 5, Mask: 7},
			openflow.InstructionGotoTable{Table: 1}),
		entry(0, 2, openflow.Match{}.Port(2), write(port(3)), openflow.InstructionWriteMetadata{Metadata: 6, Mask: 7}, openflow.InstructionGotoTable{Table: 1}),
		entry(0, 0, nil, apply(port(openflow.PortController))),
		entry(1, 1, meta(6), openflow.InstructionClearActions{}),
		entry(1, 0, meta(5)),
	)
	b := unhex(t, addresses+"88b5")
	sent := func(in openflow.PortNo) []openflow.PortNo {
		var list []openflow.PortNo
		for _, f := range s.Receive(in, b).Sent {
			list = append(list, f.Port)
		}
		return list
	}
	if got := sent(1); !slices.Equal(got, []openflow.PortNo{2, 3}) {
		t.Errorf("from port 1 to %v", got)
	}
	if got := sent(2); len(got) > 0 {
		t.Errorf("from port 2 to %v", got)
	}
	if got := s.Receive(3, b).Upcalls; len(got) != 1 || got[0].Reason != openflow.ReasonNoMatch || got[0].Table != 0 {
		t.Errorf("from port 3 to the controller: %+v", got)
	}
}

// TestGroups: a bucket changes a copy.
func TestGroups(t *testing.T) {
	bucket := func(watch openflow.PortNo, list ...openflow.Action) openflow.Bucket {
		return openflow.Bucket{WatchPort: watch, WatchGroup: openflow.GroupAny, Actions: list}
	}
	tag := openflow.ActionPushVLAN{EtherType: 0x8100}
	for _, tt := range []struct {
		kind    openflow.GroupType
		buckets []openflow.Bucket
		want    []openflow.PortNo
	}{
		{openflow.GroupTypeAll, []openflow.Bucket{bucket(openflow.PortAny, tag, port(2)), bucket(openflow.PortAny, port(3))}, []openflow.PortNo{2, 3, 3}},
		{openflow.GroupTypeIndirect, []openflow.Bucket{bucket(openflow.PortAny, tag, port(2))}, []openflow.PortNo{2, 3}},
		{openflow.GroupTypeFF, []openflow.Bucket{bucket(1, port(2)), bucket(2, tag, port(3))}, []openflow.PortNo{3, 3}},
		{openflow.GroupTypeFF, []openflow.Bucket{bucket(1, port(2))}, []openflow.PortNo{3}},
	} {
		t.Run(tt.kind.String(), func(t *testing.T) {
			s := newSwitch(t, &openflow.GroupMod{Command: openflow.GroupAdd, Kind: tt.kind, Group: 1, Buckets: tt.buckets},
				entry(0, 0, nil, apply(openflow.ActionGroup{Group: 1}, port(3))))
			s.Ports[0].Live = false
			b := unhex(t, addresses+"88b5")
			var got []openflow.PortNo
			sent := s.Receive(1, b).Sent
			for _, f := range sent {
				got = append(got, f.Port)
			}
			if !slices.Equal(got, tt.want) || !bytes.Equal(sent[len(sent)-1].Frame, b) {
				t.Errorf("to %v, want %v; the last is %x", got, tt.want, sent[len(sent)-1].Frame)
			}
		})
	}
}
