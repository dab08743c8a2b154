package legs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// Surrogate is a surrogate that has a leg pool.
type Surrogate struct {
	ID      uint16
	Name    string
	Address netip.AddrPort
	Legs    config.Legs
	Reuse   config.Reuse
}

// Options of a Manager. Run calls Failed, Doubted and Changed, one at a time, from a goroutine of its own and without
// any lock: they may call the Manager. What has not been reported when Run ends never is.
type Options struct {
	Kernel Kernel
	Wire   Wire
	Routes Routes
	Ports  PortRange
	// Now is the time, Timestamp the data path's timestamp clock.
	Now       func() time.Time
	Timestamp func() uint32
	MSS       []uint16 // of the leg classes, as in the data path's config
	Log       *slog.Logger
	// Failed reports a surrogate that refuses a leg or does not answer: no client can cause that. Of many failures at
	// once only the last maxReports are reported.
	Failed func(surrogate, kind string)
	// Doubted reports a surrogate that has ended a session before the first response byte, or has not accepted a leg
	// from a client's address, which its client may have caused.
	Doubted func(surrogate string)
	// Changed reports that a surrogate's MSS, its support of timestamps, or whether it is on this host, differs from
	// what was assumed.
	Changed func()
	// Event counts what happens to legs, for metrics. It is called with the Manager's lock held: it must neither wait
	// nor call the Manager.
	Event func(surrogate, event string)
}

// Manager maintains the leg pools for the data path, which takes legs by itself, and for WaitIdle. Its decisions depend
// only on events, time and the results of its options' functions, so that tests can script them. Methods whose names
// end in Locked need mu, as do those of the pools and of what belongs to a pool.
type Manager struct {
	o       Options
	secret  maphash.Seed
	reports *reports
	routing sync.Mutex // over the lookups of routes and their use; locked before mu

	mu    sync.Mutex
	pools map[uint16]*pool
	owner map[uint32]*pool     // by splice in use
	ended []kernel.Leg         // dead legs that are not free yet
	ports map[endpoints]*ports // two pools may share a server
	kept  map[ends]uint32      // legs that start from their clients' addresses
	free  []uint32
	mtu   int // of the narrowest interface towards clients
	// queues to be made without the lock
	wanted map[kernel.LegQueue]bool
	short  shortage

	renewed, routed time.Time // last time of each
}

// New makes a Manager; Adopt takes over legs of an earlier process, Run does the work.
func New(o Options) *Manager {
	return &Manager{
		o: o, secret: maphash.MakeSeed(), reports: newReports(&o),
		pools: make(map[uint16]*pool), owner: make(map[uint32]*pool),
		ports: make(map[endpoints]*ports), kept: make(map[ends]uint32),
		wanted: make(map[kernel.LegQueue]bool),
	}
}

// Adopt takes over the legs in the data path. Surrogates must have the numbers under which the legs were opened.
func (m *Manager) Adopt() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	busy := make(map[uint32]bool)
	var drop []kernel.Splice
	err := m.o.Kernel.EachSplice(func(s kernel.Splice) error {
		busy[s.Number] = true
		p := m.pools[s.Surrogate]
		switch {
		case p == nil || p.server != s.Server,
			s.State == kernel.Opening, s.State == kernel.Answered, s.State == kernel.Dead:
			drop = append(drop, s)
			return nil
		}
		p.legs++
		m.owner[s.Number] = p
		if !s.Keep {
			m.findPortsLocked(s.Router.Addr(), s.Server).claimPort(s.Router.Port())
			return nil
		}
		m.kept[ends{s.Router, s.Server}] = s.Number
		p.kept = append(p.kept, kept{s.Number, m.o.Now()})
		return nil
	})
	if err != nil {
		return err
	}
	for i := m.o.Kernel.Sessions() - 1; i >= 0; i-- {
		if !busy[uint32(i)] {
			m.free = append(m.free, uint32(i))
		}
	}
	for _, s := range drop {
		if s.State == kernel.Active || s.State == kernel.Closing {
			// its surrogate was removed: the session goes on, and its splice is freed when it ends
			continue
		}
		_ = m.o.Wire.End(s)
		if err := m.o.Kernel.FreeLeg(s.Number, s.Server, s.Router); err != nil {
			return err
		}
		m.free = append(m.free, s.Number)
	}
	return nil
}

// Retire closes all idle legs: there will be no process to renew them.
func (m *Manager) Retire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pools {
		m.renewKeptLocked(p, true, m.o.Now())
		for id, c := range p.classes {
			m.findQueuesLocked(p, id, c)
			for _, band := range c.listQueues() {
				for {
					s, ok, err := m.popIdleLocked(p, id, band)
					if err != nil || !ok {
						break
					}
					m.retireLegLocked(p, s)
				}
			}
		}
	}
}

// Update replaces the surrogates. Idle legs of removed ones are retired; their sessions continue. mtu is that of the
// narrowest interface towards clients.
func (m *Manager) Update(surrogates []Surrogate, mtu int) error {
	m.routing.Lock()
	defer m.routing.Unlock()
	addresses := make([]netip.Addr, len(surrogates))
	for i, s := range surrogates {
		addresses[i] = s.Address.Addr()
	}
	routes := m.lookUpRoutes(addresses)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mtu = mtu
	keep := make(map[uint16]bool)
	for _, s := range surrogates {
		keep[s.ID] = true
		p := m.pools[s.ID]
		if p == nil || p.server != s.Address {
			if p != nil {
				p.failWaiters()
			}
			p = &pool{
				id: s.ID, server: s.Address, unrouted: errUnrouted,
				opening: make(map[uint32]*opening), classes: make(map[uint8]*class),
			}
			m.pools[s.ID] = p
			p.ensureClass(m.defaultClass(s.Address.Addr()))
		}
		p.left, p.name, p.bounds, p.reuse, p.renewAt = false, s.Name, s.Legs, s.Reuse, time.Time{}
		p.setSources(s.Legs.SourcesTo(s.Address.Addr()))
		p.requests.configured = uint32(s.Legs.Requests)
		if err := m.o.Kernel.LimitRequests(p.id, p.requests.inForce()); err != nil {
			return err
		}
		if err := m.useRouteLocked(p, routes[s.Address.Addr()]); err != nil {
			m.o.Log.Warn("surrogate is unreachable", "surrogate", p.name, "err", err)
		}
	}
	for id, p := range m.pools {
		if !keep[id] {
			p.left, p.usable = true, false
			p.bounds.Min = 0
			p.failWaiters()
		}
	}
	return nil
}

// defaultClass is the class always kept ready: timestamps, and the largest MSS that fits most clients and the way to
// them.
func (m *Manager) defaultClass(addr netip.Addr) uint8 {
	headers := 40
	if addr.Is6() {
		headers = 60
	}
	var best uint8
	for i, mss := range m.o.MSS {
		if int(mss) <= min(1500, m.mtu)-headers {
			best = uint8(i)
		}
	}
	return best<<1 | 1
}

// SetUsable enables or disables a surrogate for new sessions. A disabled one's idle legs are retired.
func (m *Manager) SetUsable(id uint16, usable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pools[id]; p != nil {
		p.usable = usable
		p.retryAt, p.backoff = time.Time{}, 0
	}
}

// Facts are a surrogate's properties, learnt from its legs.
type Facts struct {
	MSS  uint16 // advertised by it; 0: unknown yet
	NoTS bool   // it does not support timestamps
}

// Facts returns a surrogate's properties.
func (m *Manager) Facts(id uint16) Facts {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pools[id]; p != nil {
		return Facts{p.serverMSS, p.noTS}
	}
	return Facts{}
}

// ErrNoLeg is returned by WaitIdle.
var ErrNoLeg = errors.New("no server leg available")

// WaitIdle waits until the surrogate has an idle leg of the class, opening one if necessary. Another request may still
// take it first.
func (m *Manager) WaitIdle(ctx context.Context, id uint16, classID uint8) error {
	m.ensureRoute(id)
	m.ensureQueues(id, classID)
	m.mu.Lock()
	p := m.pools[id]
	if p == nil || !p.mayServe(classID) {
		m.mu.Unlock()
		return ErrNoLeg
	}
	c := p.ensureClass(classID)
	now := m.o.Now()
	counted, err := m.o.Kernel.Surrogate(id)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	free := counted.Fresh[classID]
	if p.isOnDemand() { // else there are some to spare
		free = c.countUnclaimed(free, counted.Popped[classID], now)
	}
	c.lastUsed = now
	if free > 0 {
		c.granted++
		m.mu.Unlock()
		return nil
	}
	up := make(chan error, 1)
	c.waiters = append(c.waiters, up)
	if !m.completeFirstLocked(p, classID) && p.urgent[classID] < len(c.waiters) {
		if p.legs >= p.bounds.Max {
			m.evictIdleLocked(p)
		}
		if err = m.openLegLocked(p, classID, 0, now); p.openings[classID] >= len(c.waiters) {
			err = nil // one that is being opened ahead of demand will do
		}
	}
	m.mu.Unlock()
	if err != nil {
		m.stopWaiting(p, classID, up)
		return fmt.Errorf("%w: %w", ErrNoLeg, err)
	}
	select {
	case err := <-up:
		return err
	case <-ctx.Done():
		m.stopWaiting(p, classID, up)
		return fmt.Errorf("%w in time", ErrNoLeg)
	}
}

// stopWaiting removes a waiter. Its pool and class may be gone by now.
func (m *Manager) stopWaiting(p *pool, classID uint8, up chan error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := p.classes[classID]; c != nil {
		c.waiters = slices.DeleteFunc(c.waiters, func(w chan error) bool { return w == up })
	}
}

// failWaiters makes all waiters fail.
func (p *pool) failWaiters() {
	for _, c := range p.classes {
		for _, w := range c.waiters {
			w <- ErrNoLeg
		}
		c.waiters = nil
	}
}

// endpoints are an address of this host and a surrogate's.
type endpoints struct {
	router netip.Addr
	server netip.AddrPort
}

func (m *Manager) findPortsLocked(router netip.Addr, server netip.AddrPort) *ports {
	key := endpoints{router, server}
	if m.ports[key] == nil {
		m.ports[key] = newPorts(m.o.Ports)
	}
	return m.ports[key]
}

// allocPortLocked returns a port of one of the pool's addresses, which take turns. False: all are in use.
func (m *Manager) allocPortLocked(p *pool) (netip.AddrPort, bool) {
	for range p.sources {
		p.turn = (p.turn + 1) % len(p.sources)
		source := p.sources[p.turn]
		if port, ok := m.findPortsLocked(source, p.server).allocPort(); ok {
			return netip.AddrPortFrom(source, port), true
		}
	}
	return netip.AddrPort{}, false
}

// openLegLocked sends a SYN for one more leg, whose ACK is delayed. Without a delay the kernel program sends it.
func (m *Manager) openLegLocked(p *pool, classID uint8, delay time.Duration, now time.Time) error {
	if err := m.checkRoomLocked(p); err != nil {
		return err
	}
	if !m.hasQueuesLocked(p, classID) {
		return errNoQueue
	}
	router, ok := m.allocPortLocked(p)
	if !ok && !p.portless {
		p.portless = true
		m.o.Log.Warn("every port to the surrogate is in use: more sessions need more legs.sources",
			"surrogate", p.name, "sources", p.sources)
	}
	if !ok {
		return fmt.Errorf("every port to %s is in use", p.name)
	}
	p.portless = false
	_, err := m.openLegFromLocked(p, kernel.Leg{Class: classID, Router: router, Late: delay}, now)
	return err
}

// checkRoomLocked reports why the surrogate can have no more legs.
func (m *Manager) checkRoomLocked(p *pool) error {
	if p.ifindex == 0 {
		return p.unrouted
	}
	if p.legs >= p.bounds.Max {
		return fmt.Errorf("%s is at its limit of %d legs", p.name, p.bounds.Max)
	}
	if len(m.free) == 0 {
		m.noteNoPlaceLocked()
		return ErrNoPlace
	}
	return nil
}

// openLegFromLocked opens a leg of the class, address and port given. There is room for it.
func (m *Manager) openLegFromLocked(p *pool, leg kernel.Leg, now time.Time) (*opening, error) {
	leg.Number, leg.Surrogate, leg.Server = m.free[len(m.free)-1], p.id, p.server
	leg.Ifindex, leg.TSval = p.ifindex, m.o.Timestamp()
	leg.ISS = m.initialSequence(leg, now)
	if err := m.o.Kernel.OpenLeg(leg); err != nil {
		m.freePortLocked(leg.Router, leg.Server)
		return nil, err
	}
	m.free = m.free[:len(m.free)-1]
	m.owner[leg.Number] = p
	if leg.Keep {
		m.kept[ends{leg.Router, leg.Server}] = leg.Number
	}
	p.legs++
	o := &opening{leg: leg, sent: now, tries: 1}
	p.addOpening(o)
	if err := m.o.Wire.SYN(leg, m.o.MSS[leg.Class>>1]); err != nil {
		m.freeLegLocked(p, leg.Number, leg.Server, leg.Router)
		return nil, err
	}
	return o, nil
}

// initialSequence follows RFC 6528: a clock of 4 µs, offset by a secret hash of the addresses.
func (m *Manager) initialSequence(l kernel.Leg, now time.Time) uint32 {
	var h maphash.Hash
	h.SetSeed(m.secret)
	b, _ := l.Router.MarshalBinary()
	h.Write(b)
	b, _ = l.Server.MarshalBinary()
	h.Write(b)
	return uint32(h.Sum64()) + uint32(now.UnixMicro()/4)
}

// RandomOffset is a random offset for the data path's clock, so that timestamps do not reveal the host's uptime.
func RandomOffset() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint32(b[:])
}

func (m *Manager) freePortLocked(router, server netip.AddrPort) {
	if p := m.ports[endpoints{router.Addr(), server}]; p != nil { // a client's port is not ours
		p.freePort(router.Port())
	}
}

// freeLegLocked frees a splice.
func (m *Manager) freeLegLocked(p *pool, number uint32, server, router netip.AddrPort) {
	if err := m.o.Kernel.FreeLeg(number, server, router); err != nil {
		m.o.Log.Error("cannot free splice", "splice", number, "err", err)
		return
	}
	m.forgetLegLocked(p, number, server, router)
}

func (m *Manager) forgetLegLocked(p *pool, number uint32, server, router netip.AddrPort) {
	p.removeOpening(number)
	delete(m.owner, number)
	if at := (ends{router, server}); m.kept[at] == number {
		delete(m.kept, at)
	}
	m.freePortLocked(router, server)
	p.legs--
	m.free = append(m.free, number)
}

// freeEndedLocked frees the legs whose ends have been handled.
func (m *Manager) freeEndedLocked() {
	slices.SortFunc(m.ended, func(a, b kernel.Leg) int { return cmp.Compare(a.Number, b.Number) })
	// an end may be reported twice
	m.ended = slices.CompactFunc(m.ended, func(a, b kernel.Leg) bool { return a.Number == b.Number })
	if len(m.ended) == 0 {
		return
	}
	if err := m.o.Kernel.FreeLegs(m.ended); err != nil {
		m.o.Log.Error("cannot free splices", "err", err)
	} else {
		for _, l := range m.ended {
			m.forgetLegLocked(m.owner[l.Number], l.Number, l.Server, l.Router)
		}
	}
	m.ended = m.ended[:0]
}
