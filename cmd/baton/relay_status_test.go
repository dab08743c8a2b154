package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/api"
)

func TestPrintRelay(t *testing.T) {
	now := time.Unix(1700000000, 0)
	at := netip.MustParseAddrPort
	s := api.RelayStatus{
		Process: api.Process{Name: "frankfurt", Version: "v1", PID: 7, Started: now.Add(-time.Minute)}, Stopping: true, Flows: api.Usage{Used: 3, Limit: 65536},
		Features: []api.Feature{{Name: "programs", Used: true}, {Name: "congestion bbr", Reason: "the kernel does not have it"}},
		Entries: []api.RelayEntry{
			{Name: "web", Open: true, Listen: at("0.0.0.0:8443"), Mode: "plain", Destination: at("198.51.100.5:443"), Via: []string{"mumbai"},
				EarlySYN: "off", Live: 2, Flows: 1024},
			{Name: "all", Listen: at("127.0.0.1:8080"), Mode: "transparent", EarlySYN: "optimistic"},
			{Name: "any", Listen: at("127.0.0.1:1080"), Mode: "socks5", EarlySYN: "off", Auto: true, Open: true},
			{Name: "old", Live: 1, Flows: 9},
		},
		Choice: &api.RelayChoice{Destinations: 9, Latest: []api.RelayDestination{
			{Destination: "198.51.100.0/24:443", RTT: 300 * time.Millisecond, Chosen: true, Via: []string{"dubai", "mumbai"}, Takes: 1234567 * time.Microsecond,
				Why: "first measurement", Since: now.Add(-time.Hour), LastUsed: now.Add(-time.Second)},
			{Destination: "203.0.113.5:80", LastUsed: now.Add(-2 * time.Second)},
		}},
		Trunks: &api.RelayTrunks{Listen: []netip.AddrPort{at("0.0.0.0:7000"), at("[::]:7000")}, Open: true, Security: "tls",
			Waiting: api.Usage{Used: 6, Limit: 4096}, Live: 1, Flows: 12},
		Peers: []api.RelayPeer{
			{Name: "mumbai", Address: at("203.0.113.7:7000"), RTT: 215300 * time.Microsecond, Ready: 8, Opened: 1032, Taken: 1020, Missed: 4,
				Stale: 3, Unopened: 2, Broken: 1, Waiting: 5, Failure: "connection refused", Failed: now.Add(-time.Hour)},
			{Name: "dubai", Address: at("203.0.113.9:7000"), Down: true, Unopened: 2, Failure: "connection refused", Failed: now.Add(-2 * time.Second)},
			{Name: "new", Address: at("203.0.113.10:7000")},
		},
		Starts: []api.RelayStart{
			{Trunks: "from", Address: at("192.0.2.1:0"), Window: 40},
			{Trunks: "to", Address: at("203.0.113.7:7000"), Established: 1032, Sent: 9000, Retransmitted: 2, Refused: 1},
		},
		Workers: []api.RelayWorker{
			{Worker: 0, Live: 1, Flows: 500, Refused: map[string]uint64{"refused": 1, "no_trunk": 2, "loop": 0}, Expired: map[string]uint64{"header": 3},
				Copied: 100, Spliced: 1 << 30, Pipes: 2},
			{Worker: 1, Live: 2, Flows: 545, Early: 4, Probes: 5, Refused: map[string]uint64{"no_trunk": 4}, Copied: 200, WithoutPipe: 6, Full: 7,
				BadClientHeaders: 8, BadTrunkHeaders: 9, BadHandshakes: 10},
		},
		Packets: map[string]uint64{"steered": 11, "pass": 0},
	}
	const want = `frankfurt: baton v1, pid 7, up 1m0s, 3 of 65536 flows
stopping: no new flows are accepted
without congestion bbr: the kernel does not have it

ENTRY  LISTEN          MODE         TO                           EARLY SYN   FLOWS  TOTAL  STATE
web    0.0.0.0:8443    plain        198.51.100.5:443 via mumbai  off         2      1024   open
all    127.0.0.1:8080  transparent  its own destination          optimistic  0      0      not open
any    127.0.0.1:1080  socks5       as requested via auto        off         0      0      open
old    -               -            -                            -           1      9      removed

TRUNK LISTENER           SECURITY  IDLE  LIMIT  FLOWS  TOTAL  STATE
0.0.0.0:7000, [::]:7000  tls       6     4096   1      12     open

PEER    ADDRESS            RTT       READY  OPENED  TAKEN  MISSED  STALE  FAILED  BROKEN  REPLAYED  STATE
mumbai  203.0.113.7:7000   215.3 ms  8      1032    1020   4       3      2       1       0         up, 5 flows waiting (1h0m0s ago: connection refused)
dubai   203.0.113.9:7000   -         0      0       0      0       0      2       0       0         down (2s ago: connection refused)
new     203.0.113.10:7000  -         0      0       0      0       0      0       0       0         not reached yet

DESTINATION          ROUTE              RTT     1 MB TAKES  SINCE       LAST USED  WHY
198.51.100.0/24:443  via dubai, mumbai  300 ms  1.235s      1h0m0s ago  1s ago     first measurement
203.0.113.5:80       not chosen yet     -       -           -           2s ago     -
and 7 more: baton relay routes

TRUNKS  ADDRESS           INITIAL WINDOW  OPENED  SEGMENTS  RETRANSMITTED  REJECTED
from    192.0.2.1         40              0       0         0              0
to      203.0.113.7:7000  system          1032    9000      2              1

WORKER  FLOWS  TOTAL  EARLY  PROBES  COPIED  SPLICED     PIPES  NO PIPE  FULL  BAD CLIENT HEADERS  BAD TRUNK HEADERS  BAD HANDSHAKES
0       1      500    0      0       100     1073741824  2      0        0     0                   0                  0
1       2      545    4      5       200     0           0      6        7     8                   9                  10

REFUSED   FLOWS
no_trunk  6
refused   1

TIMED OUT  COUNT
header     3

VERDICT  PACKETS
steered  11
`
	var out bytes.Buffer
	if err := printRelay(&out, &s, true, now); err != nil {
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
