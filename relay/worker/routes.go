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

// Routes are what flows of entries that leave their way to the relay are sent by, the same for all workers. Its methods may be called from
// any goroutine.
type Routes struct {
	table   atomic.Pointer[choice.Table]
	unknown chan netip.AddrPort
	broken  chan plan.Pair
}

// reportQueue is how much may wait to be heard; what is above that is told again by the next flow.
const reportQueue = 256

// NewRoutes makes ways of which nothing is known.
func NewRoutes() *Routes {
	w := &Routes{unknown: make(chan netip.AddrPort, reportQueue), broken: make(chan plan.Pair, reportQueue)}
	table, _ := choice.New(nil).Table()
	w.table.Store(table)
	return w
}

// Set puts a table in force. Flows that have a way keep it.
func (w *Routes) Set(t *choice.Table) { w.table.Store(t) }

// Unknown tells of servers that the table does not know.
func (w *Routes) Unknown() <-chan netip.AddrPort { return w.unknown }

// Broken tells of relays that have said that they do not reach the next one.
func (w *Routes) Broken() <-chan plan.Pair { return w.broken }

// chooseRoutes gives a flow its way, when its server is known.
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
	w.nextRoute(s, true) // or it is told that it may not go there
}

// nextRoute takes the next of a flow's ways: one that can be had as far as this worker knows, or any that is allowed.
func (w *Worker) nextRoute(s *split, desperate bool) bool {
	for ; int(s.route.tried) < len(s.routes); s.route.tried++ {
		via := s.routes[s.route.tried]
		if len(via) == 0 && !w.allowed(s) {
			continue
		}
		if len(via) > 0 {
			first, _ := via.Cut()
			if p := w.pools[string(first)]; p == nil || p.down && !desperate {
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

// notReached are the answers that say nothing of the server: relays did not get so far as to ask it.
const notReached = 1<<trunkproto.Unreachable | 1<<trunkproto.NotAllowed | 1<<trunkproto.Loop | 1<<trunkproto.Overloaded | 1<<trunkproto.BadHeader |
	1<<trunkproto.NoSuchRelay | 1<<trunkproto.NoTrunk | 1<<trunkproto.Stopping

// reroute sends a flow by the next of its ways, when relays have turned it away, or the next one is silent, and what its client has said
// can be said again.
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
	server, d := &s.ends[flow.Server], &s.dirs[flow.Client]
	said := d.buffer
	if s.trunk != nil && s.state.Connected() {
		said = s.trunk.replay
	}
	said = append([]byte(nil), said...)
	if server.fd >= 0 {
		w.hangUp(server, true)
	}
	*server = end{of: s, which: flow.Server, line: line{fd: -1}}
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

// isUnacknowledged tells whether a flow is on a trunk whose peer has acknowledged no byte of it.
func (s *split) isUnacknowledged() bool {
	server := &s.ends[flow.Server]
	return s.trunk != nil && server.fd >= 0 && !acknowledged(server.fd, s.trunk.before)
}

// reportBroken tells of the relay that could not pass the flow on to the next.
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
