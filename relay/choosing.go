package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"baton/relay/choice"
	"baton/relay/config"
	"baton/relay/probe"
	"baton/relay/trunkproto"
	"baton/relay/worker"
)

// How often choices are updated. Between two polls workers do not use a peer that is down.
const (
	pollEvery      = 500 * time.Millisecond // of the peers
	reconnectEvery = 10 * time.Second       // retries of peers that are down, whose trunks may only be opened on demand
	expireEvery    = 10 * time.Second
	learnAtOnce    = 64                    // destinations: each admission to a full table scans all of it
	decideTime     = 20 * time.Millisecond // per step
)

// choosing keeps the routes of entries with via: auto. It runs the measurements that a Chooser asks for and gives the workers the chosen
// routes.
type choosing struct {
	r      *Relay
	routes *worker.Routes
	probes atomic.Uint64 // sent from here or by peers on request
	wake   chan struct{} // capacity 1: there may be something to choose

	mu      sync.Mutex
	chooser *choice.Chooser
	active  bool // an entry has via: auto
}

func newChoosing(r *Relay) *choosing {
	return &choosing{r: r, routes: worker.NewRoutes(), wake: make(chan struct{}, 1), chooser: choice.New(rand.Float64)}
}

// configure applies a configuration and publishes a table for the flows of its entries.
func (c *choosing) configure(cfg *config.Config) {
	o := choice.Options{
		Self: cfg.Name, Cloud: cfg.Cloud, Allowed: cfg.Allowed, Clouds: cfg.Choose.Clouds, Most: cfg.Choose.Most, Margin: cfg.Choose.Margin,
		Dwell: cfg.Choose.Dwell, Refresh: cfg.Choose.Refresh, Start: c.r.startBytes(),
	}
	active := false
	for i := range cfg.Entries {
		e := &cfg.Entries[i]
		switch {
		case !e.Auto:
			continue
		case e.Mode == config.Plain:
			o.Fixed = append(o.Fixed, e.Destination)
		default:
			o.Learn = true
		}
		active = true
	}
	if active {
		for i := range cfg.Peers {
			p := &cfg.Peers[i]
			o.Peers = append(o.Peers, choice.Peer{Name: p.Name, Cloud: p.Cloud, Address: p.Address})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = active
	c.chooser.Configure(time.Now(), o)
	c.publish()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// publish gives the workers the chosen routes and logs the changes.
func (c *choosing) publish() {
	if t, fresh := c.chooser.Table(); fresh {
		c.routes.Set(t)
	}
	for _, x := range c.chooser.Changes() {
		if x.First {
			c.r.log.Info("route chosen", "destination", x.Destination, "route", x.To, "why", x.Why)
		} else {
			c.r.log.Info("route changed", "destination", x.Destination, "from", x.From, "to", x.To, "why", x.Why)
		}
	}
}

// run measures and chooses until the context ends.
func (c *choosing) run(ctx context.Context) {
	var measuring sync.WaitGroup
	defer measuring.Wait()
	tick := time.NewTicker(choice.Pace)
	defer tick.Stop()
	var looked, greeted, kept time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-tick.C:
		}
		if !c.isActive() {
			tick.Stop()
			continue
		}
		tick.Reset(choice.Pace)
		now := time.Now()
		if now.Sub(looked) >= pollEvery {
			looked = now
			down := c.pollPeers(now)
			if len(down) > 0 && now.Sub(greeted) >= reconnectEvery {
				greeted = now
				measuring.Go(func() { c.reconnect(ctx, down) })
			}
		}
		if now.Sub(kept) >= expireEvery {
			kept = now
			c.expire(now)
		}
		for _, t := range c.step(now) {
			measuring.Go(func() {
				o := c.measure(ctx, t)
				if ctx.Err() == nil {
					c.done(t, o)
				}
			})
		}
	}
}

func (c *choosing) isActive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// expire drops unused destinations and updates the initial window of trunks.
func (c *choosing) expire(now time.Time) {
	start := c.r.startBytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chooser.Expire(now)
	c.chooser.SetStart(start)
}

func (c *choosing) done(t choice.Task, o choice.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chooser.Done(time.Now(), t, o)
}

// step takes the workers' reports, decides, and returns the measurements that are due.
func (c *choosing) step(now time.Time) (tasks []choice.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range learnAtOnce {
		select {
		case server := <-c.routes.Unknown():
			c.chooser.Track(now, server)
			continue
		default:
		}
		break
	}
	for more := true; more; {
		select {
		case x := <-c.routes.Broken():
			c.chooser.Broken(now, x.From, x.To)
		default:
			more = false
		}
	}
	for {
		t, due := c.chooser.Next(now)
		if !due {
			break
		}
		tasks = append(tasks, t)
	}
	more := true
	for more && time.Since(now) < decideTime {
		more = c.chooser.Decide(now, 1)
	}
	c.publish()
	return tasks
}

// pollPeers updates which peers can be reached, and returns the others.
func (c *choosing) pollPeers(now time.Time) (down []string) {
	up := make(map[string]bool)
	for _, w := range c.r.workers {
		s, err := w.Stats()
		if err != nil {
			return nil // the relay is closing
		}
		for _, p := range s.Peers {
			up[p.Name] = up[p.Name] || !p.Down
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, is := range up {
		c.chooser.Reach(now, name, is)
		if !is {
			down = append(down, name)
		}
	}
	return down
}

// reconnect makes each worker try to open a trunk to peers that are down.
func (c *choosing) reconnect(ctx context.Context, peers []string) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var probes sync.WaitGroup
	for _, w := range c.r.workers {
		for _, p := range peers {
			probes.Go(func() { _, _ = w.Probe(ctx, []string{p}, netip.AddrPort{}) }) // the pool records the result
		}
	}
	probes.Wait()
}

// measure runs a measurement.
func (c *choosing) measure(ctx context.Context, t choice.Task) choice.Outcome {
	if t.By == c.r.current().Name {
		c.probes.Add(choice.Samples)
		r, err := probe.RTT(ctx, t.Target, probe.Options{Count: choice.Samples, Every: choice.Pace})
		if err != nil {
			return choice.Outcome{Why: err.Error(), Unreached: true}
		}
		return choice.Outcome{RTT: r.Min, Why: r.Why}
	}
	pace := time.NewTicker(choice.Pace)
	defer pace.Stop()
	var best choice.Outcome
	for range choice.Samples {
		c.probes.Add(1)
		o := outcome(c.r.probePeer(ctx, t.By, t.Target))
		if o.RTT == 0 {
			if best.RTT > 0 && !o.Never {
				return best
			}
			return o
		}
		if best.RTT == 0 || o.RTT < best.RTT {
			best = o
		}
		select {
		case <-ctx.Done():
			return best
		case <-pace.C:
		}
	}
	return best
}

// outcome interprets a probe's answer. It says nothing about the target unless the peer tried to reach it.
func outcome(a trunkproto.Answer, err error) choice.Outcome {
	o := choice.Outcome{Why: a.Status.String()}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		o.Why = "no answer"
	case err != nil:
		o.Why, o.Unreached = err.Error(), true
	case a.Status == trunkproto.Connected && a.RTT > 0:
		return choice.Outcome{RTT: a.RTT}
	case a.Status == trunkproto.Connected:
		o.Why, o.Unreached = "the peer does not report it", true
	case a.Status == trunkproto.NotAllowed:
		o.Never = true
	case a.Status != trunkproto.Refused && a.Status != trunkproto.Unreachable && a.Status != trunkproto.TimedOut:
		o.Unreached = true
	}
	return o
}
