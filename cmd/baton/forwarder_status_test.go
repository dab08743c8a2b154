package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/cmd/cli"
	"baton/experiments/experimentstest"
	"baton/lab"
)

func TestPrintForwarder(t *testing.T) {
	now := time.Unix(1700000000, 0)
	s := api.ForwarderStatus{
		Process: api.Process{Name: "edge", Version: "v1", PID: 7, Started: now.Add(-time.Minute)}, DatapathID: "000000000000002a", FailMode: "secure",
		Entries: api.Usage{Used: 3, Limit: 100}, Groups: api.Usage{Used: 1, Limit: 10}, Meters: api.Usage{Limit: 5},
		Journal: &api.ForwarderJournal{Records: 4, Bytes: 512},
		Bindings: &api.ForwarderBindings{Flows: api.Usage{Used: 9, Limit: 4096}, Ports: []api.ForwarderBindingPort{
			{Port: "2", Interface: "eth2", Flows: 8, Active: 3, RTT: 12345 * time.Microsecond, SYNs: 7, SYNRepeats: 1, Sent: 1000, Received: 2000},
			{Port: "3", Interface: "eth3", Flows: 1},
		}},
		Ports: []api.ForwarderPort{
			{Number: "1", Interface: "eth1", Present: true, Up: true, Counters: &api.ForwarderPortCounters{RxPackets: 1, RxBytes: 60, TxPackets: 2, TxBytes: 120}},
			{Number: "2", Interface: "eth2", Present: true, Config: []string{"port_down", "no_recv"}},
			{Number: "LOCAL", Interface: "sw0"},
		},
		Endpoints: []api.ForwarderEndpoint{
			{Endpoint: "tcp:192.0.2.7:6653", Opened: 2, Received: 3, Refused: 1, Sent: 4, PacketIns: 9, PacketInsDropped: 5,
				Channels: []api.ForwarderChannel{{Role: "master", Since: now.Add(-5 * time.Second)}}},
			{Endpoint: "tls:192.0.2.8:6653", LastError: "refused", Failed: now.Add(-2 * time.Second)},
			{Endpoint: "tcp:127.0.0.1:6654", Listens: true, Channels: []api.ForwarderChannel{{Peer: "127.0.0.1:9", Role: "equal", Since: now}}},
			{Endpoint: "unix:/run/x", Listens: true},
		},
		Tables:  []api.ForwarderTable{{Table: 0, Entries: 3, Lookups: 10, Misses: 7}, {Table: 253, Lookups: 1, Misses: 1}},
		Packets: map[string]uint64{"forwarded": 10, "drop_miss": 2, "dropped": 0}, MegaflowsHit: 6, MicroflowsHit: 7, UpcallsLost: 5, CopiesLost: 8,
	}
	const want = `edge, datapath 000000000000002a, fail mode secure: baton v1, pid 7, up 1m0s
3 of 100 flow entries, 1 of 10 groups, 0 of 5 meters
9 of 4096 flows bound to a link
on disk: 4 messages, 512 bytes

PORT   INTERFACE  STATE                     RX PACKETS  RX BYTES  RX DROPPED  TX PACKETS  TX BYTES  TX DROPPED
1      eth1       up                        1           60        0           2           120       0
2      eth2       down, port_down, no_recv
LOCAL  sw0        no interface

LINK  INTERFACE  FLOWS  ACTIVE  HANDSHAKE  SYNS  REPEATED  SENT BYTES  RECEIVED BYTES
2     eth2       8      3       12.35ms    7     1         1000        2000
3     eth3       1      0       -          0     0         0           0

CHANNELS            OPENED  RECEIVED  REFUSED  SENT  PACKET-INS  DROPPED  STATE
tcp:192.0.2.7:6653  2       3         1        4     9           5        master for 5s
tls:192.0.2.8:6653  0       0         0        0     0           0        not connected (2s ago: refused)
tcp:127.0.0.1:6654  0       0         0        0     0           0        127.0.0.1:9 equal for 0s
unix:/run/x         0       0         0        0     0           0        listening

TABLE  ENTRIES  LOOKUPS  MISSES
0      3        10       7
253    0        1        1

VERDICT    PACKETS
drop_miss  2
forwarded  10

flow cache hits: 7 microflow, 6 megaflow; lost: 5 packet-ins, 8 copies
`
	var out bytes.Buffer
	if err := printForwarder(&out, &s, false, now); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		got.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

// TestForwarderStatus asks a forwarder that forwards: by its socket, by its metrics, and as it ends.
func TestForwarderStatus(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	l := lab.New(t)
	a, b, host := l.Host("a"), l.Host("b"), l.Host("edge")
	l.Link(lab.End{Host: a, Addrs: []string{"10.8.0.1/24"}}, lab.End{Host: host, Name: "p1"}, lab.LinkOptions{})
	l.Link(lab.End{Host: b, Addrs: []string{"10.8.0.2/24"}}, lab.End{Host: host, Name: "p2"}, lab.LinkOptions{})
	file, socket := filepath.Join(t.TempDir(), "f.yaml"), filepath.Join(l.Dir(), "f.sock")
	write(t, file, `
name: status
datapath_id: 0x2a
ports: {1: p1, 2: p2, 7: none}
local: lo7
listen: [tcp:127.0.0.1:6654]
controllers: [tcp:127.0.0.1:1]
fail_mode: standalone
metrics: 127.0.0.1:9410
state: `+t.TempDir()+`
control: `+socket+"\n")
	p, err := host.Start(lab.Program{Path: program, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if out, err := host.Exec(context.Background(), program, "forwarder", "cleanup", "-c", file); err != nil {
			t.Error(err, out)
		}
	})
	client := api.NewClient(socket)
	defer client.Close()
	lab.Eventually(t, long, func() error {
		_, err := client.Forwarder(t.Context())
		return err
	})
	lab.Eventually(t, long, func() error {
		_, err := a.Exec(t.Context(), "ping", "-c", "1", "-W", "1", "10.8.0.2")
		return err
	})
	stdout, stderr, code := baton(t, t.TempDir(), "forwarder", "status", "--config", file, "-o", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var s api.ForwarderStatus
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "status" || s.DatapathID != "000000000000002a" || s.FailMode != "standalone" || s.PID == 0 {
		t.Errorf("name %q, datapath %q, fail mode %q, pid %d", s.Name, s.DatapathID, s.FailMode, s.PID)
	}
	if len(s.Ports) != 4 || !s.Ports[0].Up || s.Ports[0].Counters == nil || s.Ports[2].Present || s.Ports[3].Number != "LOCAL" {
		t.Errorf("ports %+v", s.Ports)
	}
	if len(s.Endpoints) != 2 || s.Endpoints[0].LastError == "" || !s.Endpoints[1].Listens {
		t.Errorf("endpoints %+v", s.Endpoints)
	}
	if len(s.Tables) != 1 || s.Tables[0].Entries != 1 || s.Tables[0].Lookups == 0 || s.Entries.Used != 1 || s.Packets["forwarded"] == 0 {
		t.Errorf("tables %+v, entries %+v, packets %v", s.Tables, s.Entries, s.Packets)
	}
	if s.Journal == nil || s.Journal.Records == 0 || s.Journal.Bytes == 0 {
		t.Errorf("journal %+v", s.Journal)
	}
	if out := must(t, t.TempDir(), "forwarder", "status", "--control", socket); !strings.Contains(out, "status, datapath 000000000000002a") {
		t.Error(out)
	}
	before := s.Packets["forwarded"]
	if out := must(t, t.TempDir(), "forwarder", "trace", "--control", socket, "--in-port", "p1", "tcp_dst=80"); !strings.Contains(out, "output:NORMAL") {
		t.Error(out)
	}
	if _, stderr, code := baton(t, t.TempDir(), "forwarder", "trace", "--control", socket, "--in-port", "9", "tcp_dst=80"); code != cli.Usage ||
		stderr != "baton: there is no port \"9\" (one of p1, p2, none, LOCAL)\n" {
		t.Errorf("a port that there is not: %d %s", code, stderr)
	}
	if s, err = client.Forwarder(t.Context()); err != nil || s.Packets["forwarded"] < before {
		t.Errorf("%v, packets %v", err, s.Packets)
	}
	out, err := host.Exec(t.Context(), "curl", "-s", "http://127.0.0.1:9410/metrics")
	if err != nil || !strings.Contains(out, `baton_forwarder_port_up{interface="p1",port="1"} 1`) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err = host.Exec(t.Context(), "curl", "-s", "http://127.0.0.1:9410/healthz"); err != nil || !strings.Contains(out, "no controller") {
		t.Errorf("%v: %s", err, out)
	}
	if err := p.Stop(long); err != nil {
		t.Errorf("%v:\n%s", err, p.Log())
	}
	if _, stderr, code := baton(t, t.TempDir(), "forwarder", "status", "--config", file); code != cli.Failure || !strings.Contains(stderr, "no forwarder is running") {
		t.Errorf("after its end: %d %s", code, stderr)
	}
}
