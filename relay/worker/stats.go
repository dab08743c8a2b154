package worker

import (
	"net/netip"
	"slices"
	"time"

	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// Stats is a worker's state at one moment, besides its Counters.
type Stats struct {
	Pipes   int          // open, idle ones included
	Entries []EntryStats // current and former entries, by name
	Trunked EntryStats   // flows that came by trunks
	Peers   []PeerStats  // by name
}

// EntryStats counts the flows of one entry.
type EntryStats struct {
	Name  string
	Open  bool // there is a listener
	Flows uint64
	Live  int
}

// PeerStats is the state of the trunks to one peer. Count may be read at any time.
type PeerStats struct {
	Name    string
	Opening int
	Waiting int           // flows
	RTT     time.Duration // of the last trunk's handshake; 0: none
	Count   *PoolCounters
	Down    bool      // the last attempt to open a trunk failed
	Failure string    // the last one
	Failed  time.Time // time of it
}

// Stats queries a running worker. The caller owns the result.
func (w *Worker) Stats() (s Stats, err error) {
	err = w.ask(func(w *Worker) error {
		s.Pipes = w.pipes.open
		s.Trunked = EntryStats{Open: len(w.trunkListeners) > 0, Flows: w.trunked.begun, Live: w.trunked.live}
		for name, t := range w.tallies {
			open := slices.ContainsFunc(w.entries, func(e *entry) bool { return e.Name == name })
			s.Entries = append(s.Entries, EntryStats{Name: name, Open: open, Flows: t.begun, Live: t.live})
		}
		for name, p := range w.pools {
			s.Peers = append(s.Peers, p.stats(w, name))
		}
		return nil
	})
	return s, err
}

func (p *pool) stats(w *Worker, name string) PeerStats {
	s := PeerStats{Name: name, Opening: p.opening, RTT: p.rtt, Count: &p.count, Down: p.down}
	for _, f := range p.waiting {
		if f.stage == stageConnecting {
			s.Waiting++
		}
	}
	if p.why != nil {
		s.Failure, s.Failed = p.why.Error(), w.start.Add(p.when)
	}
	return s
}

// Flow describes a live flow.
type Flow struct {
	Client, Server netip.AddrPort          // of the whole flow. A server requested by name is not valid until it is resolved
	Entry          string                  // "": it came by a trunk
	ID             [trunkproto.IDSize]byte // the same on all relays of the route; zero if there is only this one
	Passed, Via    string                  // relays before and after this one, joined by commas
	Probe          bool                    // no flow: a distance is measured
	Stage          string
	Begun          time.Time
	Idle           time.Duration // since bytes moved
	FromClient     uint64        // bytes
	FromServer     uint64
}

var stageNames = [...]string{
	stageHeader: "header", stageConnecting: "connecting", stageMoving: "moving", stageEnding: "ending", stageRefused: "refused", stageOver: "over",
}

// chunk is the number of slots per command: the worker's flows wait some tens of microseconds.
const chunk = 1024

// EachFlow calls yield for each live flow until it returns false. The worker runs in between, so a flow that starts or ends meanwhile may
// be missing.
func (w *Worker) EachFlow(yield func(Flow) bool) error {
	var some []Flow
	for from, last := 0, false; !last; from += chunk {
		some = some[:0]
		err := w.ask(func(w *Worker) error {
			to := min(from+chunk, len(w.slots))
			last = to == len(w.slots)
			for i := from; i < to; i++ {
				if e, ok := w.slots[i].source.(*end); ok && e.of.first() == e {
					some = append(some, w.flow(e.of))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, f := range some {
			if !yield(f) {
				return nil
			}
		}
	}
	return nil
}

// first is the end under which a flow is listed.
func (s *split) first() *end {
	if s.ends[flow.Client].fd >= 0 {
		return &s.ends[flow.Client]
	}
	return &s.ends[flow.Server]
}

func (w *Worker) flow(s *split) Flow {
	f := Flow{
		Client: s.client, Server: s.server, ID: s.route.id, Passed: s.route.passed.String(), Via: s.route.via.String(),
		Probe: s.request != nil && s.request.probe, Stage: stageNames[s.stage], Begun: w.start.Add(s.begun), Idle: w.now - s.moved,
		FromClient: s.dirs[flow.Client].total, FromServer: s.dirs[flow.Server].total,
	}
	if s.entry != nil {
		f.Entry = s.entry.Name
	}
	return f
}
