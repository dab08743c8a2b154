package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/discover"
	"baton/router/health"
	"baton/router/legs"
	"baton/router/state"
)

// Options of Sources. Functions may be called from any goroutine.
type Options struct {
	Log *slog.Logger
	// Lock is held while the configuration in force is changed: by Sources, and by whoever else changes it.
	Lock sync.Locker
	// Snapshot is the one in force; nil before the first.
	Snapshot func() *state.Snapshot
	// Replace puts a configuration with its changes in force: all of it, or the old one stays. It is called with Lock held.
	Replace func(next *config.Config, changes discover.Changes) error
	// Describe lists what differs between two configurations, a line each.
	Describe func(before, after *config.Config) []string
	Health   func(surrogate string) health.State
	// Count counts a surrogate's legs and sessions of TCP, by its number; QUICSessions those of QUIC, by its address.
	Count        func(id uint16) (legs.Count, error)
	QUICSessions func(surrogate netip.AddrPort) int
}

// Sources are where surrogates come from beside the file. The configuration in force is always that of the file with the sources'
// sets and the changes by API, merged; what changes one of these merges again and replaces the snapshot as a reload does.
type Sources struct {
	o        Options
	store    discover.Store
	news     chan struct{} // a source has another set
	requests chan *changeRequest
	done     chan struct{} // Run has ended

	// Guarded by Options.Lock.
	runner  *discover.Runner // nil before Run
	file    *config.Config
	saved   map[discover.Key]discover.Set // of an earlier process
	stale   bool                          // the last merge could not be put in force
	bridged bool                          // it has surrogates until others serve

	left    atomic.Pointer[[]discover.LeftOut]
	trouble atomic.Pointer[string] // why the last merge is not in force; nil: it is
	unread  []string               // of the store, since the start
	applied atomic.Uint64          // merges put in force
	refused atomic.Uint64          // merges that could not be
}

// Limits of changes: bursts become one.
const (
	maxRequests    = 1024                   // changes by API that wait
	coalesce       = 50 * time.Millisecond  // after the first news of a source
	mergesInSecond = 10                     // each replaces the kernel's tables
	leavingEvery   = 500 * time.Millisecond // how often to look whether a leaving surrogate has sessions
)

var errBusy = errors.New("too many changes wait: try again")

// New makes the Sources of a file, which bring nothing before Run.
func New(file *config.Config, o Options) *Sources {
	return &Sources{
		o: o, file: file, store: discover.Store{Dir: file.Listen.Saved},
		news: make(chan struct{}, 1), requests: make(chan *changeRequest, maxRequests), done: make(chan struct{}),
	}
}

// Recall reads what an earlier process has saved, and returns its changes by API. What cannot be read does not keep the router from
// its sessions. It is for the start, before anything else.
func (d *Sources) Recall() discover.Changes {
	changes, err := d.store.Changes()
	if err != nil {
		d.o.Log.Error("the saved changes by API are not in force", "err", err)
		d.unread = append(d.unread, err.Error())
	}
	kept, dropped := changes.Under(d.file)
	if len(dropped) > 0 {
		d.o.Log.Info("the file says otherwise of some surrogates: their changes by API are dropped", "surrogates", dropped)
	}
	if d.saved, err = d.store.Sets(); err != nil {
		d.o.Log.Error("what was discovered before is unknown", "err", err)
		d.unread = append(d.unread, err.Error())
	}
	return kept
}

// MergeLocked returns the configuration for a file and changes, and which surrogates it leaves out.
func (d *Sources) MergeLocked(file *config.Config, changes discover.Changes) (*config.Config, []discover.LeftOut) {
	sets := d.saved
	if d.runner != nil {
		sets = d.runner.Sets()
	}
	next, left := discover.Merge(file, sets, changes, kernel.MaxSurrogates)
	if s := d.o.Snapshot(); s != nil {
		d.bridged = discover.Bridge(s.Config, next, changes, func(name string) bool { return d.o.Health(name).Usable() })
	}
	return next, left
}

// Start starts the sources, which end with ctx. Run follows them.
func (d *Sources) Start(ctx context.Context) {
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	d.runner = discover.NewRunner(ctx, discover.Options{Make: makeSource, Changed: d.notify, Log: d.o.Log})
	d.runner.Update(d.file, d.saved)
}

// makeSource makes a source.
func makeSource(of config.Discover) discover.Source {
	switch of.Kind {
	case config.DiscoverFile:
		return discover.NewFile(of)
	case config.DiscoverController:
		return discover.NewController(of)
	}
	return discover.NewDNS(of, discover.ResolvConf)
}

func (d *Sources) notify() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// KeepLeftOut keeps which surrogates are left out, for the status.
func (d *Sources) KeepLeftOut(left []discover.LeftOut) { d.left.Store(&left) }

// Run merges what is new, until ctx is done, and ends the sources then. One goroutine does it, so that changes are in force in the
// order in which they came, and those that wait become one.
func (d *Sources) Run(ctx context.Context) {
	defer close(d.done)
	defer d.runner.Close()
	limit := rate.NewLimiter(mergesInSecond, mergesInSecond)
	tick := time.NewTicker(leavingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.removeDeparted()
			continue
		case <-d.news:
			select {
			case <-ctx.Done():
				return
			case <-time.After(coalesce):
			}
			d.rediscover(true)
		case first := <-d.requests:
			batch := []*changeRequest{first}
			for len(d.requests) > 0 {
				batch = append(batch, <-d.requests)
			}
			d.makeChanges(batch)
		}
		if limit.Wait(ctx) != nil {
			return
		}
	}
}

// sameSurrogates reports whether two configurations of a file have the same surrogates and zones.
func sameSurrogates(a, b *config.Config) bool {
	return slices.EqualFunc(a.Pools, b.Pools, func(p, q config.Pool) bool {
		return slices.Equal(p.Surrogates, q.Surrogates) && reflect.DeepEqual(p.Nearest, q.Nearest)
	})
}

// rediscover puts the sources' sets in force.
func (d *Sources) rediscover(save bool) {
	d.o.Lock.Lock()
	defer d.o.Lock.Unlock()
	if save {
		if err := d.store.SaveSets(d.runner.States()); err != nil {
			d.o.Log.Warn("what is discovered will be unknown after a restart", "err", err)
		}
	}
	changes := d.o.Snapshot().Changes
	next, left := d.MergeLocked(d.file, changes)
	d.announce(left)
	if sameSurrogates(d.o.Snapshot().Config, next) {
		d.stale = false
		d.trouble.Store(nil)
		return
	}
	before := d.o.Snapshot().Config
	err := d.o.Replace(next, changes)
	d.noteMerge(err)
	if err != nil {
		d.o.Log.Error("discovered surrogates are not in force: the old ones stay", "err", err)
		return
	}
	d.o.Log.Info("discovered", "changed", d.o.Describe(before, next))
}

// noteMerge notes whether the last merge is in force.
func (d *Sources) noteMerge(err error) {
	d.stale = err != nil
	if err == nil {
		d.applied.Add(1)
		d.trouble.Store(nil)
		return
	}
	d.refused.Add(1)
	text := err.Error()
	d.trouble.Store(&text)
}

// announce logs surrogates that are newly left out.
func (d *Sources) announce(left []discover.LeftOut) {
	var before []discover.LeftOut
	if p := d.left.Load(); p != nil {
		before = *p
	}
	for _, l := range left {
		if !slices.Contains(before, l) {
			d.o.Log.Warn("surrogate is left out", "pool", l.Pool, "surrogate", l.Name, "origin", l.Origin, "why", l.Why)
		}
	}
	d.KeepLeftOut(left)
}

// ReloadedLocked follows a reload of the file, which is in force. dropped: some changes by API no longer are.
func (d *Sources) ReloadedLocked(file *config.Config, left []discover.LeftOut, dropped bool) {
	d.file = file
	d.announce(left)
	d.noteMerge(nil)
	if d.runner != nil {
		d.runner.Update(file, nil)
	}
	if dropped {
		if err := d.store.SaveChanges(d.o.Snapshot().Changes); err != nil {
			d.o.Log.Warn("a restart would bring dropped changes back", "err", err)
		}
	}
}

// removeDeparted removes the leaving surrogates whose sessions have ended, and those that others can replace by now, and tries again what could not be
// put in force.
func (d *Sources) removeDeparted() {
	d.o.Lock.Lock()
	s := d.o.Snapshot()
	changes, gone := s.Changes, []string(nil)
	for name, c := range s.Changes {
		if c.Leaving && !d.isBusy(s, name) {
			changes, gone = changes.Left(name, c), append(gone, name)
		}
	}
	var err error
	if len(gone) > 0 {
		err = d.putLocked(changes)
	}
	again := d.stale || d.bridged
	d.o.Lock.Unlock()
	switch {
	case err != nil:
		d.o.Log.Error("surrogates without sessions cannot be removed yet", "surrogates", gone, "err", err)
	case len(gone) > 0:
		d.o.Log.Info("removed: their sessions have ended", "surrogates", gone)
	case again:
		d.rediscover(false)
	}
}

// isBusy reports whether a surrogate has sessions.
func (d *Sources) isBusy(s *state.Snapshot, name string) bool {
	id, ok := s.IDs[name]
	if !ok {
		return false
	}
	counted, err := d.o.Count(id)
	if err != nil || counted.Active > 0 {
		return true
	}
	return d.o.QUICSessions(s.AddressOf(name)) > 0
}

// putLocked saves changes and applies them, or neither.
func (d *Sources) putLocked(changes discover.Changes) error {
	old := d.o.Snapshot().Changes
	next, left := d.MergeLocked(d.file, changes)
	if err := d.store.SaveChanges(changes); err != nil {
		return fmt.Errorf("nothing is changed, as a restart would lose it: %w", err)
	}
	err := d.o.Replace(next, changes)
	d.noteMerge(err)
	if err != nil {
		return errors.Join(err, d.store.SaveChanges(old))
	}
	d.announce(left)
	return nil
}
