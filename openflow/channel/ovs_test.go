package channel

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"baton/openflow"
	"baton/packet"
)

// node is as much of a switch as ovs-ofctl asks for: it keeps flow entries, and tells the rest.
type node struct {
	mu    sync.Mutex
	flows openflow.FlowStatsReply
	open  map[uint32][]openflow.Message // bundles
	odd   []openflow.Message            // what it did not know
}

// take returns the answers to a message.
func (n *node) take(m openflow.Message, raw []byte) []openflow.Message {
	if err := openflow.Check(m); err != nil {
		return []openflow.Message{err.(*openflow.Fault).Answer(raw)}
	}
	switch m := m.(type) {
	case *openflow.FeaturesRequest:
		return []openflow.Message{&openflow.FeaturesReply{DatapathID: 0x42, Tables: 254, Capabilities: openflow.CapabilityFlowStats}}
	case *openflow.GetConfigRequest:
		return []openflow.Message{&openflow.GetConfigReply{Config: openflow.Config{Flags: openflow.FragNormal, MissSendLen: 128}}}
	case *openflow.BarrierRequest:
		return []openflow.Message{&openflow.BarrierReply{}}
	case *openflow.QueueGetConfigRequest:
		return []openflow.Message{&openflow.QueueGetConfigReply{Port: m.Port}}
	case *openflow.RoleRequest:
		return []openflow.Message{&openflow.RoleReply{Role: openflow.RoleEqual}}
	case *openflow.FlowMod:
		n.flowMod(m)
	case *openflow.SetConfig, *openflow.SetAsync, *openflow.SetPacketInFormat, *openflow.GroupMod, *openflow.MeterMod,
		*openflow.PortMod:
	case *openflow.BundleControl:
		return n.bundle(m)
	case *openflow.BundleAdd:
		_, inner, err := openflow.Decode(m.Message)
		if err != nil {
			return []openflow.Message{err.(*openflow.Fault).Answer(raw)}
		}
		n.open[m.Bundle] = append(n.open[m.Bundle], inner)
	case *openflow.MultipartRequest:
		if body := n.describe(m.Body); body != nil {
			var answers []openflow.Message
			for _, p := range openflow.Split(body) {
				answers = append(answers, p)
			}
			return answers
		}
		n.odd = append(n.odd, m)
	default:
		n.odd = append(n.odd, m)
	}
	return nil
}

func (n *node) flowMod(m *openflow.FlowMod) {
	if m.Command == openflow.FlowDelete {
		n.flows = nil
		return
	}
	n.flows = append(n.flows, openflow.FlowStats{
		Table: m.Table, Priority: m.Priority, Idle: m.Idle, Hard: m.Hard, Flags: m.Flags, Cookie: m.Cookie, Match: m.Match,
		Instructions: m.Instructions,
	})
}

func (n *node) bundle(m *openflow.BundleControl) []openflow.Message {
	if m.Kind == openflow.BundleCommit {
		for _, inner := range n.open[m.Bundle] {
			n.take(inner, nil)
		}
		delete(n.open, m.Bundle)
	}
	return []openflow.Message{&openflow.BundleControl{Bundle: m.Bundle, Kind: m.Kind + 1, Flags: m.Flags}}
}

func (n *node) describe(request openflow.MultipartBody) openflow.MultipartBody {
	port := openflow.Port{No: 1, MAC: packet.MAC{2, 0, 0, 0, 0, 1}, Name: "one", State: openflow.PortStateLive}
	output := []openflow.Action{openflow.ActionOutput{Port: 1}}
	switch request.(type) {
	case openflow.DescRequest:
		return openflow.DescReply{Manufacturer: "Baton", Datapath: "test"}
	case openflow.FlowStatsRequest:
		return n.flows
	case openflow.AggregateRequest:
		return openflow.AggregateReply{Flows: uint32(len(n.flows))}
	case openflow.TableStatsRequest:
		return openflow.TableStatsReply{{Table: 0, Active: uint32(len(n.flows))}}
	case openflow.PortStatsRequest:
		return openflow.PortStatsReply{{Port: 1, RxPackets: 11}}
	case openflow.PortDescRequest:
		return openflow.PortDescReply{port}
	case openflow.QueueStatsRequest:
		return openflow.QueueStatsReply{{Port: 1, Queue: 2, TxPackets: 22}}
	case openflow.GroupStatsRequest:
		return openflow.GroupStatsReply{{Group: 3, Packets: 33, Buckets: []openflow.Counter{{Packets: 33}}}}
	case openflow.GroupDescRequest:
		return openflow.GroupDescReply{{Kind: openflow.GroupTypeSelect, Group: 3, Buckets: []openflow.Bucket{{Weight: 2,
			WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: output}}}}
	case openflow.GroupFeaturesRequest:
		return openflow.GroupFeaturesReply{Types: 15, Max: [4]uint32{44, 44, 44, 44}}
	case openflow.MeterStatsRequest:
		return openflow.MeterStatsReply{{Meter: 5, Flows: 55, Bands: []openflow.Counter{{}}}}
	case openflow.MeterConfigRequest:
		return openflow.MeterConfigReply{{Flags: openflow.MeterFlagKbps, Meter: 5, Bands: []openflow.Band{{Kind: openflow.BandDrop,
			Rate: 66}}}}
	case openflow.MeterFeaturesRequest:
		return openflow.MeterFeaturesReply{MaxMeter: 77}
	case openflow.TableFeaturesBody:
		var props []openflow.TableProp
		for _, k := range []openflow.PropType{openflow.PropInstructions, openflow.PropNextTables, openflow.PropWriteActions,
			openflow.PropApplyActions, openflow.PropMatch, openflow.PropWildcards, openflow.PropWriteSetfield,
			openflow.PropApplySetfield} {
			props = append(props, openflow.TableProp{Kind: k})
		}
		return openflow.TableFeaturesBody{{Table: 0, Name: "first", MaxEntries: 88, Properties: props}}
	}
	return nil
}

// serveNode answers everyone who connects, until the listener is closed.
func (n *node) serve(l net.Listener) {
	for {
		rw, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			c := Start(rw, Options{})
			defer c.Close()
			for {
				r, err := c.Receive(context.Background())
				if err != nil {
					return
				}
				n.mu.Lock()
				answers := n.take(r.Message, r.Raw)
				n.mu.Unlock()
				for _, a := range answers {
					if c.SendWait(context.Background(), r.XID, a) != nil {
						return
					}
				}
			}
		}()
	}
}

// TestOpenVSwitchTalks: ovs-ofctl gets from a channel of ours what it asks for, and says nothing that we do not know.
func TestOpenVSwitchTalks(t *testing.T) {
	ofctl, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		t.Skip("ovs-ofctl is not installed (make deps)")
	}
	path := filepath.Join(t.TempDir(), "node")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := &node{open: map[uint32][]openflow.Message{}}
	go n.serve(l)
	tests := []struct{ args, want string }{
		{"show", "dpid:0000000000000042 n_tables:254 1(one): addr:02:00:00:00:00:01 frags=normal miss_send_len=128"},
		{"probe", ""},
		{"add-flow %s table=3,priority=7,cookie=0x9,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=set_field:10.1.1.1->ip_dst,output:1", ""},
		{"add-flow %s dl_vlan=5,actions=pop_vlan,controller:100", ""},
		{"dump-flows", "cookie=0x9 table=3 priority=7,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=set_field:10.1.1.1->ip_dst,output:1 dl_vlan=5 " +
			"actions=pop_vlan,CONTROLLER:100"},
		{"dump-aggregate", "flow_count=2"},
		{"del-flows", ""},
		{"--bundle add-flow %s arp,actions=FLOOD", ""},
		{"dump-flows", "arp actions=FLOOD"},
		{"replace-flows %s testdata/flows.ovs", ""},
		{"diff-flows %s testdata/flows.ovs", ""},
		{"dump-tables", "active=3"},
		{"dump-table-features", `table 0 ("first") max_entries=88`},
		{"dump-desc", "Manufacturer: Baton DP Description: test"},
		{"dump-ports", "port 1: rx pkts=11"},
		{"dump-ports-desc", "1(one)"},
		{"queue-stats", "port 1 queue 2: pkts=22"},
		{"dump-groups", "group_id=3,type=select,bucket=weight:2,actions=output:1"},
		{"dump-group-stats", "group_id=3 packet_count=33"},
		{"dump-group-features", "max_groups=0x2c"},
		{"dump-meters", "meter=5 kbps rate=66"},
		{"meter-stats", "meter:5 flow_count:55"},
		{"meter-features", "max_meter:77"},
		{"get-frags", "normal"},
		{"add-group %s group_id=4,type=all,bucket=output:1", ""},
		{"add-meter %s meter=6,kbps,band=type=drop,rate=1000", ""},
		{"mod-port %s 1 no-flood", ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			args := tt.args
			if !strings.Contains(args, "%s") {
				args += " %s"
			}
			args = "-O OpenFlow13 --timeout=30 " + strings.Replace(args, "%s", "unix:"+path, 1)
			out, err := exec.Command(ofctl, strings.Fields(args)...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "***") || strings.Contains(string(out), "|WARN|") {
				t.Fatalf("%v:\n%s", err, out)
			}
			rest := string(out)
			for word := range strings.FieldsSeq(tt.want) {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("no %q in its place:\n%s", word, out)
				}
				rest = after
			}
		})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.odd {
		t.Errorf("not known: %T %+v", m, m)
	}
}
