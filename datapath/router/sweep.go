package router

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// SweepEvery is the interval at which Sweep and SweepClients must be called.
const SweepEvery = 250 * time.Millisecond

// A run occupies its CPU: packets and other threads wait. So it is short: some 100 to 300 µs with cold caches.
const (
	spliceRun = 1024
	endedRun  = 256 // clients that have lingered
	walkRun   = 512 // entries of a hash
)

// A share is the work of one call. A pass over more takes several calls, and timeouts are noticed later.
const (
	spliceShare = 16384 // 65,536 a second
	clientShare = 16384 // of one of the two tables: two seconds per pass at the default limits.pending
	flowShare   = 32768
)

// lingerAtMost is the linger time plus clock granularity.
const lingerAtMost = (time.Duration(routerBoundLINGER_MS) + 100) * time.Millisecond

// Timeouts of sessions and of undecided clients.
type Timeouts struct{ Handshake, Idle, Closing time.Duration }

func millis(d time.Duration) uint32 { return uint32(min(d.Milliseconds(), 1<<31-1)) }

// sweeper is the progress of the sweeps. One goroutine at a time uses it.
type sweeper struct {
	splice     uint32 // next to sweep
	clients    walk[routerTuple, routerClient]
	sources    sources // counted by the walk over clients
	synOptions walk[routerSynOptionsKey, routerClient]
	second     bool // the last walk was over synOptions
	flows      walk[routerTuple, routerFlow]
	lost       uint64    // lingering clients that did not fit into the queue, so far
	walkAt     time.Time // when all of those have lingered long enough; zero: none
	walking    bool
}

// Sweep ends timed-out sessions of the next share. Each end is reported as an event.
func (r *Router) Sweep(t Timeouts) (changed int, err error) {
	c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_SWEEP), Idle: millis(t.Idle), Closing: millis(t.Closing)}
	total := r.top.Load()
	for left := min(total, spliceShare); left > 0; left -= c.Count {
		if r.sweeper.splice >= total {
			r.sweeper.splice = 0
		}
		c.First = r.sweeper.splice
		c.Count = min(spliceRun, left, total-c.First)
		n, err := r.command(c)
		if err != nil {
			return changed, err
		}
		changed += n
		r.sweeper.splice += c.Count
	}
	return changed, nil
}

// Abandon ends the sessions that wait for a surrogate which has acknowledged none of their request. Their clients'
// retransmissions are routed again.
func (r *Router) Abandon(surrogate uint16) (sessions int, err error) {
	c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_ABANDON), Surrogate: uint32(surrogate)}
	total := r.top.Load()
	for ; c.First < total; c.First += c.Count {
		c.Count = min(spliceRun, total-c.First)
		n, err := r.command(c)
		if err != nil {
			return sessions, err
		}
		sessions += n
	}
	return sessions, nil
}

// SweepClients forgets clients that have lingered, and expired entries of the next share: alternately of undecided clients and of
// SYN options.
func (r *Router) SweepClients(t Timeouts) error {
	if err := r.sweepLingering(time.Now()); err != nil {
		return err
	}
	now, handshake := datapath.Clock(), millis(t.Handshake)
	s := &r.sweeper
	s.second = !s.second
	old := func(c *routerClient) bool {
		if routerClientState(c.State) == routerClientStateCLIENT_SYN {
			return past(c.Since, uint32(routerBoundCOOKIE_MS), now)
		}
		return past(c.Since, handshake, now)
	}
	if s.second {
		_, err := s.synOptions.on(clientShare, func(_ *routerSynOptionsKey, c *routerClient) bool { return old(c) }, func(keys []routerSynOptionsKey) error {
			return r.forget(routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_FORGET_SYN_OPTIONS)}, keys)
		})
		return err
	}
	if err := s.sources.begin(r.maps.Sources); err != nil {
		return err
	}
	end, err := s.clients.on(clientShare, func(key *routerTuple, c *routerClient) bool {
		s.sources.count(key, r.salt)
		return old(c)
	}, func(keys []routerTuple) error {
		return r.forget(routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_FORGET_CLIENTS), Handshake: handshake}, unnumbered(keys))
	})
	switch {
	case err != nil:
		s.sources.walking = false // start again
	case end:
		return s.sources.end(r.countSource)
	}
	return err
}

// past is the kernel program's, which decides.
func past(since, ms, now uint32) bool { return int32(now-since) > int32(ms) }

// sweepLingering empties the queue of lingering clients, and walks the flows for those that did not fit into it.
func (r *Router) sweepLingering(now time.Time) error {
	c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_SWEEP_ENDED), Count: endedRun}
	for {
		n, err := r.command(c)
		if err != nil {
			return err
		}
		if n < endedRun {
			break
		}
	}
	s := &r.sweeper
	var lost uint64
	if err := r.maps.LingeringLost.Lookup(uint32(0), &lost); err != nil {
		return fmt.Errorf("count lingering clients: %w", err)
	}
	if lost != s.lost {
		s.lost, s.walkAt = lost, now.Add(lingerAtMost)
	}
	if !s.walking {
		if s.walkAt.IsZero() || now.Before(s.walkAt) {
			return nil
		}
		s.walking, s.walkAt = true, time.Time{}
	}
	clock := datapath.Clock()
	end, err := s.flows.on(flowShare, func(_ *routerTuple, f *routerFlow) bool {
		side := routerSide(f.Side)
		return (side == routerSideSIDE_LINGER || side == routerSideSIDE_RESET) && past(endedMs(f), uint32(routerBoundLINGER_MS), clock)
	}, func(keys []routerTuple) error {
		return r.forget(routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_FORGET_FLOWS)}, unnumbered(keys))
	})
	s.walking = !end && err == nil
	return err
}

// endedMs returns when a lingering flow ended. The binding has the first member of a union instead of all.
func endedMs(f *routerFlow) uint32 { return f.Splice }

// forget makes the kernel check the entries again, and delete those that are still expired.
func (r *Router) forget(c routerSpliceCommand, keys []routerSynOptionsKey) error {
	for len(keys) > 0 {
		n := min(len(keys), int(routerBoundCOMMAND_KEYS))
		c.Count = uint32(n)
		if _, err := r.command(c, keys[:n]...); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// unnumbered are the keys of a command for tables that are keyed by tuple alone.
func unnumbered(clients []routerTuple) []routerSynOptionsKey {
	keys := make([]routerSynOptionsKey, len(clients))
	for i, c := range clients {
		keys[i].Client = c
	}
	return keys
}

// walk reads a hash map in steps. Entries that exist for a whole pass are seen once.
type walk[K, V any] struct {
	m      *ebpf.Map
	cursor ebpf.MapBatchCursor
	keys   []K
	values []V
	picked []K
}

// on continues the pass by at most a share of entries and calls each with those that pick selects. True: the pass is complete.
func (w *walk[K, V]) on(share int, pick func(*K, *V) bool, each func([]K) error) (end bool, err error) {
	if w.keys == nil {
		w.keys, w.values = make([]K, walkRun), make([]V, walkRun)
	}
	for share > 0 && !end {
		n, err := w.m.BatchLookup(&w.cursor, w.keys, w.values, nil)
		end = errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !end {
			w.cursor = ebpf.MapBatchCursor{}
			return false, fmt.Errorf("read %v: %w", w.m, err)
		}
		if end {
			w.cursor = ebpf.MapBatchCursor{}
		}
		w.picked = w.picked[:0]
		for i := range n {
			if pick(&w.keys[i], &w.values[i]) {
				w.picked = append(w.picked, w.keys[i])
			}
		}
		if err := each(w.picked); err != nil {
			return end, err
		}
		share -= max(n, 1)
	}
	return end, nil
}
