package api

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNameserverArrives: status, questions and changes arrive as they were sent, and refusals keep their kind.
func TestNameserverArrives(t *testing.T) {
	status := NameserverStatus{
		Process: Process{Version: "v1", PID: 7}, Listen: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")},
		Zones:      []NameserverZone{{Name: "example.test.", File: "z", Serial: 3, Records: 4, Routed: 1, Signed: true, Error: "z:1: wrong"}},
		Services:   []NameserverService{{Name: "content", Decisions: 5, Fallbacks: 6}},
		Surrogates: []NameserverSurrogate{{Name: "se1", Site: "west", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Up: true, State: "in-service", Weight: 1, Chosen: 7}},
		Queries:    8, Answers: map[string]uint64{"routed": 9}, Refused: map[string]uint64{"REFUSED": 10}, Connections: Usage{Used: 1, Limit: 2},
	}
	var asked NameserverQuestion
	var change NameserverChange
	c := daemon(t, Backend{Part: NameserverBackend{
		Status: func(context.Context) (NameserverStatus, error) { return status, nil },
		Query: func(_ context.Context, q NameserverQuestion) (NameserverExplanation, error) {
			asked = q
			return NameserverExplanation{Code: "NOERROR", Because: []string{"so"}}, nil
		},
		Decisions: func(context.Context) ([]RoutingDecision, error) {
			return []RoutingDecision{{Method: "dns", Name: "cdn"}}, nil
		},
		Change: func(_ context.Context, got NameserverChange) (NameserverSurrogate, error) {
			change = got
			return NameserverSurrogate{}, ErrNotFound
		},
	}})
	same := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	got, err := c.Nameserver(t.Context())
	if diff := cmp.Diff(status, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	q := NameserverQuestion{Name: "cdn.example.test", Type: "AAAA", Client: netip.MustParsePrefix("192.0.2.0/24"), DNSSEC: true}
	if x, err := c.NameserverQuery(t.Context(), q); err != nil || x.Because[0] != "so" || !cmp.Equal(q, asked, same) {
		t.Errorf("%v, %v, %v", x, err, asked)
	}
	if d, err := c.NameserverDecisions(t.Context()); err != nil || len(d) != 1 || d[0].Name != "cdn" {
		t.Errorf("%v, %v", d, err)
	}
	weight := 0
	if _, err := c.NameserverChange(t.Context(), NameserverChange{Surrogate: "se1", Weight: &weight}); !errors.Is(err, ErrNotFound) || change.Weight == nil || change.State != nil {
		t.Errorf("%v, %+v", err, change)
	}
	var answered *Error
	if _, err := c.do(t.Context(), "GET", "/v1/nameserver/query?name=x&client=nobody", nil); !errors.As(err, &answered) || answered.Status != 400 {
		t.Errorf("%v", err)
	}
}
