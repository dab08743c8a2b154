package trace

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	of "baton/openflow"
)

func apply(actions ...of.Action) of.Instruction { return of.InstructionApplyActions{Actions: actions} }
func out(no of.PortNo) of.Action                { return of.ActionOutput{Port: no} }

func entry(table of.TableID, priority uint16, m of.Match, do ...of.Instruction) of.Message {
	f := of.NewFlowMod(of.FlowAdd)
	f.Table, f.Priority, f.Match, f.Instructions = table, priority, m, do
	return f
}

func group(id of.GroupID, kind of.GroupType, buckets ...of.Bucket) of.Message {
	return &of.GroupMod{Command: of.GroupAdd, Kind: kind, Group: id, Buckets: buckets}
}

func bucket(actions ...of.Action) of.Bucket {
	return of.Bucket{WatchPort: of.PortAny, WatchGroup: of.GroupAny, Actions: actions}
}

func watching(no of.PortNo, actions ...of.Action) of.Bucket {
	b := bucket(actions...)
	b.WatchPort = no
	return b
}

func TestRun(t *testing.T) {
	var any of.Match
	wide := of.ActionOutput{Port: of.PortController, MaxLen: 60}
	tests := []struct {
		name   string
		in     of.PortNo
		packet string
		set    []of.Message
		want   string // steps but for the first, which has the fields, then where it goes
	}{
		{"nothing installed", 1, "eth_type=0x88b5", nil, `
table 0: no flow entry: the packet is dropped`},
		{"an entry", 1, "eth_type=0x88b5", []of.Message{entry(0, 5, any.Port(1), apply(out(2)))}, `
table 0: priority=5,in_port=1
  output:2
    out of port 2 (eth2)
2: unchanged`},
		{"no instructions", 1, "eth_type=0x88b5", []of.Message{entry(0, 5, any)}, `
table 0: priority=5: drop`},
		{"ports that take nothing", 1, "eth_type=0x88b5",
			[]of.Message{entry(0, 5, any, apply(out(1), out(3), out(4), out(5), out(6), out(of.PortNormal), out(of.PortInPort)))}, `
table 0: priority=5
  output:1
    not out of its input port 1: only IN_PORT does that
  output:3
    port 3 has no interface
  output:4
    port 4 is down
  output:5
    port 5 has no_fwd
  output:6
    there is no port 6
  output:NORMAL
    to the learning bridge, whose decision is not traced
  output:IN_PORT
    out of port 1 (eth1)
1: unchanged
bridged`},
		{"tables, metadata, a set", 1, "eth_type=0x88b5", []of.Message{
			entry(0, 5, any, of.InstructionMeter{Meter: 3}, of.InstructionWriteActions{Actions: []of.Action{out(2), of.ActionPushVLAN{EtherType: 0x8100}}},
				of.InstructionWriteMetadata{Metadata: 5, Mask: 0xff}, of.InstructionGotoTable{Table: 7}),
			entry(7, 0, any, apply(wide)),
		}, `
table 0: priority=5: meter:3 (not simulated) write_actions(output:2,push_vlan:0x8100) write_metadata:0x5/0xff goto_table:7
now metadata=0x5
table 7: priority=0
  output:CONTROLLER:60
    to the controllers
action set:
  push_vlan:0x8100
  output:2
    out of port 2 (eth2)
2: 0200000000020200000000018100000088b5
controllers: no_match 7`},
		{"a header that is not there", 1, "eth_type=0x88b5", []of.Message{entry(0, 5, any, apply(out(2), of.ActionPopMPLS{EtherType: 0x800}, out(3)))}, `
table 0: priority=5
  output:2
    out of port 2 (eth2)
  pop_mpls:0x800
    dropped: the packet lacks the header, or its TTL has expired
2: unchanged`},
		{"groups", 1, "eth_type=0x88b5", []of.Message{
			group(2, of.GroupTypeFF, watching(4, out(4)), watching(2, out(2))),
			group(1, of.GroupTypeAll, bucket(of.ActionPushVLAN{EtherType: 0x8100}, out(2)), bucket(of.ActionGroup{Group: 2})),
			group(3, of.GroupTypeFF, watching(4, out(4))),
			entry(0, 5, any, apply(of.ActionGroup{Group: 1}, of.ActionGroup{Group: 3})),
		}, `
table 0: priority=5
  group:1
    bucket 0 of group 1 (all):
      push_vlan:0x8100
      output:2
        out of port 2 (eth2)
    bucket 1 of group 1 (all):
      group:2
        bucket 1 of group 2 (ff):
          output:2
            out of port 2 (eth2)
  group:3
    dropped: no bucket is live
2: 0200000000020200000000018100000088b5
2: unchanged`},
		{"a choice", 1, "eth_type=0x88b5", []of.Message{
			group(1, of.GroupTypeSelect, weighted(bucket(out(2))), weighted(bucket(wide)), weighted(watching(4, out(2)))),
			entry(0, 5, any, apply(of.ActionGroup{Group: 1}, out(2))),
		}, `
table 0: priority=5
  group:1
    bucket 0 of group 1 (select), one of 2 candidates:
      output:2
        out of port 2 (eth2)
    bucket 1 of group 1 (select), one of 2 candidates:
      output:CONTROLLER:60
        to the controllers
  output:2
    out of port 2 (eth2)
2?: unchanged
2: unchanged
controllers?: action 0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pipeline.New(pipeline.Limits{})
			if _, err := p.MeterMod(time.Now(), &of.MeterMod{Command: of.MeterAdd, Flags: of.MeterFlagKbps, Meter: 3}); err != nil {
				t.Fatal(err)
			}
			for _, m := range tt.set {
				if _, err := p.Apply(time.Now(), m); err != nil {
					t.Fatal(err)
				}
			}
			frame, err := Frame(tt.packet)
			if err != nil {
				t.Fatal(err)
			}
			r := Run(Options{Pipeline: p, Ports: ports()}, tt.in, frame)
			if got := text(&r, frame); got != tt.want[1:] {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want[1:])
			}
		})
	}
}

// ports are 1 and 2 that work, 3 without an interface, 4 that is down, and 5 that forwards nothing.
func ports() []Port {
	return []Port{
		{Port: model.Port{No: 1, There: true, Live: true}, Interface: "eth1"},
		{Port: model.Port{No: 2, There: true, Live: true}, Interface: "eth2"},
		{Port: model.Port{No: 3}, Interface: "eth3"},
		{Port: model.Port{No: 4, There: true, Config: of.PortConfigPortDown}, Interface: "eth4"},
		{Port: model.Port{No: 5, There: true, Live: true, Config: of.PortConfigNoFwd | of.PortConfigNoRecv}, Interface: "eth5"},
	}
}

// text leaves the fields out that the packet comes with.
func text(r *api.ForwarderTrace, came []byte) string {
	var lines []string
	for _, s := range r.Steps[1:] {
		lines = append(lines, strings.Repeat("  ", s.Depth)+s.Text)
	}
	maybe := map[bool]string{true: "?"}
	for _, s := range r.Sent {
		frame := "unchanged"
		if string(s.Frame) != string(came) {
			frame = hex.EncodeToString(s.Frame)
		}
		lines = append(lines, s.Port+maybe[s.Maybe]+": "+frame)
	}
	for _, p := range r.Upcalls {
		lines = append(lines, "controllers"+maybe[p.Maybe]+": "+p.Reason+" "+of.TableID(p.Table).String())
	}
	if r.Bridged {
		lines = append(lines, "bridged")
	}
	if r.Stack != nil {
		lines = append(lines, "stack")
	}
	return strings.Join(lines, "\n")
}

func TestPortsThatTakeNothing(t *testing.T) {
	frame, err := Frame("tcp_dst=80")
	if err != nil {
		t.Fatal(err)
	}
	fragment := append([]byte(nil), frame...)
	fragment[20] = 0x20 // more fragments
	tests := []struct {
		in    of.PortNo
		frame []byte
		want  string
	}{
		{3, frame, "port 3 receives nothing: there is no interface"},
		{4, frame, "port 4 receives nothing: it is down"},
		{5, frame, "port 5 receives nothing: no_recv"},
		{1, fragment, "port 1 receives nothing: fragments are dropped, as configured by a controller"},
	}
	for _, tt := range tests {
		r := Run(Options{Pipeline: pipeline.New(pipeline.Limits{}), Ports: ports(), DropFragments: true}, tt.in, tt.frame)
		if len(r.Steps) != 1 || r.Steps[0].Text != tt.want {
			t.Errorf("steps %+v, want %q", r.Steps, tt.want)
		}
	}
}

func weighted(b of.Bucket) of.Bucket {
	b.Weight = 1
	return b
}

// TestFieldsAreTheKernels: what is looked up by the fields' places is what a comparison of each field finds.
func TestFieldsAreTheKernels(t *testing.T) {
	for _, text := range []string{
		"tcp_dst=443,ip_dscp=46,ip_ecn=1,vlan_vid=5,vlan_pcp=3", "udp_dst=53,ipv6_dst=2001:db8::9,ipv6_flabel=7", "icmpv4_type=3,icmpv4_code=4",
		"icmpv6_type=135,icmpv6_code=1", "arp_op=2,arp_tha=02:00:00:00:00:09", "eth_type=0x88b5",
		"020000000002020000000001" + "8847" + "00064140" + "45", "020000000002020000000001" + "88e7" + "00123456" + "020000000003020000000004" + "0800",
	} {
		frame, err := Frame(text)
		if err != nil {
			t.Fatal(err)
		}
		var fields []of.TLV
		look := model.Switch{Pipeline: pipeline.New(pipeline.Limits{}), Ports: models(), Report: func(s model.Step) { fields = s.Fields }}
		look.Receive(1, frame)
		if len(fields) < 4 {
			t.Errorf("%s: fields %v", text, fields)
		}
		for wrong := range len(fields) + 1 {
			var m of.Match
			for i, f := range fields {
				v := append([]byte(nil), f.Value...)
				if i == wrong-1 {
					v[len(v)-1] ^= 1
				}
				m = m.Bytes(f.Field, v, nil)
			}
			p := pipeline.New(pipeline.Limits{})
			if _, err := p.Apply(time.Now(), entry(0, 5, m)); err != nil {
				t.Fatal(err)
			}
			each := len((&model.Switch{Pipeline: p, Ports: models()}).Receive(1, frame).Met)
			found := len((&model.Switch{Pipeline: p, Ports: models(), Find: p.Lookup}).Receive(1, frame).Met)
			if want := map[bool]int{true: 1}[wrong == 0]; each != want || found != want {
				t.Errorf("%s, field %d wrong, %v: %d by comparison, %d by place, want %d", text, wrong, m, each, found, want)
			}
		}
	}
}

func models() []model.Port {
	var list []model.Port
	for _, p := range ports() {
		list = append(list, p.Port)
	}
	return list
}
