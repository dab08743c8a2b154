package worker

import (
	"crypto/rand"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"baton/relay/choice"
	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/plan"
	"baton/relay/trunkproto"
)

// Routes are the routes for entries with via: auto, shared by all workers. Its methods may be called from any goroutine.
type Routes struct {
	table   atomic.Pointer[choice.Table]
	unknown chan netip.AddrPort
	broken  chan plan.Pair
}

// reportQueue limits the queued reports; a dropped one is repeated by the next flow.
const reportQueue = 256

// NewRoutes returns an empty table of routes.
func NewRoutes() *Routes {
	w := &Routes{unknown: make(chan netip.AddrPort, reportQueue), broken: make(chan plan.Pair, reportQueue)}
	table, _ := choice.New(nil).Table()
	w.table.Store(table)
	return w
}

// Set replaces the table. Existing flows keep their routes.
func (w *Routes) Set(t *choice.Table) { w.table.Store(t) }

// Unknown returns servers that the table lacks.
func (w *Routes) Unknown() <-chan netip.AddrPort { return w.unknown }

// Broken returns pairs of relays of which the first reported that it cannot reach the second.
func (w *Routes) Broken() <-chan plan.Pair { return w.broken }

// chooseRoutes gives a flow its routes, once its server is known.
func (w *Worker) chooseRoutes(s *split) {
	routes := w.o.Routes
	table, now := routes.table.Load(), w.start.Add(w.now)
	if s.entry.Mode == config.Plain {
		s.routes, _ = table.Exact(s.server, now)
	} else {
		var known bool
		if s.routes, known = table.Find(s.server, now); !known {
			select {
			case routes.unknown <- s.server:
			default:
			}
		}
	}
	if w.nextRoute(s, false) {
		return
	}
	s.routes, s.route.tried = table.Fallback(), 0
	if w.nextRoute(s, false) {
		return
	}
	s.route.tried = 0
	w.nextRoute(s, true) // if there is none, the client learns that the server is not allowed
}

// nextRoute selects the flow's next route that is usable as far as this worker knows. tryDown: also through peers that are down.
func (w *Worker) nextRoute(s *split, tryDown bool) bool {
	for ; int(s.route.tried) < len(s.routes); s.route.tried++ {
		via := s.routes[s.route.tried]
		if len(via) == 0 && !w.allowed(s) {
			continue
		}
		if len(via) > 0 {
			first, _ := via.Cut()
			if p := w.pools[string(first)]; p == nil || p.down && !tryDown {
				continue
			}
		}
		s.route.tried++
		s.route.via = via
		if len(via) > 0 && s.route.id == ([trunkproto.IDSize]byte{}) {
			_, _ = rand.Read(s.route.id[:]) // never fails
		}
		return true
	}
	return false
}

// notReached are the statuses that say nothing about the server: the relays did not get as far.
const notReached = 1<<trunkproto.Unreachable | 1<<trunkproto.NotAllowed | 1<<trunkproto.Loop | 1<<trunkproto.Overloaded | 1<<trunkproto.BadHeader |
	1<<trunkproto.NoSuchRelay | 1<<trunkproto.NoTrunk | 1<<trunkproto.Stopping

// reroute sends a flow by its next route if relays rejected it or the next one is unresponsive, and the client's bytes can be replayed.
func (w *Worker) reroute(s *split, a trunkproto.Answer) bool {
	if s.entry == nil || !s.entry.Auto || s.answered || s.stage > stageMoving {
		return false
	}
	unresponsive := a.Status == trunkproto.TimedOut && s.isUnacknowledged()
	if !unresponsive && notReached>>a.Status&1 == 0 {
		return false
	}
	w.reportBroken(s, a)
	if unresponsive {
		s.trunk.pool.down, s.trunk.pool.why, s.trunk.pool.when = true, unix.ETIMEDOUT, w.now
	}
	if s.trunk != nil && s.trunk.unreplayable || !w.nextRoute(s, false) {
		return false
	}
	w.count.Rerouted.Add(1)
	if s.trunk != nil {
		s.trunk.pool.unqueue(s)
	}
	d := &s.dirs[flow.Client]
	said := d.buffer
	if s.trunk != nil && s.state.Connected() {
		said = s.trunk.replay
	}
	said = append([]byte(nil), said...)
	w.abandonServer(s)
	w.freeHeld(d)
	d.buffer = said
	if s.state.Connected() {
		s.state.Again(len(said))
	}
	s.trunk, s.stage = nil, stageConnecting
	if unresponsive {
		w.startWait(&s.waiter, waitConnect)
	}
	w.followRoute(s)
	return true
}

// abandonServer ends a flow's server end, for another attempt.
func (w *Worker) abandonServer(s *split) {
	server := &s.ends[flow.Server]
	if server.fd >= 0 {
		w.hangUp(server, true)
	}
	*server = end{of: s, which: flow.Server, line: line{fd: -1}}
}

// isUnacknowledged reports whether a flow waits for a trunk, or is on one whose peer has acknowledged none of its bytes.
func (s *split) isUnacknowledged() bool {
	server := &s.ends[flow.Server]
	return s.trunk != nil && (server.fd < 0 || !acknowledged(server.fd, s.trunk.before))
}

// reportBroken reports the relay that could not forward the flow to the next one.
func (w *Worker) reportBroken(s *split, a trunkproto.Answer) {
	if a.Status != trunkproto.NoTrunk && a.Status != trunkproto.NoSuchRelay || a.Hop == 0 {
		return
	}
	rest, hop := s.route.via, a.Hop
	for ; hop > 1; hop-- {
		_, rest = rest.Cut()
	}
	from, rest := rest.Cut()
	to, _ := rest.Cut()
	if to == nil {
		return
	}
	select {
	case w.o.Routes.broken <- plan.Pair{From: string(from), To: string(to)}:
	default:
	}
}
