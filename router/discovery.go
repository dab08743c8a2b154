package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/discover"
)

// discovery is what surrogates come from beside the file. The configuration in force is always that of the file with the sources' sets and
// the changes by API, merged; what changes one of these merges anew and replaces the state as a reload does.
type discovery struct {
	store    discover.Store
	runner   *discover.Runner // nil before Run
	news     chan struct{}    // a source has another set
	requests chan *changeRequest

	// Under Router.reloading, but for reads of atomics.
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
	mostRequests   = 1024                   // changes by API that wait
	coalesce       = 50 * time.Millisecond  // after the first news of a source
	mergesInSecond = 10                     // each replaces the kernel's tables
	leavingEvery   = 500 * time.Millisecond // how often to look whether a leaving surrogate has sessions
)

var errBusy = errors.New("too many changes wait: try again")

func (d *discovery) prepare(cfg *config.Config) {
	d.file, d.store = cfg, discover.Store{Dir: cfg.Listen.Saved}
	d.news, d.requests = make(chan struct{}, 1), make(chan *changeRequest, mostRequests)
}

// recall reads what an earlier process has saved. What cannot be read does not keep the router from its sessions.
func (r *Router) recall() discover.Changes {
	d := &r.discovery
	changes, err := d.store.Changes()
	if err != nil {
		r.log.Error("the saved changes by API are not in force", "err", err)
		d.unread = append(d.unread, err.Error())
	}
	kept, dropped := changes.Under(d.file)
	if len(dropped) > 0 {
		r.log.Info("the file says otherwise of some surrogates: their changes by API are dropped", "surrogates", dropped)
	}
	if d.saved, err = d.store.Sets(); err != nil {
		r.log.Error("what was discovered before is unknown", "err", err)
		d.unread = append(d.unread, err.Error())
	}
	return kept
}

// merged is the configuration in force for a file and changes.
func (r *Router) merged(file *config.Config, changes discover.Changes) (*config.Config, []discover.LeftOut) {
	sets := r.discovery.saved
	if r.discovery.runner != nil {
		sets = r.discovery.runner.Sets()
	}
	next, left := discover.Merge(file, sets, changes, kernel.MaxSurrogates)
	if s := r.current(); s != nil {
		r.discovery.bridged = discover.Bridge(s.cfg, next, changes, func(name string) bool { return r.health.State(name).Usable() })
	}
	return next, left
}

// drainAll drains the surrogates of a state, and no others.
func (r *Router) drainAll(s *state) error {
	for name := range s.ids {
		c := s.changes[name]
		if c.Drains() == r.health.State(name).Draining {
			continue
		}
		if err := r.health.Drain(name, c.Drains()); err != nil {
			return err
		}
	}
	return nil
}

// run starts the sources and what follows them.
func (d *discovery) run(r *Router, ctx context.Context) {
	r.reloading.Lock()
	d.runner = discover.NewRunner(ctx, discover.Options{Make: makeSource, Changed: d.notify, Log: r.log})
	d.runner.Update(d.file, d.saved)
	r.reloading.Unlock()
	r.group.Go(func() error {
		defer d.runner.Close()
		d.follow(ctx, r)
		return nil
	})
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

func (d *discovery) notify() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *discovery) keep(left []discover.LeftOut) { d.left.Store(&left) }

// follow merges what is new, until ctx is done. One goroutine does it, so that changes are in force in the order in which they came, and
// those that wait become one.
func (d *discovery) follow(ctx context.Context, r *Router) {
	limit := rate.NewLimiter(mergesInSecond, mergesInSecond)
	tick := time.NewTicker(leavingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.depart()
			continue
		case <-d.news:
			select {
			case <-ctx.Done():
				return
			case <-time.After(coalesce):
			}
			r.rediscover(true)
		case first := <-d.requests:
			batch := []*changeRequest{first}
			for len(d.requests) > 0 {
				batch = append(batch, <-d.requests)
			}
			r.change(batch)
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
func (r *Router) rediscover(save bool) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	d := &r.discovery
	if save {
		if err := d.store.SaveSets(d.runner.States()); err != nil {
			r.log.Warn("what is discovered will be unknown after a restart", "err", err)
		}
	}
	changes := r.current().changes
	next, left := r.merged(d.file, changes)
	d.announce(r, left)
	if sameSurrogates(r.current().cfg, next) {
		d.stale = false
		d.trouble.Store(nil)
		return
	}
	before := r.current().cfg
	err := r.replace(next, changes, r.mtu)
	d.settle(err)
	if err != nil {
		r.log.Error("discovered surrogates are not in force: the old ones stay", "err", err)
		return
	}
	r.log.Info("discovered", "changed", differences(before, next))
}

// settle notes whether the last merge is in force.
func (d *discovery) settle(err error) {
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
func (d *discovery) announce(r *Router, left []discover.LeftOut) {
	var before []discover.LeftOut
	if p := d.left.Load(); p != nil {
		before = *p
	}
	for _, l := range left {
		if !slices.Contains(before, l) {
			r.log.Warn("surrogate is left out", "pool", l.Pool, "surrogate", l.Name, "origin", l.Origin, "why", l.Why)
		}
	}
	d.keep(left)
}

// reloaded follows a reload of the file, which is in force. r.reloading is held.
func (r *Router) reloaded(file *config.Config, left []discover.LeftOut, dropped bool) {
	d := &r.discovery
	d.file = file
	d.announce(r, left)
	d.settle(nil)
	if d.runner != nil {
		d.runner.Update(file, nil)
	}
	if dropped {
		if err := d.store.SaveChanges(r.current().changes); err != nil {
			r.log.Warn("a restart would bring dropped changes back", "err", err)
		}
	}
}

// depart removes the leaving surrogates whose sessions have ended, and those that others can replace by now, and tries again what could not be
// put in force.
func (r *Router) depart() {
	d := &r.discovery
	r.reloading.Lock()
	s := r.current()
	changes, gone := s.changes, []string(nil)
	for name, c := range s.changes {
		if c.Leaving && !r.busy(s, name) {
			changes, gone = changes.Left(name, c), append(gone, name)
		}
	}
	var err error
	if len(gone) > 0 {
		err = r.put(changes)
	}
	again := d.stale || d.bridged
	r.reloading.Unlock()
	switch {
	case err != nil:
		r.log.Error("surrogates without sessions cannot be removed yet", "surrogates", gone, "err", err)
	case len(gone) > 0:
		r.log.Info("removed: their sessions have ended", "surrogates", gone)
	case again:
		r.rediscover(false)
	}
}

// busy reports whether a surrogate has sessions.
func (r *Router) busy(s *state, name string) bool {
	id, ok := s.ids[name]
	if !ok {
		return false
	}
	counted, err := r.legs.Count(id)
	if err != nil || counted.Active > 0 {
		return true
	}
	return r.quicSessions(s.addressOf(name)) > 0
}

// put saves changes and puts them in force, or neither. r.reloading is held.
func (r *Router) put(changes discover.Changes) error {
	d := &r.discovery
	old := r.current().changes
	next, left := r.merged(d.file, changes)
	if err := d.store.SaveChanges(changes); err != nil {
		return fmt.Errorf("nothing is changed, as a restart would lose it: %w", err)
	}
	err := r.replace(next, changes, r.mtu)
	d.settle(err)
	if err != nil {
		return errors.Join(err, d.store.SaveChanges(old))
	}
	d.announce(r, left)
	return nil
}
