package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/api"
)

func TestPrintBalance(t *testing.T) {
	now := time.Unix(1700000000, 0).UTC()
	s := api.BalanceStatus{
		Process: api.Process{Version: "v1", PID: 7, Started: now.Add(-time.Minute)}, Datapath: "baton", Method: "round-robin", Flows: api.Usage{Used: 3, Limit: 131072}, Resets: 5,
		Links: []api.BalanceLink{
			{
				Name: "fibre", Interface: "eth0", State: "used", Since: now.Add(-30 * time.Second), Tier: 1, Weight: 93, Measured: true,
				Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")},
				Gateways:  []netip.Addr{netip.MustParseAddr("192.0.2.1")}, MTU: 1500, Active: 2, Flows: 9, RTT: 12345678, Loss: 0.015,
				Sent: 1234567, Received: 98765432100, SentRate: 12_000, ReceivedRate: 93_400_000, Capacity: 1e8,
			},
			{
				Name: "lte", Interface: "wwan0", State: "no carrier", Since: now.Add(-time.Hour), Tier: 2, Weight: 10,
				Cap: &api.BalanceCap{Used: 4_500_000_000, Bytes: 5_000_000_000, Until: now},
			},
		},
		Verdicts: map[string]uint64{"output": 20, "drop_bind_gone": 0},
	}
	const want = `baton v1, pid 7, up 1m0s, round-robin by baton, 3 of 131072 flows, 5 connections reset

LINK   INTERFACE  STATE       FOR     TIER  WEIGHT        ACTIVE  FLOWS  UP         DOWN         CAPACITY    RTT      LOSS  CAP
fibre  eth0       used        30s     1     93, measured  2       9      12 kbit/s  93.4 Mbit/s  100 Mbit/s  12.35ms  1.5%  -
lte    wwan0      no carrier  1h0m0s  2     10            0       0      0 bit/s    0 bit/s      -           -        0%    4.5 GB of 5 GB until 2023-11-14 22:13

LINK   ADDRESSES               GATEWAYS   RESOLVERS  MTU   SENT     RECEIVED
fibre  192.0.2.2, 2001:db8::2  192.0.2.1  -          1500  1.23 MB  98.8 GB
lte    -                       -          -          0     0 B      0 B

VERDICT  PACKETS  
output   20       
`
	var out strings.Builder
	if err := printBalance(&out, &s, false, now); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestScaled(t *testing.T) {
	for bits, want := range map[float64]string{
		0: "0 bit/s", 999: "999 bit/s", 999.6: "1 kbit/s", 1500: "1.5 kbit/s", 99_940_000: "99.9 Mbit/s", 123_456_789: "123 Mbit/s", 3e15: "3000 Tbit/s",
	} {
		if got := bitRate(bits); got != want {
			t.Errorf("%v: %q, want %q", bits, got, want)
		}
	}
}
