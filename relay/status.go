package relay

import (
	"cmp"
	"slices"
	"time"

	"baton/api"
	"baton/daemon"
	kernel "baton/datapath/relay"
	"baton/relay/config"
	"baton/relay/worker"
)

// Status is the relay at a glance. The error is that of a worker that has ended, or of the kernel's maps.
func (r *Relay) Status() (api.RelayStatus, error) {
	cfg := r.current()
	s := api.RelayStatus{
		Process: daemon.Process("relay", r.o.Version, r.started), Cloud: cfg.Cloud, Features: []api.Feature{},
		Flows: api.Usage{Used: r.Live(), Limit: cfg.Limits.Flows},
	}
	s.Name, s.Config, s.Loaded = cfg.Name, cfg.File, time.Unix(0, r.loaded.Load())
	s.Reloads, s.ReloadsFailed = r.reloads.Load(), r.refused.Load()
	if f := r.features.Load(); f != nil {
		s.Features = *f
	}
	select {
	case <-r.ended:
		s.Stopping = true
	default:
	}
	all := make([]worker.Stats, len(r.workers))
	for i, w := range r.workers {
		var err error
		if all[i], err = w.Stats(); err != nil {
			return s, err
		}
		s.Workers = append(s.Workers, workerStatus(i, w.Counters(), &all[i]))
	}
	s.Entries = entriesStatus(cfg, all)
	for i := range s.Entries { // steered packets reach a listener only when the kernel has the entries
		s.Entries[i].Open = s.Entries[i].Open && r.applied.Load()
	}
	s.Trunks = r.trunksStatus(cfg, all)
	s.Peers = peersStatus(cfg, all)
	s.Choice = r.choiceStatus()
	if r.kernel == nil {
		return s, nil
	}
	var err error
	if s.Packets, err = r.kernel.dp.Verdicts(); err != nil {
		return s, err
	}
	s.Starts = r.kernel.turbo.status()
	return s, nil
}

func workerStatus(index int, c *worker.Counters, s *worker.Stats) api.RelayWorker {
	return api.RelayWorker{
		Worker: index, Live: int(c.Live.Load()), Flows: c.Flows.Load(), Early: c.Early.Load(), Probes: c.Probes.Load(), Rerouted: c.Rerouted.Load(),
		Refused: c.ByStatus(), Expired: c.ByWait(), Copied: c.Copied.Load(), Spliced: c.Spliced.Load(), Pipes: s.Pipes,
		WithoutPipe: c.NoPipe.Load(), Full: c.Full.Load(), BadClientHeaders: c.BadClientHeaders.Load(), BadTrunkHeaders: c.BadTrunkHeaders.Load(),
		BadHandshakes: c.BadHandshakes.Load(),
	}
}

// entriesStatus returns the configured entries, and removed ones that still have flows.
func entriesStatus(cfg *config.Config, workers []worker.Stats) []api.RelayEntry {
	out := []api.RelayEntry{}
	for i := range cfg.Entries {
		e := &cfg.Entries[i]
		out = append(out, api.RelayEntry{
			Name: e.Name, Listen: e.Listen, Mode: string(e.Mode), Destination: e.Destination, Via: e.Via, Auto: e.Auto, EarlySYN: string(e.EarlySYN),
			ClientAddress: string(e.ClientAddress),
		})
	}
	listen := make(map[string]int) // workers that listen
	for _, w := range workers {
		slices.SortFunc(w.Entries, func(a, b worker.EntryStats) int { return cmp.Compare(a.Name, b.Name) })
		for _, e := range w.Entries {
			i := slices.IndexFunc(out, func(have api.RelayEntry) bool { return have.Name == e.Name })
			if i < 0 && e.Live == 0 {
				continue
			}
			if i < 0 {
				i = len(out)
				out = append(out, api.RelayEntry{Name: e.Name})
			}
			out[i].Live += e.Live
			out[i].Flows += e.Flows
			if e.Open {
				listen[e.Name]++
			}
		}
	}
	for i := range out {
		out[i].Open = listen[out[i].Name] == len(workers)
	}
	return out
}

func (r *Relay) trunksStatus(cfg *config.Config, workers []worker.Stats) *api.RelayTrunks {
	t := &api.RelayTrunks{Open: true, Waiting: api.Usage{}}
	for i, w := range workers {
		t.Open = t.Open && w.Trunked.Open
		t.Live += w.Trunked.Live
		t.Flows += w.Trunked.Flows
		t.Waiting.Used += int(r.workers[i].Counters().Waiting.Load())
	}
	if cfg.Trunks == nil && t.Live == 0 {
		return nil
	}
	if cfg.Trunks != nil {
		t.Listen, t.Security, t.Waiting.Limit = cfg.Trunks.Listen, string(cfg.Trunks.Credentials.Security), cfg.Trunks.Waiting
	}
	return t
}

func peersStatus(cfg *config.Config, workers []worker.Stats) []api.RelayPeer {
	out := []api.RelayPeer{}
	for i := range cfg.Peers {
		p := &cfg.Peers[i]
		s := api.RelayPeer{Name: p.Name, Address: p.Address, Cloud: p.Cloud, Security: string(p.Credentials.Security), Down: true}
		for _, w := range workers {
			if k := slices.IndexFunc(w.Peers, func(x worker.PeerStats) bool { return x.Name == p.Name }); k >= 0 {
				add(&s, &w.Peers[k])
			}
		}
		out = append(out, s)
	}
	return out
}

// add adds a worker's statistics of a peer.
func add(s *api.RelayPeer, w *worker.PeerStats) {
	if w.RTT > 0 && (s.RTT == 0 || w.RTT < s.RTT) {
		s.RTT = w.RTT
	}
	s.Down = s.Down && w.Down
	if w.Failure != "" && w.Failed.After(s.Failed) {
		s.Failure, s.Failed = w.Failure, w.Failed
	}
	s.Ready += int(w.Count.Ready.Load())
	s.Opening += w.Opening
	s.Waiting += w.Waiting
	s.Opened += w.Count.Opened.Load()
	s.Taken += w.Count.Taken.Load()
	s.Missed += w.Count.Missed.Load()
	s.Stale += w.Count.Stale.Load()
	s.Unopened += w.Count.Failed.Load()
	s.Broken += w.Count.Broken.Load()
	s.Replayed += w.Count.Replayed.Load()
}

var trunkKinds = map[kernel.TrunkKind]string{kernel.TrunkTo: "to", kernel.TrunkAt: "at", kernel.TrunkFrom: "from"}

// status returns the initial windows of trunks, ordered by address.
func (t *turbo) status() []api.RelayStart {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []api.RelayStart{}
	for key, p := range t.paths {
		s := api.RelayStart{Trunks: trunkKinds[key.Kind], Address: key.Address, Window: p.window}
		if c, err := t.dp.TrunkCounts(key); err == nil { // or the kernel has no record of it
			s.Established, s.Flights, s.Sent, s.Retransmitted, s.Refused = c.Established, c.Flights, c.Sent, c.Retransmitted, c.Refused
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b api.RelayStart) int {
		return cmp.Or(cmp.Compare(a.Trunks, b.Trunks), a.Address.Compare(b.Address))
	})
	return out
}
