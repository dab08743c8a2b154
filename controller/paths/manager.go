package paths

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

// ErrUnknownHost: no host has the address.
var ErrUnknownHost = errors.New("the host is not known")

// Manager sends the entries of a table. Work on one tree is done one after the other, on different trees at the same time.
type Manager struct {
	// Cache: a path that is installed is not installed again. Without it each Ensure sends every entry, as the paper's first measurement.
	cache  atomic.Bool
	commit func(ctx context.Context, id uint64, messages ...openflow.Message) error
	// view calls f with the topology, which nobody changes meanwhile. It also guards the table.
	view  func(f func(g *topology.Graph))
	table *Table

	mu    sync.Mutex
	locks map[Key]*turn

	hits, misses, reroutes, failures atomic.Uint64
}

// turn is a lock of a tree.
type turn struct {
	sync.Mutex
	users int
}

// NewManager returns a manager of a table, which is guarded by view.
func NewManager(t *Table, cache bool, commit func(context.Context, uint64, ...openflow.Message) error,
	view func(func(*topology.Graph)),
) *Manager {
	m := &Manager{commit: commit, view: view, table: t, locks: map[Key]*turn{}}
	m.cache.Store(cache)
	return m
}

// SetCache switches the cache on or off.
func (m *Manager) SetCache(on bool) { m.cache.Store(on) }

// Caches tells whether the cache is on.
func (m *Manager) Caches() bool { return m.cache.Load() }

// Counts are sums since the beginning.
type Counts struct {
	Hits, Misses uint64 // of the cache
	Reroutes     uint64 // trees that were changed
	Failures     uint64 // switches that have not taken an entry
}

// Counts returns the sums.
func (m *Manager) Counts() Counts {
	return Counts{m.hits.Load(), m.misses.Load(), m.reroutes.Load(), m.failures.Load()}
}

// lock waits for the turn of a tree and returns the function that ends it.
func (m *Manager) lock(k Key) func() {
	m.mu.Lock()
	l := m.locks[k]
	if l == nil {
		l = &turn{}
		m.locks[k] = l
	}
	l.users++
	m.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, k)
		}
	}
}

// Ensure installs the path from a host to another; it returns when all its switches have it.
func (m *Manager) Ensure(ctx context.Context, src, dst packet.MAC) error {
	cache := m.cache.Load()
	pair := Pair{src, dst}
	cached := false
	m.view(func(*topology.Graph) { cached = m.table.Cached(pair) })
	if cached && cache {
		m.hits.Add(1)
		return nil
	}
	k := m.table.Key(src, dst)
	defer m.lock(k)()
	var steps []Step
	var err error
	m.view(func(g *topology.Graph) {
		if cached = m.table.Cached(pair); cached && cache {
			return
		}
		a, there := g.Host(src)
		b, here := g.Host(dst)
		if !there || !here {
			err = fmt.Errorf("%w: %v or %v", ErrUnknownHost, src, dst)
			return
		}
		steps, err = m.table.Plan(g, a, b, !cache)
	})
	if err != nil || cached && cache {
		return err
	}
	m.misses.Add(1)
	if err := m.apply(ctx, steps); err != nil {
		return err
	}
	m.view(func(g *topology.Graph) {
		if _, known := g.Host(dst); known {
			m.table.Cache(pair)
		}
	})
	return nil
}

// Repair installs the path from a port to a host, and sends entries that should be there once more: a packet has come to the controller, so that one
// is missing.
func (m *Manager) Repair(ctx context.Context, from topology.Point, src, dst packet.MAC) error {
	defer m.lock(m.table.Key(src, dst))()
	var steps []Step
	var err error
	m.view(func(g *topology.Graph) {
		h, ok := g.Host(dst)
		if !ok {
			err = fmt.Errorf("%w: %v", ErrUnknownHost, dst)
			return
		}
		steps, err = m.table.Plan(g, topology.Host{MAC: src, At: from}, h, true)
	})
	if err != nil {
		return err
	}
	return m.apply(ctx, steps)
}

// apply sends steps in the order of their layers. A switch that does not take its steps is left out, and so are the layers behind it.
func (m *Manager) apply(ctx context.Context, steps []Step) error {
	for _, layer := range Layers(steps) {
		failed := make(chan error, len(layer))
		for _, s := range layer {
			send := func() {
				err := m.commit(ctx, s.Switch, s.Message())
				if err == nil {
					m.view(func(*topology.Graph) { m.table.Done(s) })
				} else {
					m.failures.Add(1)
				}
				failed <- err
			}
			if len(layer) == 1 {
				send()
			} else {
				go send()
			}
		}
		var err error
		for range layer {
			err = errors.Join(err, <-failed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Reroute brings trees to the present topology; trees whose destination is gone are removed.
func (m *Manager) Reroute(ctx context.Context, keys []Key) error {
	failed := make(chan error, len(keys))
	limit := make(chan struct{}, 64)
	for _, k := range keys {
		limit <- struct{}{}
		go func() {
			defer func() { <-limit }()
			failed <- m.reroute(ctx, k)
		}()
	}
	var err error
	for range keys {
		err = errors.Join(err, <-failed)
	}
	return err
}

func (m *Manager) reroute(ctx context.Context, k Key) error {
	defer m.lock(k)()
	var steps []Step
	m.view(func(g *topology.Graph) {
		if dst, ok := g.Host(k.Dst); ok {
			steps = m.table.Replan(g, k, dst)
		}
	})
	if len(steps) == 0 {
		return nil
	}
	m.reroutes.Add(1)
	return m.apply(ctx, steps)
}

// Remove removes trees.
func (m *Manager) Remove(ctx context.Context, keys []Key) error {
	var errs []error
	for _, k := range keys {
		unlock := m.lock(k)
		var steps []Step
		m.view(func(*topology.Graph) { steps = m.table.Remove(k) })
		errs = append(errs, m.apply(ctx, steps))
		unlock()
	}
	return errors.Join(errs...)
}
