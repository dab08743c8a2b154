package policy

import (
	"sync"
	"time"

	"baton/api"
)

// Record makes a decision of Explain an entry of the decision log. method is handoff, redirect or dns.
func (d *Decision) Record(at time.Time, method string, q *Query) api.RoutingDecision {
	r := api.RoutingDecision{Time: at, Method: method, Client: q.Client.Addr(), Name: q.Host, Path: q.Path, Because: d.Because}
	if len(d.Choices) > 0 {
		r.Site, r.Surrogate = d.Choices[0].Site.Name, d.Choices[0].Surrogate.Name
	}
	return r
}

// Log keeps the last decisions. Its methods may be called from any goroutine.
type Log struct {
	mu      sync.Mutex
	entries []api.RoutingDecision // a ring: number n is at n % len
	next    uint64                // number of the next decision
}

// NewLog returns a log that keeps so many decisions.
func NewLog(size int) *Log {
	return &Log{entries: make([]api.RoutingDecision, max(size, 1))}
}

// Add appends a decision. It never waits.
func (l *Log) Add(r api.RoutingDecision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[l.next%uint64(len(l.entries))] = r
	l.next++
}

// After returns at most limit decisions that were added after the first so many, the oldest first, and how many there were with the last of them: what to
// ask for next. Those that are not kept any more are left out. A limit of 0 is none.
func (l *Log) After(after uint64, limit int) (decisions []api.RoutingDecision, count uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := uint64(len(l.entries))
	from := max(after, l.next-min(l.next, kept))
	for ; from < l.next && (limit <= 0 || len(decisions) < limit); from++ {
		decisions = append(decisions, l.entries[from%kept])
	}
	return decisions, max(from, after)
}

// Last returns the last decisions, at most limit, the oldest first. A limit of 0 is none.
func (l *Log) Last(limit int) []api.RoutingDecision {
	l.mu.Lock()
	next := l.next
	l.mu.Unlock()
	from := uint64(0)
	if limit > 0 {
		from = next - min(next, uint64(limit))
	}
	out, _ := l.After(from, limit)
	return out
}
