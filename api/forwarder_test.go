package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestForwarderArrives(t *testing.T) {
	forwarder := ForwarderStatus{
		Process:    Process{Version: "v1", PID: 7, Started: time.Unix(1, 0).UTC(), Config: "f.yaml", Kernel: "6.18.0", Name: "edge"},
		DatapathID: "000000000000002a", FailMode: "secure",
		Ports: []ForwarderPort{
			{"1", "eth1", true, true, []string{"no_recv"}, "02:00:00:00:00:01", &ForwarderPortCounters{1, 2, 3, 4, 5, 1<<64 - 1}},
			{Number: "LOCAL", Interface: "sw0", Config: []string{}},
		},
		Endpoints: []ForwarderEndpoint{{
			"tcp:192.0.2.7:6653", true, []ForwarderChannel{{"192.0.2.8:5", "slave", time.Unix(2, 0).UTC()}}, "refused", time.Unix(3, 0).UTC(),
			1, 2, 3, 4, 5, 6, 7,
		}},
		Tables:  []ForwarderTable{{3, 4, 5, 6}},
		Entries: Usage{1, 2}, Groups: Usage{3, 4}, Meters: Usage{5, 6}, Journal: &ForwarderJournal{7, 8},
		Bindings: &ForwarderBindings{Usage{7, 8}, []ForwarderBindingPort{{"2", "eth2", 1, 2, 3, 4, 5, 6, 7}}},
		Packets:  map[string]uint64{"forwarded": 9}, MegaflowsHit: 10, MicroflowsHit: 13, UpcallsLost: 11, CopiesLost: 12,
	}
	traced := ForwarderTrace{
		Steps:   []ForwarderTraceStep{{1, "output:2"}},
		Sent:    []ForwarderTraceSent{{"2", "eth2", []byte{1, 2}, true}},
		Upcalls: []ForwarderTraceUpcall{{"no_match", 3, 4, []byte{5}, false}}, Bridged: true, Stack: []byte{6},
	}
	c := daemon(t, Backend{Part: ForwarderBackend{
		Status: func(context.Context) (ForwarderStatus, error) { return forwarder, nil },
		Trace: func(_ context.Context, r ForwarderTraceRequest) (ForwarderTrace, error) {
			if diff := cmp.Diff(ForwarderTraceRequest{"s1", "1", []byte{6}}, r); diff != "" {
				return ForwarderTrace{}, errors.New(diff)
			}
			return traced, nil
		},
	}})
	got, err := c.Forwarder(t.Context())
	if diff := cmp.Diff(forwarder, got); err != nil || diff != "" {
		t.Errorf("Forwarder: %v (-want +got):\n%s", err, diff)
	}
	gotTrace, err := c.ForwarderTrace(t.Context(), ForwarderTraceRequest{"s1", "1", []byte{6}})
	if diff := cmp.Diff(traced, gotTrace); err != nil || diff != "" {
		t.Errorf("ForwarderTrace: %v (-want +got):\n%s", err, diff)
	}
}
