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

// Ways are what flows of entries that leave their way to the relay are sent by, the same for all workers. Its methods may be called from
// any goroutine.
type Ways struct {
	table  atomic.Pointer[choice.Table]
	asked  chan netip.AddrPort
	broken chan plan.Pair
}

// news is how much may wait to be heard; what is above that is told again by the next flow.
const news = 256

// NewWays makes ways of which nothing is known.
func NewWays() *Ways {
	w := &Ways{asked: make(chan netip.AddrPort, news), broken: make(chan plan.Pair, news)}
	table, _ := choice.New(nil).Table()
	w.table.Store(table)
	return w
}

// Set puts a table in force. Flows that have a way keep it.
func (w *Ways) Set(t *choice.Table) { w.table.Store(t) }

// Asked tells of servers that the table does not know.
func (w *Ways) Asked() <-chan netip.AddrPort { return w.asked }

// Broken tells of relays that have said that they do not reach the next one.
func (w *Ways) Broken() <-chan plan.Pair { return w.broken }

// choose gives a flow its way, when its server is known.
func (w *Worker) choose(s *split) {
	ways := w.o.Ways
	table, now := ways.table.Load(), w.start.Add(w.now)
	if s.entry.Mode == config.Plain {
		s.ways, _ = table.Exact(s.server, now)
	} else {
		var known bool
		if s.ways, known = table.Find(s.server, now); !known {
			select {
			case ways.asked <- s.server:
			default:
			}
		}
	}
	if w.nextWay(s, false) {
		return
	}
	s.ways, s.way.tried = table.Fallback(), 0
	if w.nextWay(s, false) {
		return
	}
	s.way.tried = 0
	w.nextWay(s, true) // or it is told that it may not go there
}

// nextWay takes the next of a flow's ways: one that can be had as far as this worker knows, or any that is allowed.
func (w *Worker) nextWay(s *split, desperate bool) bool {
	for ; int(s.way.tried) < len(s.ways); s.way.tried++ {
		via := s.ways[s.way.tried]
		if len(via) == 0 && !w.allowed(s) {
			continue
		}
		if len(via) > 0 {
			first, _ := via.Cut()
			if p := w.pools[string(first)]; p == nil || p.down && !desperate {
				continue
			}
		}
		s.way.tried++
		s.way.via = via
		if len(via) > 0 && s.way.id == ([trunkproto.IDSize]byte{}) {
			_, _ = rand.Read(s.way.id[:]) // never fails
		}
		return true
	}
	return false
}

// unreached are the answers that say nothing of the server: relays did not get so far as to ask it.
const unreached = 1<<trunkproto.Unreachable | 1<<trunkproto.NotAllowed | 1<<trunkproto.Loop | 1<<trunkproto.Overloaded | 1<<trunkproto.BadHeader |
	1<<trunkproto.NoSuchRelay | 1<<trunkproto.NoTrunk | 1<<trunkproto.Stopping

// reroute sends a flow by the next of its ways, when relays have turned it away, or the next one is silent, and what its client has said
// can be said again.
func (w *Worker) reroute(s *split, a trunkproto.Answer) bool {
	if s.entry == nil || !s.entry.Auto || s.answered || s.stage > stageMoving {
		return false
	}
	silent := a.Status == trunkproto.TimedOut && s.isUnheard()
	if !silent && unreached>>a.Status&1 == 0 {
		return false
	}
	w.tellBroken(s, a)
	if silent {
		s.trunk.pool.down, s.trunk.pool.why, s.trunk.pool.when = true, unix.ETIMEDOUT, w.now
	}
	if s.trunk != nil && s.trunk.spoilt || !w.nextWay(s, false) {
		return false
	}
	w.count.Rerouted.Add(1)
	server, d := &s.ends[flow.Server], &s.dirs[flow.Client]
	said := d.buffer
	if s.trunk != nil && s.state.Connected() {
		said = s.trunk.sent
	}
	said = append([]byte(nil), said...)
	if server.fd >= 0 {
		w.hangUp(server, true)
	}
	*server = end{of: s, which: flow.Server, line: line{fd: -1}}
	w.letGo(d)
	d.buffer = said
	if s.state.Connected() {
		s.state.Again(len(said))
	}
	s.trunk, s.stage = nil, stageConnecting
	if silent {
		w.await(&s.waiter, waitConnect)
	}
	w.goOn(s)
	return true
}

// isUnheard tells whether a flow is on a trunk whose peer has acknowledged no byte of it.
func (s *split) isUnheard() bool {
	server := &s.ends[flow.Server]
	return s.trunk != nil && server.fd >= 0 && !heard(server.fd, s.trunk.before)
}

// tellBroken tells of the relay that could not pass the flow on to the next.
func (w *Worker) tellBroken(s *split, a trunkproto.Answer) {
	if a.Status != trunkproto.NoTrunk && a.Status != trunkproto.NoSuchRelay || a.Hop == 0 {
		return
	}
	rest, hop := s.way.via, a.Hop
	for ; hop > 1; hop-- {
		_, rest = rest.Cut()
	}
	from, rest := rest.Cut()
	to, _ := rest.Cut()
	if to == nil {
		return
	}
	select {
	case w.o.Ways.broken <- plan.Pair{From: string(from), To: string(to)}:
	default:
	}
}
