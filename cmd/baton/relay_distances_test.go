package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/api"
)

func TestPrintDistances(t *testing.T) {
	now := time.Unix(1700000000, 0)
	at := netip.MustParseAddrPort
	d := api.RelayDistances{
		Peers: []api.RelayPeerDistance{
			{Name: "mumbai", Address: at("203.0.113.7:7000"), Up: true, RTT: 215300 * time.Microsecond}, {Name: "dubai", Address: at("203.0.113.9:7000")},
		},
		Destinations: []api.RelayDestination{
			{Destination: "198.51.100.5:80", Server: at("198.51.100.5:80"), Up: true, Chosen: true, Via: []string{"mumbai"}, Measured: now.Add(-time.Minute),
				Relays: []api.RelayDistance{{Relay: "here"}, {Relay: "mumbai", RTT: 4 * time.Millisecond}, {Relay: "dubai", Why: "not_allowed"}}},
			{Destination: "203.0.113.0/24:443", Server: at("203.0.113.5:443")},
		},
	}
	const want = `PEER    ADDRESS           RTT       STATE
mumbai  203.0.113.7:7000  215.3 ms  up
dubai   203.0.113.9:7000  -         down

DESTINATION         SERVER           RTT  FROM PEERS                      STATE  MEASURED  ROUTE
198.51.100.5:80     198.51.100.5:80  -    mumbai 4 ms, dubai not_allowed  up     1m0s ago  via mumbai
203.0.113.0/24:443  203.0.113.5:443  -    -                               down   -         not chosen yet
`
	var out bytes.Buffer
	if err := printDistances(&out, &d, now); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(out.String(), " \n", "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
