package relay

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	kernel "baton/datapath/relay"
	"baton/relay/config"
	"baton/relay/start"
	"baton/relay/worker"
)

// turbo sets the initial windows of trunks, one for each path: by peer for those opened here, by source address for accepted ones.
type turbo struct {
	dp  *kernel.Relay
	log *slog.Logger

	mu             sync.Mutex
	peers          map[string]kernel.TrunkKey // records of peers, by name
	at             *config.Tuning             // of accepted trunks; nil: none are accepted
	trunkListeners []netip.AddrPort
	paths          map[kernel.TrunkKey]*path
	fresh          bool // some paths are not in the kernel yet
	done           chan struct{}
}

// path is the state of the trunks with one record.
type path struct {
	tuning  config.Tuning
	learner *start.Learner
	counts  kernel.TrunkCounts // at the last update
	latest  start.Sample       // measured since then
	window  int                // in force, segments; 0: the system's
	base    int                // idle trunks are replaced when the window reaches twice this
	since   time.Time          // when it last did; zero: never
}

const (
	learnEvery = time.Second
	// mostPaths limits the records by source address.
	mostPaths = 512
)

func newTurbo(dp *kernel.Relay, log *slog.Logger) *turbo {
	return &turbo{dp: dp, log: log, paths: make(map[kernel.TrunkKey]*path), done: make(chan struct{})}
}

func (t *turbo) stop() { close(t.done) }

// configure sets the initial windows from now on. What was learnt about unchanged paths is kept.
func (t *turbo) configure(c *config.Config) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	paths := make(map[kernel.TrunkKey]*path)
	keep := func(key kernel.TrunkKey, tuning *config.Tuning) {
		if p := t.paths[key]; p != nil && p.tuning.Start == tuning.Start {
			p.tuning = *tuning
			paths[key] = p
			return
		}
		paths[key] = newPath(tuning)
	}
	t.peers = make(map[string]kernel.TrunkKey)
	for i := range c.Peers {
		p := &c.Peers[i]
		key := kernel.TrunkKey{Kind: kernel.TrunkTo, Address: p.Address}
		t.peers[p.Name] = key
		keep(key, &p.Tuning)
	}
	t.at, t.trunkListeners = nil, nil
	if c.Trunks != nil {
		t.at, t.trunkListeners = &c.Trunks.Tuning, c.Trunks.Listen
		for _, at := range t.trunkListeners {
			keep(kernel.TrunkKey{Kind: kernel.TrunkAt, Address: at}, t.at)
		}
		for key := range t.paths {
			if key.Kind == kernel.TrunkFrom {
				keep(key, t.at)
			}
		}
	}
	t.paths = paths
	return t.write()
}

func newPath(tuning *config.Tuning) *path {
	p := &path{tuning: *tuning, window: tuning.Start.Most}
	if tuning.Start.Learn && tuning.Start.Most > 0 {
		p.learner = start.New(tuning.Start.Least, tuning.Start.Most)
		p.window = p.learner.Window(time.Now())
	}
	p.base = p.window
	return p
}

func (p *path) start() kernel.TrunkStart {
	s := kernel.TrunkStart{Window: p.window, Pace: uint64(p.tuning.Start.Rate), Congestion: p.tuning.Congestion}
	if p.window > 0 { // what a peer may send at first: as much as fits in its buffer
		s.Receive = p.tuning.Start.Most
	}
	return s
}

// write writes all records to the kernel. Called with the lock held.
func (t *turbo) write() error {
	all := make(map[kernel.TrunkKey]kernel.TrunkStart)
	for key, p := range t.paths {
		if s := p.start(); s != (kernel.TrunkStart{}) {
			all[key] = s
		}
	}
	return t.dp.SetTrunks(all)
}

// Measured is called by workers.
func (t *turbo) Measured(m worker.Measurement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, ok := t.peers[m.Peer]
	if m.Peer == "" && t.at != nil {
		key, ok = kernel.TrunkKey{Kind: kernel.TrunkFrom, Address: netip.AddrPortFrom(m.Remote.Addr(), 0)}, true
		if t.paths[key] == nil && len(t.paths) < mostPaths {
			t.paths[key] = newPath(t.at)
			t.fresh = true // written at the next update: a worker's thread has other descriptors
		}
	}
	if p := t.paths[key]; ok && p != nil && p.learner != nil {
		s := &p.latest
		if s.DeliveryRate < m.Rate || s.AppLimited && !m.AppLimited {
			s.DeliveryRate, s.AppLimited, s.MSS = m.Rate, m.AppLimited, m.MSS
		}
		if s.MinRTT == 0 || m.MinRTT < s.MinRTT {
			s.MinRTT = m.MinRTT
		}
	}
}

// Outgrown is called by workers.
func (t *turbo) Outgrown(peer string, from netip.Addr) time.Time {
	key := kernel.TrunkKey{Kind: kernel.TrunkFrom, Address: netip.AddrPortFrom(from, 0)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if peer != "" {
		key = t.peers[peer]
	}
	if p := t.paths[key]; p != nil {
		return p.since
	}
	return time.Time{}
}

// adopted is called when the kernel has the path's new window.
func (p *path) adopted(now time.Time) {
	if p.window >= 2*p.base {
		p.since = now
	}
	if p.window >= 2*p.base || p.window < p.base {
		p.base = p.window
	}
}

// run updates the windows periodically.
func (t *turbo) run() error {
	tick := time.NewTicker(learnEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.done:
			return nil
		case now := <-tick.C:
			if err := t.update(now); err != nil {
				t.log.Error("learn initial windows", "err", err)
			}
		}
	}
}

func (t *turbo) update(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fresh {
		if err := t.write(); err != nil {
			return err
		}
		t.fresh = false
	}
	for key, p := range t.paths {
		if err := t.learn(now, key, p); err != nil {
			return fmt.Errorf("peer %v: %w", key.Address, err)
		}
	}
	return nil
}

// learn updates one record. Called with the lock held.
func (t *turbo) learn(now time.Time, key kernel.TrunkKey, p *path) error {
	if p.learner == nil {
		return nil
	}
	counts, err := t.dp.TrunkCounts(key)
	if err != nil {
		return err
	}
	s := p.latest
	s.FirstFlights = int(counts.Flights - p.counts.Flights)
	s.Sent, s.Retransmits = int(counts.Sent-p.counts.Sent), int(counts.Retransmitted-p.counts.Retransmitted)
	p.counts, p.latest = counts, start.Sample{}
	p.learner.Observe(now, s)
	if w := p.learner.Window(now); w != p.window {
		t.log.Debug("initial window", "peer", key.Address, "segments", w, "before", p.window)
		p.window = w
		if err := t.dp.SetStart(key, p.start()); err != nil {
			return fmt.Errorf("set the initial window: %w", err)
		}
		p.adopted(time.Now())
	}
	return nil
}
