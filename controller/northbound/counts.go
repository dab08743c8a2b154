package northbound

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/creachadair/jrpc2"

	"baton/api"
	"baton/exporter"
)

// counts are what metrics tell of a server.
type counts struct {
	mu      sync.Mutex
	calls   map[counted]uint64
	refused map[string]uint64
}

type counted struct{ method, result string }

// results are the values of the label, by the code of the error.
var results = map[jrpc2.Code]string{
	jrpc2.NoError: "ok", jrpc2.ParseError: "not-json", jrpc2.InvalidRequest: "invalid-request", jrpc2.MethodNotFound: "no-method",
	jrpc2.InvalidParams: "invalid-params", jrpc2.InternalError: "internal-error", api.ControllerForbidden: "forbidden",
	api.ControllerNotFound: "not-found", api.ControllerConflict: "conflict", api.ControllerTooMany: "too-many",
	api.ControllerUnavailable: "unavailable",
}

// call counts a call. The method is one of ours, or "unknown": callers do not choose labels.
func (c *counts) call(method string, code jrpc2.Code) {
	result, ok := results[code]
	if !ok {
		result = "other"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[counted]uint64{}
	}
	c.calls[counted{method, result}]++
}

func (c *counts) refuse(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = map[string]uint64{}
	}
	c.refused[why]++
}

// Counts are numbers of a server, for a status.
type Counts struct {
	Connections int
	Cut         uint64 // subscribers
}

// Counts returns a server's numbers.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{len(s.open), s.hub.cut.Load()}
}

// Series adds a server's numbers to those of the controller.
func (s *Server) Series(n *exporter.Numbers) {
	now := s.Counts()
	n.GaugeInt("northbound_connections", "WebSockets.", now.Connections)
	held, waiting := s.budget.numbers()
	n.GaugeInt("northbound_unread_bytes", "Bytes of answers and events that callers have not read yet.", int(held))
	n.GaugeInt("northbound_waiting_calls", "Calls that wait until their answer may be made.", waiting)
	n.Counter("northbound_cut_subscribers_total", "Subscribers cut off as they read events too slowly.", now.Cut)
	n.Counter("northbound_events_total", "Events published to subscribers.", s.hub.published.Load())
	n.Counter("northbound_unencodable_events_total", "Events that JSON cannot have: a bug.", s.hub.failed.Load())
	s.counts.mu.Lock()
	calls, refused := maps.Clone(s.counts.calls), maps.Clone(s.counts.refused)
	s.counts.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(calls), func(a, b counted) int {
		return cmp.Or(strings.Compare(a.method, b.method), strings.Compare(a.result, b.result))
	}) {
		n.Counter("northbound_calls_total", "Calls by method and result.", calls[k], "method", k.method, "result", k.result)
	}
	for _, why := range slices.Sorted(maps.Keys(refused)) {
		n.Counter("northbound_refused_total", "Callers refused or dropped, by reason.", refused[why], "reason", why)
	}
}
