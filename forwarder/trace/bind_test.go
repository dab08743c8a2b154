package trace

import (
	"net/netip"
	"testing"
	"time"

	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	of "baton/openflow"
)

// TestBind: what users read of flows that are bound for, and of what answers them. Port 1 is the host's, ports 2, 6 and 7 are links, of which the
// last is a standby.
func TestBind(t *testing.T) {
	internal, remote := netip.MustParseAddrPort("192.0.0.2:40000"), netip.MustParseAddrPort("203.0.113.5:443")
	flow := model.Flow{Protocol: 6, Internal: internal, Remote: remote, Port: 6}
	link := func(no of.PortNo, weight uint16) of.Bucket {
		b := watching(no, out(no))
		b.Weight = weight
		return b
	}
	const ofFlow = "ipv4_src=192.0.0.2,ipv4_dst=203.0.113.5,tcp_src=40000,tcp_dst=443,tcp_flags=16"
	const answer = "ipv4_src=203.0.113.5,ipv4_dst=198.51.100.6,tcp_src=443,tcp_dst=40000,tcp_flags=16"
	tests := []struct {
		name   string
		method of.BindMethod
		in     of.PortNo
		packet string
		flow   model.Flow
		down   []of.PortNo
		most   int
		want   string
	}{
		{"a new flow", of.BindRoundRobin, 1, "udp_dst=53", flow, nil, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    a new flow is bound to one of 2 buckets, round-robin, or that of a flow to 192.0.2.2 in the last 60 s
    bucket 0 of group 16 (select), one of 2 candidates:
      output:2
        out of port 2 (eth2)
    bucket 1 of group 16 (select), one of 2 candidates:
      output:6
        out of port 6 (eth6)
2?: unchanged
6?: unchanged`},
		{"a new flow, one link", of.BindLeast, 1, "udp_dst=53", flow, []of.PortNo{2}, 10, `
table 0: priority=1,in_port=1
  bind:least:16:affinity:60s
    a new flow is bound to the only bucket it can have
    bucket 1 of group 16 (select):
      output:6
        out of port 6 (eth6)
6: unchanged`},
		{"a new flow, a standby", of.BindFastest, 1, "udp_dst=53", flow, []of.PortNo{2, 6}, 10, `
table 0: priority=1,in_port=1
  bind:fastest:16:affinity:60s
    a new flow is bound to the only bucket it can have
    bucket 2 of group 16 (select):
      output:7
        out of port 7 (eth7)
7: unchanged`},
		{"a flow that is known", of.BindRoundRobin, 1, ofFlow, flow, nil, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    the flow is bound to port 6 (eth6)
    bucket 1 of group 16 (select):
      output:6
        out of port 6 (eth6)
6: unchanged`},
		{"a connection whose link has gone", of.BindRoundRobin, 1, ofFlow, flow, []of.PortNo{6}, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    dropped: the flow is bound to port 6 (eth6), and a connection cannot move to another`},
		{"no links", of.BindRoundRobin, 1, "udp_dst=53", flow, []of.PortNo{2, 6, 7}, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    dropped: no bucket is live`},
		{"no room", of.BindRoundRobin, 1, "udp_dst=53", flow, nil, 1, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    dropped: the binding table is full`},
		{"another internal address", of.BindRoundRobin, 1, "ipv4_src=192.0.0.3,ipv4_dst=203.0.113.5,tcp_src=40000,tcp_dst=443", flow, []of.PortNo{2, 7}, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    dropped: on every port a flow of another internal address has the same replies`},
		{"a fragment", of.BindRoundRobin, 1, "020000000002020000000001" + "0800" + "4500001c000000020011b6c1c0000201c0000202" + "0000000000000000", flow, nil, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    dropped: the first fragment of this packet was not seen`},
		{"no IP", of.BindRoundRobin, 1, "eth_type=0x88b5", flow, nil, 10, `
table 0: priority=1,in_port=1
  bind:round-robin:16:affinity:60s
    dropped: the packet lacks the header, or its TTL has expired`},
		{"an answer", of.BindRoundRobin, 6, answer, flow, nil, 10, `
table 0: priority=0
  unbind:1
    a reply to the flow from 192.0.0.2:40000 to 203.0.113.5:443: goes to 192.0.0.2
    bucket 0 of group 1 (indirect):
      output:1
        to the host by port 1 (bal0)
1: ` + answered},
		{"an answer to nothing", of.BindRoundRobin, 2, answer, flow, nil, 10, `
table 0: priority=0
  unbind:1
    a reply to no bound flow
  output:NORMAL
    passed to the host's stack
stack`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pipeline.New(pipeline.Limits{Bindings: true})
			for _, m := range []of.Message{
				group(1, of.GroupTypeIndirect, bucket(out(1))),
				group(16, of.GroupTypeSelect, link(2, 1), link(6, 1), link(7, 0)),
				entry(0, 0, of.Match{}, apply(of.ActionUnbind{Group: 1}, out(of.PortNormal))),
				entry(0, 1, of.Match{}.Port(1), apply(of.ActionBind{Method: tt.method, Group: 16, Affinity: 60})),
			} {
				if err := of.Check(m); err != nil {
					t.Fatal(err)
				}
				if _, err := p.Apply(time.Now(), m); err != nil {
					t.Fatal(err)
				}
			}
			o := Options{Pipeline: p, NormalStack: true, Bindings: model.NewBindings(tt.most)}
			o.Bindings.Add(tt.flow)
			o.Ports = []Port{{Port: model.Port{No: 1, There: true, Live: true}, Interface: "bal0", HostSide: true}}
			for no, name := range map[of.PortNo]string{2: "eth2", 6: "eth6", 7: "eth7"} {
				live := true
				for _, down := range tt.down {
					live = live && no != down
				}
				o.Ports = append(o.Ports, Port{Port: model.Port{No: no, There: true, Live: live}, Interface: name})
			}
			frame, err := Frame(tt.packet)
			if err != nil {
				t.Fatal(err)
			}
			r := Run(o, tt.in, frame)
			if got := text(&r, frame); got != tt.want[1:] {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want[1:])
			}
		})
	}
}

// answered is the answer as the host has it: to 192.0.0.2.
const answered = "0200000000020200000000010800450000280000400040063ec8cb007105c000000201bb9c4000000000000000005010ffff15d10000"
