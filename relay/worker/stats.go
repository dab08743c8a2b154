package worker

import (
	"net/netip"
	"slices"
	"time"

	"baton/relay/flow"
	"baton/relay/trunkproto"
)

// Stats are what a worker has at one moment, besides its Counters.
type Stats struct {
	Pipes   int          // open, with those that no flow has borrowed
	Entries []EntryStats // those that were opened, by name
	Trunked EntryStats   // the flows that came by trunks
	Peers   []PeerStats  // by name
}

// EntryStats are of the flows that came in at one place.
type EntryStats struct {
	Name  string
	Open  bool // there is a listener
	Flows uint64
	Live  int
}

// PeerStats are of the trunks to one peer. The counters are read at any time.
type PeerStats struct {
	Name    string
	Opening int
	Waiting int           // flows
	RTT     time.Duration // of the last trunk's handshake; 0: there was none
	Count   *PoolCounters
	Down    bool      // the last attempt to open a trunk has failed
	Failure string    // the last one there was
	Failed  time.Time // when that was
}

// Stats asks a worker that runs. The caller owns the result.
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

// Flow is what a worker knows of one that is live.
type Flow struct {
	Client, Server netip.AddrPort          // however far away. A server that is asked for by name is not valid before it is resolved
	Entry          string                  // where it came in; "": by a trunk
	ID             [trunkproto.IDSize]byte // the same on all relays of its way; zero if that has one relay alone
	Passed, Via    string                  // names of the relays before and behind this one, joined by commas
	Probe          bool                    // nobody's flow: a distance is measured
	Stage          string
	Begun          time.Time
	Idle           time.Duration // since bytes have moved
	FromClient     uint64        // bytes
	FromServer     uint64
}

var stageNames = [...]string{
	stageHeader: "header", stageConnecting: "connecting", stageMoving: "moving", stageEnding: "ending", stageRefused: "refused", stageOver: "over",
}

// chunk is how many slots are looked at for each command: the worker's flows wait meanwhile, for some tens of microseconds.
const chunk = 1024

// EachFlow calls yield for the flows that are live until it returns false. The worker goes on in between: a flow that begins or ends
// meanwhile may be left out.
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

// first is the end by which a flow is found.
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
