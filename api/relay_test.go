package api

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func relayStatus() RelayStatus {
	at := netip.MustParseAddrPort
	return RelayStatus{
		Process:  Process{Part: "relay", Version: "v1", PID: 7, Started: time.Unix(1, 0).UTC(), Config: "relay.yaml", Loaded: time.Unix(2, 0).UTC(), Kernel: "6.18.0", Name: "frankfurt", Reloads: 1, ReloadsFailed: 2},
		Features: []Feature{{"bbr", false, "not there"}}, Cloud: "rhine", Stopping: true,
		Flows: Usage{1, 2},
		Workers: []RelayWorker{{
			Worker: 1, Live: 2, Flows: 3, Early: 4, Probes: 5, Rerouted: 17, Refused: map[string]uint64{"no_trunk": 6}, Expired: map[string]uint64{"header": 7},
			Copied: 8, Spliced: 9, Pipes: 10, WithoutPipe: 11, Full: 12, BadClientHeaders: 13, BadTrunkHeaders: 14, BadHandshakes: 15,
		}},
		Entries: []RelayEntry{{
			Name: "web", Open: true, Listen: at("0.0.0.0:443"), Mode: "plain", Destination: at("198.51.100.5:443"), Via: []string{"mumbai"}, Auto: true,
			EarlySYN: "off", ClientAddress: "relay", Live: 1, Flows: 2,
		}},
		Trunks: &RelayTrunks{
			Listen: []netip.AddrPort{at("[::]:7000")}, Open: true, Security: "tls", Waiting: Usage{3, 4}, Live: 5, Flows: 6,
		},
		Peers: []RelayPeer{{
			Name: "mumbai", Address: at("203.0.113.7:7000"), Cloud: "india", Security: "tls", RTT: 215 * time.Millisecond, Down: true,
			Failure: "refused", Failed: time.Unix(3, 0).UTC(), Ready: 1, Opening: 2, Waiting: 3, Opened: 4, Taken: 5, Missed: 6, Stale: 7,
			Unopened: 8, Broken: 9, Replayed: 10,
		}},
		Choice:  &RelayChoice{Destinations: 1, Chosen: 2, Changes: 3, Probes: 4, Latest: []RelayDestination{relayDestination()}},
		Packets: map[string]uint64{"steered": 11},
		Starts:  []RelayStart{{Trunks: "to", Address: at("203.0.113.7:7000"), Window: 2000, Established: 1, Flights: 2, Sent: 3, Retransmitted: 4, Refused: 5}},
	}
}

func relayDestination() RelayDestination {
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	return RelayDestination{
		Destination: "198.51.100.0/24:443", Server: netip.MustParseAddrPort("198.51.100.5:443"), Fixed: true, Up: true, RTT: 1, Chosen: true,
		Via: []string{"mumbai"}, Instead: [][]string{{"dubai"}, {}}, Takes: 2, Why: "near", Since: at(3), Measured: at(4), Due: at(5), LastUsed: at(6),
		Relays: []RelayDistance{{Relay: "mumbai", RTT: 7, Why: "no answer", Down: true}},
	}
}

func relayFlow(i int) RelayFlow {
	return RelayFlow{
		Client: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), uint16(i)), Server: netip.MustParseAddrPort("[2001:db8::5]:443"),
		ID: "000102030405060708090a0b0c0d0e0f", Entry: "web", Passed: []string{"a"}, Via: []string{"b", "c"}, Probe: true, Stage: "moving",
		Worker: 1, Since: time.Unix(5, 0).UTC(), IdleFor: time.Second, FromClient: 6, FromServer: 1 << 40,
	}
}

// filled returns the first zero field of a value: the test does not check fields that it does not set.
func filled(t *testing.T, v any) {
	t.Helper()
	r := reflect.ValueOf(v)
	for i := range r.NumField() {
		if r.Field(i).IsZero() {
			t.Errorf("%T: the test does not set %s", v, r.Type().Field(i).Name)
		}
	}
}

func TestRelayArrives(t *testing.T) {
	status := relayStatus()
	filled(t, status)
	filled(t, status.Process)
	filled(t, status.Workers[0])
	filled(t, status.Entries[0])
	filled(t, *status.Trunks)
	filled(t, status.Peers[0])
	filled(t, status.Starts[0])
	filled(t, *status.Choice)
	filled(t, status.Choice.Latest[0])
	filled(t, status.Choice.Latest[0].Relays[0])
	filled(t, relayFlow(1))
	asked := RelayPlanRequest{
		Client: netip.MustParseAddrPort("192.0.2.7:443"), Server: netip.MustParseAddrPort("198.51.100.5:443"), Direct: 3,
		Size: 1, Clouds: "any", MaxRelays: 2,
	}
	filled(t, asked)
	times := RelayPlanTimes{1, 2, 3, []time.Duration{4, 5}}
	route := RelayPlanRoute{[]string{"a"}, []string{""}, []RelayPlanLeg{{"client", "a", 6}, {"a", "server", 7}}, 8, times, "near"}
	plan := RelayPlan{
		Client: "client", Server: "server", Use: "relays", Why: "faster", Route: &route, Direct: &times,
		Others: []RelayPlanCandidate{{route, "slower"}}, Missing: []RelayPlanMissing{{"b", "c", "unknown"}}, Size: 1, Sizes: []int64{1, 2}, Text: []string{"x"},
	}
	filled(t, plan)
	distances := RelayDistances{
		Relay: "frankfurt", Cloud: "rhine", Destinations: []RelayDestination{relayDestination()},
		Peers: []RelayPeerDistance{{"mumbai", netip.MustParseAddrPort("203.0.113.7:7000"), "india", true, 8}},
	}
	filled(t, distances)
	filled(t, distances.Peers[0])
	c := daemon(t, Backend{Part: RelayBackend{
		Status:    func(context.Context) (RelayStatus, error) { return status, nil },
		Stop:      func(context.Context) (RelayStopResult, error) { return RelayStopResult{3, time.Minute}, nil },
		Distances: func(context.Context) (RelayDistances, error) { return distances, nil },
		Plan: func(_ context.Context, r RelayPlanRequest) (RelayPlan, error) {
			if diff := cmp.Diff(asked, r, sameAddrs); diff != "" {
				return RelayPlan{}, errors.New(diff)
			}
			return plan, nil
		},
		Flows: func(_ context.Context, yield func(RelayFlow) bool) error {
			for i := range 3 {
				yield(relayFlow(i + 1))
			}
			return errors.New("the worker has ended")
		},
	}})
	check := func(name string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(want, got, sameAddrs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	gotStatus, err := c.Relay(t.Context())
	check("relay", status, gotStatus, err)
	drained, err := c.RelayStop(t.Context())
	check("drain", RelayStopResult{3, time.Minute}, drained, err)
	gotPlan, err := c.RelayPlan(t.Context(), asked)
	check("plan", plan, gotPlan, err)
	gotDistances, err := c.RelayDistances(t.Context())
	check("distances", distances, gotDistances, err)
	n := 0
	var last error
	for f, err := range c.RelayFlows(t.Context()) {
		if last = err; err == nil {
			n++
			check("flow", relayFlow(n), f, nil)
		}
	}
	if n != 3 || last == nil || last.Error() != "the worker has ended" {
		t.Errorf("%d flows, then %v: want 3 and why there are no more", n, last)
	}
}

func TestPlanRequests(t *testing.T) {
	c := daemon(t, Backend{Part: RelayBackend{Plan: func(context.Context, RelayPlanRequest) (RelayPlan, error) { return RelayPlan{}, nil }}})
	for name, body := range map[string]any{
		"no addresses": RelayPlanRequest{},
		"no server":    RelayPlanRequest{Client: netip.MustParseAddrPort("192.0.2.7:443")},
		"no port":      map[string]any{"client": "192.0.2.7", "server": "192.0.2.8:1"},
		"misspelt":     map[string]any{"client": "192.0.2.7:1", "server": "192.0.2.8:1", "sise": 1},
	} {
		if _, err := c.do(t.Context(), "POST", "/v1/relay/plan", body); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want an invalid request", name, err)
		}
	}
	if _, err := c.Relay(t.Context()); err == nil || err.Error() != "GET /v1/relay is not supported by this daemon" {
		t.Errorf("a relay without a status: %v", err)
	}
}
