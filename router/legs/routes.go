package legs

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// A lookup is a netlink round trip, and attaching to an interface is more: requests do not wait for them. So both are
// done without the Manager's lock, and under routing, which keeps the lookups and what follows from them in one order.

// errUnrouted: no leg is opened to a surrogate whose route has not been looked up yet.
var errUnrouted = errors.New("its route is not known yet")

// lookup is the result of looking up a route.
type lookup struct {
	route    Route
	err      error
	attached error // why the data path is not attached to all of the route's interfaces
}

// lookUpRoutes looks up the routes to addresses and attaches the data path to their interfaces. The caller holds
// routing.
func (m *Manager) lookUpRoutes(addresses []netip.Addr) map[netip.Addr]lookup {
	found := make(map[netip.Addr]lookup)
	for _, a := range addresses {
		if _, ok := found[a]; ok {
			continue
		}
		var l lookup
		if l.route, l.err = m.o.Routes.To(a); l.err == nil && !l.route.Local {
			l.attached = m.attachAll(l.route.Paths)
		}
		found[a] = l
	}
	return found
}

// attachAll attaches the data path to interfaces, up to the first that fails.
func (m *Manager) attachAll(ifindexes []int) error {
	for _, ifindex := range ifindexes {
		if err := m.o.Kernel.Attach(ifindex); err != nil {
			return err
		}
	}
	return nil
}

// useRouteLocked puts the route to a surrogate in force.
func (m *Manager) useRouteLocked(p *pool, l lookup) error {
	if l.err != nil {
		p.unrouted = l.err
		return l.err
	}
	r := l.route
	if r.Local != p.local {
		p.local = r.Local
		if p.local {
			m.o.Log.Warn("surrogate is on this host and cannot be spliced: its sessions are proxied",
				"surrogate", p.name, "address", p.server)
		}
		m.reports.addChange()
	}
	if p.local {
		return nil
	}
	p.ifindex = r.Ifindex
	if p.sources = p.configured; len(p.sources) == 0 {
		p.sources = []netip.Addr{r.Source}
	}
	if l.attached != nil {
		return l.attached
	}
	if slices.Equal(r.Paths, p.paths) {
		return nil
	}
	p.paths = r.Paths
	return m.o.Kernel.SetPaths(p.id, r.Paths)
}

// refreshRoutes looks up the routes of some pools and applies them.
func (m *Manager) refreshRoutes(isDue func(*pool) bool) {
	m.routing.Lock()
	defer m.routing.Unlock()
	var due []*pool
	var addresses []netip.Addr
	m.mu.Lock()
	for _, p := range m.pools {
		if isDue(p) {
			due, addresses = append(due, p), append(addresses, p.server.Addr())
		}
	}
	m.mu.Unlock()
	routes := m.lookUpRoutes(addresses)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range due {
		if err := m.useRouteLocked(p, routes[p.server.Addr()]); err != nil {
			m.o.Log.Debug("surrogate is unreachable", "surrogate", p.name, "err", err)
		}
	}
}

// lacksRoute reports whether no leg can be opened because no route has been found.
func (p *pool) lacksRoute() bool { return p.usable && !p.local && p.ifindex == 0 }

// ensureRoute looks up the route of a surrogate that had none at the last time.
func (m *Manager) ensureRoute(id uint16) {
	m.mu.Lock()
	p := m.pools[id]
	lacks := p != nil && p.lacksRoute()
	m.mu.Unlock()
	if lacks {
		m.refreshRoutes(func(p *pool) bool { return p.id == id && p.lacksRoute() })
	}
}

func (m *Manager) watchRoutes(ctx context.Context) {
	routes, err := subscribeRoutes(ctx)
	if err != nil {
		m.o.Log.Warn("route changes are noticed late", "after", routeEvery, "err", err)
		return
	}
	for range routes {
		m.RoutesChanged()
	}
}

// RoutesChanged makes the next tick look up all routes.
func (m *Manager) RoutesChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.routed = time.Time{}
}

// Local reports whether a surrogate is on this host, and so cannot be spliced to.
func (m *Manager) Local(id uint16) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[id]
	return p != nil && p.local
}
