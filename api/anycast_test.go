package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAnycastArrives(t *testing.T) {
	load := 0.5
	preference := uint32(90)
	at := time.Unix(1700000000, 0).UTC()
	status := AnycastStatus{
		Process: Process{Version: "v1", PID: 7, Started: at, Config: "anycast.yaml", Loaded: at, Name: "london", Reloads: 1, ReloadsFailed: 2},
		Site: &AnycastSite{
			Prefixes: []string{"192.0.2.0/24"}, Levels: []AnycastLevel{{"drain", false, 100, 3, &preference, []string{"65535:0"}, 0.9, 0.8}}, Level: "drain",
			Since: at, Reason: "drained by instruction", Want: "announce", Held: "dwell", HeldUntil: at, Changes: 3, Penalty: 500, Budget: 1000, Fault: "none",
			Health: "up", Cause: "none", Checks: []AnycastCheck{{"web", "up", "status 503", at}}, Load: &load, Loads: []AnycastLoad{{"uplink", &load, at, "late"}},
			Instruction: AnycastInstruction{"level", "london", "med", true, at}, Proposal: &AnycastProposal{"plan", "med", at, true},
			Peers: []AnycastPeer{{"r1", "10.0.0.1", 65000, "established", at, 2, "hold timer"}}, Others: []AnycastNeighbor{{"paris", true, "med", "up", &load, at, "late", "1"}},
		},
		Planner: &AnycastPlanner{
			Sites: []AnycastNeighbor{{Name: "paris"}}, Moved: at, Because: "nothing is better", Map: []AnycastIngress{{"west", "paris", "london", 1e6}},
			Overload: 5, Exact: true, Next: []AnycastMove{{1, "west", "paris", "london"}}, Forwarders: []string{"000000000000002a"},
		},
	}
	var heard AnycastInstruction
	c := daemon(t, Backend{Part: AnycastBackend{
		Status: func(context.Context) (AnycastStatus, error) { return status, nil },
		Instruct: func(_ context.Context, o AnycastInstruction) (AnycastStatus, error) {
			heard = o
			if o.Site == "rome" {
				return AnycastStatus{}, fmt.Errorf("site rome: %w", ErrNotFound)
			}
			return status, nil
		},
	}})
	got, err := c.Anycast(t.Context())
	if diff := cmp.Diff(status, got); err != nil || diff != "" {
		t.Errorf("Anycast: %v (-want +got):\n%s", err, diff)
	}
	given := AnycastInstruction{Kind: "level", Site: "paris", Level: "med", Force: true}
	if got, err = c.AnycastInstruct(t.Context(), given); err != nil || heard != given || got.Name != "london" {
		t.Errorf("AnycastInstruction: %v, %+v was heard", err, heard)
	}
	if _, err = c.AnycastInstruct(t.Context(), AnycastInstruction{Site: "rome"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown site: %v", err)
	}
}
