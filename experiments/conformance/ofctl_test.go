package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
)

// TestOfctlAsks puts every question that ovs-ofctl knows to a switch that holds a flow entry, a group and a meter.
func TestOfctlAsks(t *testing.T) {
	questions := []struct{ command, want string }{
		{"show", "dpid:0000000000000001"},
		{"dump-desc", "Manufacturer:"},
		{"dump-ports", "rx pkts="},
		{"dump-ports-desc", "1(p1): addr:"},
		{"dump-tables", "lookup="},
		{"dump-table-features", "metadata: match=0xffffffffffffffff"},
		{"dump-flows", "actions=meter:1,group:7"},
		{"dump-aggregate", "flow_count=1"},
		{"dump-groups", "group_id=7,type=select,bucket=weight:3,actions=output:2"},
		{"dump-group-stats", "group_id=7,duration="},
		{"dump-group-features", "max_groups="},
		{"dump-meters", "meter=1 kbps bands="},
		{"meter-stats", "meter:1 flow_count:1"},
		{"meter-features", "max_meter:"},
		{"queue-stats", "OFPST_QUEUE reply"},
		{"get-frags", "normal"},
		{"probe", ""},
	}
	everyEdge(t, nil, func(t *testing.T, e *edge) {
		e.must(t, "add-meter", "meter=1,kbps,band=type=drop,rate=100000")
		e.must(t, "add-group", "group_id=7,type=select,bucket=weight:3,actions=output:2")
		e.must(t, "add-flow", "in_port=1,actions=meter:1,group:7")
		for _, q := range questions {
			t.Run(q.command, func(t *testing.T) {
				if got := e.must(t, q.command); !strings.Contains(got, q.want) {
					t.Errorf("got %q, want %q", got, q.want)
				}
			})
		}
	})
}

func (e *edge) must(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := e.ofctl(t.Context(), command, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOfctlEdits changes flow entries one by one, and by files, and each time reads back what is there.
func TestOfctlEdits(t *testing.T) {
	steps := []struct {
		command string
		args    []string // of which FILE is one that holds the flows of the step
		flows   string
		left    int // flow entries afterwards
	}{
		{"add-flows", []string{"FILE"}, "table=0,priority=10,tcp,in_port=1,nw_src=10.0.0.0/8,actions=goto_table:1\n" +
			"table=1,priority=5,dl_vlan=7,actions=pop_vlan,output:2\ntable=1,priority=1,ip,actions=mod_nw_ttl:9,output:2\n", 3},
		{"diff-flows", []string{"FILE"}, "priority=10,tcp,in_port=1,nw_src=10.0.0.0/8,actions=goto_table:1\n" +
			"table=1,priority=5,dl_vlan=7,actions=pop_vlan,output:2\ntable=1,priority=1,ip,actions=mod_nw_ttl:9,output:2\n", 3},
		{"mod-flows", []string{"table=1,actions=drop"}, "", 3},
		{"mod-flows", []string{"--strict", "table=1,priority=1,ip,actions=output:1"}, "", 3},
		{"del-flows", []string{"--strict", "table=1,priority=1,ip"}, "", 2},
		{"del-flows", []string{"table=1,dl_vlan=7"}, "", 1},
		{"replace-flows", []string{"FILE"}, "priority=3,arp,actions=flood\npriority=3,ipv6,actions=in_port\n", 2},
		{"add-flows", []string{"FILE"}, "priority=4,arp,actions=all\npriority=4,icmp6,icmp_type=135,nd_target=fe80::1,actions=controller\n", 4},
		{"del-flows", nil, "", 0},
	}
	everyEdge(t, nil, func(t *testing.T, e *edge) {
		file := filepath.Join(t.TempDir(), "flows.txt")
		for i, s := range steps {
			if err := os.WriteFile(file, []byte(s.flows), 0o600); err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, a := range s.args {
				args = append(args, strings.Replace(a, "FILE", file, 1))
			}
			e.must(t, s.command, args...)
			flows := e.must(t, "dump-flows")
			if n := strings.Count(flows, "cookie="); n != s.left {
				t.Fatalf("step %d, %s: %d flow entries, want %d:\n%s", i, s.command, n, s.left, flows)
			}
		}
		if _, err := e.ofctl(t.Context(), "add-flow", "ip,actions=group:99"); err == nil || !strings.Contains(err.Error(), "BAD_OUT_GROUP") {
			t.Errorf("a flow entry with a group that is not there: %v", err)
		}
		if out := e.must(t, "benchmark", "64", "200"); !strings.Contains(out, "200") {
			t.Errorf("benchmark: %q", out)
		}
	})
}

// TestOfctlForwards: what ovs-ofctl installs is in force, also a port's configuration, and it sees and sends packets.
func TestOfctlForwards(t *testing.T) {
	everyEdge(t, nil, func(t *testing.T, e *edge) {
		ping := func() error {
			_, err := e.a.Exec(t.Context(), "ping", "-c", "1", "-W", "1", "10.8.0.2")
			return err
		}
		if ping() == nil {
			t.Error("packets pass a switch that was told nothing")
		}
		e.must(t, "add-flow", "in_port=1,actions=output:2")
		e.must(t, "add-flow", "in_port=2,actions=output:1")
		e.passes(t, "10.8.0.2")

		e.must(t, "mod-port", "1", "no-receive")
		lab.Eventually(t, 10*time.Second, func() error {
			if ping() == nil {
				return errors.New("port 1 receives still")
			}
			return nil
		})
		e.must(t, "mod-port", "1", "receive")
		lab.Eventually(t, 10*time.Second, ping)

		monitor := e.monitor(t)
		e.must(t, "add-flow", "priority=60000,icmp,in_port=1,actions=controller,output:2")
		lab.Eventually(t, 10*time.Second, func() error {
			if err := ping(); err != nil {
				return err
			}
			if out := monitor.Log(); !strings.Contains(out, "_PACKET_IN") || !strings.Contains(out, "in_port=1") {
				return fmt.Errorf("the monitor has seen %q", out)
			}
			return nil
		})
		const frame = "020000000001020000000002" + "88b5" + "5ea1ed0f5ea1ed0f"
		e.must(t, "packet-out", "in_port=2 packet="+frame+" actions=controller")
		lab.Eventually(t, 10*time.Second, func() error {
			if !strings.Contains(monitor.Log(), "dl_type=0x88b5") {
				return fmt.Errorf("the monitor has seen %q", monitor.Log())
			}
			return nil
		})
	})
}

// monitor starts that of ovs-ofctl, which shows what the switch sends to controllers.
func (e *edge) monitor(t *testing.T) *lab.Process {
	t.Helper()
	p, err := e.host.Start(lab.Program{Path: "ovs-ofctl", Args: []string{"-O", "OpenFlow13", "--unixctl=" + filepath.Join(t.TempDir(), "monitor"), "monitor", e.address, "65535"}, Name: "monitor"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
