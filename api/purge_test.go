package api

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPurgeArrives(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	status := PurgeStatus{
		Process: Process{Version: "v1", PID: 7, Started: at, Config: "purge.yaml", Loaded: at, Kernel: "6.18", Reloads: 12, ReloadsFailed: 13}, Features: []Feature{{Name: "resets", Reason: "CAP_NET_RAW"}},
		Cgroups: []string{"/a", "/b"}, CgroupsMissing: []string{"/b"}, Waiting: Usage{Used: 1, Limit: 2},
		Policies: []PurgePolicy{{
			Name: "web", InForce: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Ports: []string{"80", "8000-8100"}, MaxRetries: 1,
			Wait: 100, Floor: time.Second, Ceiling: time.Minute, Exempt: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}, DryRun: true,
			Marked: 1, Found: 2, Ended: 3, Spared: 4, Heard: 5, Gone: 6, Dropped: 7, Failed: 8,
		}},
		Verdicts: map[string]uint64{"marked": 9}, Resets: 10, ResetsFailed: 11,
	}
	c := daemon(t, Backend{Part: PurgeBackend{Status: func(context.Context) (PurgeStatus, error) { return status, nil }}})
	got, err := c.Purge(t.Context())
	same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(status, got, same); err != nil || diff != "" {
		t.Errorf("Purge: %v (-want +got):\n%s", err, diff)
	}
	c = daemon(t, Backend{Part: PurgeBackend{Status: func(context.Context) (PurgeStatus, error) { return PurgeStatus{}, errors.New("no maps") }}})
	if _, err := c.Purge(t.Context()); err == nil {
		t.Error("a failure is a status")
	}
}
