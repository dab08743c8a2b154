package api

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBalanceArrives(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	status := BalanceStatus{
		Process: Process{Version: "v1", PID: 7, Started: at, Name: "balance", Config: "balance.yaml", Loaded: at, Reloads: 14, ReloadsFailed: 15}, Datapath: "baton", Method: "round-robin", Internal: "bal0",
		Links: []BalanceLink{{
			Name: "fibre", Interface: "eth0", Port: 2, State: "used", Since: at, Tier: 1, Weight: 100, Measured: true,
			Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}, Gateways: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
			Resolvers: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, MTU: 1500, Active: 1, Flows: 2, Connections: 16, RTT: time.Millisecond, Loss: 0.5,
			Sent: 3, Received: 4, SentRate: 5, ReceivedRate: 6, Capacity: 7, Cap: &BalanceCap{Used: 8, Bytes: 9, Until: at},
		}},
		Flows: Usage{Used: 10, Limit: 11}, Verdicts: map[string]uint64{"forwarded": 12}, Resets: 13,
	}
	c := daemon(t, Backend{Part: BalanceBackend{Status: func(context.Context) (BalanceStatus, error) { return status, nil }}})
	got, err := c.Balance(t.Context())
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(status, got, same); err != nil || diff != "" {
		t.Errorf("Balance: %v (-want +got):\n%s", err, diff)
	}
	c = daemon(t, Backend{Part: BalanceBackend{Status: func(context.Context) (BalanceStatus, error) { return BalanceStatus{}, errors.New("no maps") }}})
	if _, err := c.Balance(t.Context()); err == nil {
		t.Error("a failure is a status")
	}
}
