package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"baton/api"
	"baton/controller/config"
	"baton/controller/distances"
	"baton/controller/handoff"
	"baton/controller/northbound"
	"baton/controller/paths"
	"baton/controller/store"
	"baton/controller/surrogates"
	"baton/controller/topology"
	"baton/policy"
)

// cdn is the content delivery network on a controller's network. Its methods do nothing on nil: a controller without one.
type cdn struct {
	c       *Controller
	cfg     *config.CDN
	set     *surrogates.Set
	manager *handoff.Manager // nil in the native mode

	mu     sync.Mutex
	zones  api.ControllerDistances // last published
	counts counted
	rates  api.ControllerRates
}

// counted are the sums that rates are made of.
type counted struct {
	at                                             time.Time
	packets, flowMods, handshakes, handoffs, fails uint64
}

// serveCDN adds the CDN of the configuration to the controller.
func (c *Controller) serveCDN() error {
	cfg := c.o.Config.CDN
	if cfg == nil {
		return nil
	}
	p, err := policy.Load(cfg.Policy, nil)
	if p == nil {
		return err
	}
	if err != nil {
		c.log.Error("a file of the policy cannot be read", "err", err)
	}
	d := &cdn{c: c, cfg: cfg}
	if d.set, err = surrogates.New(surrogates.Options{
		Policy: p, Surrogates: known(cfg.Surrogates), Hops: d.hops, Save: d.save, Publish: c.hub.Publish, Log: c.log,
	}); err != nil {
		return err
	}
	c.cdn = d
	if cfg.Native {
		return nil
	}
	d.manager = handoff.New(handoff.Options{
		Network: handoff.On(c.network, c.switches), Choose: d.choose, Publish: c.hub.Publish, Ended: d.ended, Heard: d.set.Heard, Keep: d.keep, Forget: d.forget, Log: c.log,
		Strip: cfg.Strip, Pin: c.o.Config.Paths.Spread == paths.SpreadPair, Patience: cfg.Handoff, Idle: cfg.Idle, Answer: cfg.Answer,
	}, addresses(cfg))
	d.manager.Attach(c.switches)
	return nil
}

func known(all []config.Surrogate) (list []surrogates.Surrogate) {
	for _, s := range all {
		list = append(list, surrogates.Surrogate(s))
	}
	return list
}

func addresses(cfg *config.CDN) (a handoff.Addresses) {
	for _, s := range cfg.Services {
		a.Services = append(a.Services, handoff.Service(s))
	}
	for _, s := range cfg.Surrogates {
		a.Surrogates = append(a.Surrogates, handoff.Surrogate(s))
	}
	return a
}

// hops is the number of links between two hosts.
func (d *cdn) hops(client, surrogate netip.Addr) (hops int, ok bool) {
	d.c.network.View(func(g *topology.Graph) {
		a, known := g.Locate(client)
		b, too := g.Locate(surrogate)
		if known && too {
			hops, ok = g.Distance(a.At.Switch, b.At.Switch)
		}
	})
	return hops, ok
}

// choose returns the surrogate for a handoff.
func (d *cdn) choose(r handoff.Request) (string, error) {
	_, target, _ := strings.Cut(r.Request, " ")
	s, err := d.set.Choose(surrogates.Request{Client: r.Client.Addr(), Host: r.Host, Target: target, Among: r.Ready})
	return s.Name, err
}

// blamed are the failures of handoffs that are the surrogate's.
var blamed = []string{"no-answer", "surrogate-reset"}

// ended takes the end of an attempt at a handoff.
func (d *cdn) ended(surrogate, failure string) {
	switch {
	case surrogate == "":
	case failure == "":
		d.set.Served(surrogate)
	case slices.Contains(blamed, failure):
		d.set.Failed(surrogate)
	}
}

// keep keeps a handed-over session in the store, for a controller that comes after this one. If this one dies before the store has it, the session goes on
// all the same: its entries are in the switches, until they are idle; but it stays on its path.
func (d *cdn) keep(r handoff.Record) {
	text, err := json.Marshal(r)
	if err != nil {
		d.c.log.Error("a handed-over session cannot be kept", "client", r.Pair.Client.Peer, "err", err)
		return
	}
	d.c.store.Handoffs.Record(store.Handoff{ID: uint64(r.ID), Client: r.Pair.Client.Peer, Surrogate: r.Name, Session: text})
}

func (d *cdn) forget(id uint32) { d.c.store.Handoffs.Forget(uint64(id)) }

// restore takes over the sessions of the store: of this controller before its start, or of the master before it.
func (d *cdn) restore() {
	if d == nil || d.manager == nil {
		return
	}
	var all []handoff.Record
	for _, h := range d.c.store.Handoffs.All() {
		var r handoff.Record
		if err := json.Unmarshal(h.Session, &r); err != nil || uint64(r.ID) != h.ID {
			d.c.log.Error("the store has a handed-over session that cannot be read", "id", h.ID, "client", h.Client, "err", err)
			continue
		}
		all = append(all, r)
	}
	d.manager.Restore(all)
	if len(all) > 0 {
		d.c.log.Info("handed-over sessions of the controller before", "sessions", len(all))
	}
}

// saving bounds the time that an operator waits for the store.
const saving = 2 * time.Second

// save keeps what an operator has changed.
func (d *cdn) save(c surrogates.Change) error {
	ctx, cancel := context.WithTimeout(context.Background(), saving)
	defer cancel()
	s := store.Surrogate{Name: c.Name, Weight: c.Weight}
	if c.Maintenance != nil {
		s.State = map[bool]string{true: api.Maintenance, false: api.InService}[*c.Maintenance]
	}
	if err := d.c.store.Surrogates.Put(ctx, s); err != nil {
		return api.ControllerErrorf(api.ControllerUnavailable, "the change cannot be kept: %v", err)
	}
	return nil
}

// changed takes over what operators have changed, here before or at another controller.
func (d *cdn) changed() {
	if d == nil {
		return
	}
	var all []surrogates.Change
	for _, s := range d.c.store.Surrogates.All() {
		c := surrogates.Change{Name: s.Name, Weight: s.Weight}
		if s.State != "" {
			idle := s.State == api.Maintenance
			c.Maintenance = &idle
		}
		all = append(all, c)
	}
	d.set.Changed(all)
}

// calls are those of the northbound.
func (d *cdn) calls() northbound.Calls {
	if d == nil {
		return northbound.Calls{}
	}
	var all northbound.Calls
	if d.manager != nil {
		all = d.manager.Calls()
	} else {
		all.Hello = d.hello
	}
	welcome := all.Hello
	all.Hello = func(ctx context.Context, who northbound.Caller, h api.ControllerHello) (api.ControllerWelcome, error) {
		if err := d.c.master(); err != nil {
			return api.ControllerWelcome{}, err
		}
		return welcome(ctx, who, h)
	}
	all.SetSurrogate = func(_ context.Context, _ northbound.Caller, p api.ControllerSurrogateSet) (api.ControllerSurrogate, error) {
		return d.set.Set(p.Name, p.Change)
	}
	return all
}

// master returns why request routers are to go to another controller.
func (c *Controller) master() error {
	if term := c.store.Term(); !term.Master {
		return api.ControllerErrorf(api.ControllerUnavailable, "this controller is not the master: %s is", cmp.Or(term.Holder, "none"))
	}
	return nil
}

// hello welcomes a request router in the native mode.
func (d *cdn) hello(_ context.Context, _ northbound.Caller, h api.ControllerHello) (api.ControllerWelcome, error) {
	if !slices.ContainsFunc(d.cfg.Services, func(s config.Service) bool { return s.Address == h.Service }) {
		return api.ControllerWelcome{}, api.ControllerErrorf(api.ControllerNotFound, "%v is no service of this controller", h.Service)
	}
	return api.ControllerWelcome{Version: d.c.o.Version, Surrogates: d.set.List()}, nil
}

// source has the functions of the northbound that read.
func (c *Controller) source() northbound.Source {
	s := northbound.Source{Topology: c.Topology, Master: c.master}
	d := c.cdn
	if d == nil {
		return s
	}
	s.Surrogates, s.Decisions, s.Rates, s.Distances = d.set.List, d.set.Decisions, d.lastRates, d.distances
	if d.manager != nil {
		s.Sessions, s.Handoffs = d.manager.Sessions, d.manager.Handoffs
	}
	return s
}

// status adds what the network has to do with content.
func (d *cdn) status(s *api.ControllerStatus) {
	if d == nil {
		return
	}
	s.Surrogates = d.set.List()
	if d.manager == nil {
		return
	}
	n := d.manager.Counts()
	s.Reactive = &api.ControllerReactive{
		Live: n.Live, Began: n.Began, Done: n.BySurrogate, Failed: n.Failed, Unanswered: n.Unanswered, Ended: n.Ended, Proxied: n.Proxied,
		Forwarded: n.Forwarded, Dropped: n.Dropped, Lost: n.Lost,
	}
}

// who is the name and the kind of a host.
func (d *cdn) who(all []netip.Addr) (name, kind string) {
	if d == nil {
		return "", "client"
	}
	for _, s := range d.cfg.Surrogates {
		if slices.Contains(all, s.Address.Addr()) {
			return s.Name, "surrogate"
		}
	}
	for _, s := range d.cfg.Services {
		if slices.Contains(all, s.Address.Addr()) || slices.ContainsFunc(s.Routers, func(a netip.Addr) bool { return slices.Contains(all, a) }) {
			return "", "router"
		}
	}
	return "", "client"
}

// run checks the surrogates and counts until the context ends.
func (d *cdn) run(ctx context.Context) {
	if d == nil {
		return
	}
	var checks sync.WaitGroup
	defer checks.Wait()
	if d.cfg.Health != nil {
		for _, s := range d.cfg.Surrogates {
			checks.Go(func() { d.cfg.Health.Watch(ctx, s.Address, func(err error) { d.set.Checked(s.Name, err) }) })
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	d.count()
	for {
		select {
		case <-ctx.Done():
			if d.manager != nil {
				d.manager.Close()
			}
			return
		case <-tick.C:
			d.load()
			d.count()
			d.publishDistances()
		}
	}
}

// load tells what the surrogates have to do.
func (d *cdn) load() {
	if d.manager == nil {
		return
	}
	sessions, legs := map[string]int{}, map[string]int{}
	for name, l := range d.manager.Loads() {
		sessions[name], legs[name] = l.Sessions, l.Legs
	}
	d.set.Loaded(sessions, legs)
}

// count makes the rates of the last second, and publishes them.
func (d *cdn) count() {
	sw := d.c.switches.Counts()
	now := counted{at: time.Now(), packets: sw.Packets, flowMods: sw.FlowMods}
	if d.manager != nil {
		c := d.manager.Counts()
		now.handshakes, now.handoffs = c.Sessions.Opened, c.Done
		for _, n := range c.Failed {
			now.fails += n
		}
	}
	d.mu.Lock()
	before := d.counts
	d.counts = now
	if before.at.IsZero() {
		d.mu.Unlock()
		return
	}
	seconds := now.at.Sub(before.at).Seconds()
	per := func(now, before uint64) float64 { return float64(now-before) / seconds }
	d.rates = api.ControllerRates{
		Time: now.at, PacketIns: per(now.packets, before.packets), FlowMods: per(now.flowMods, before.flowMods),
		Handshakes: per(now.handshakes, before.handshakes), Handoffs: per(now.handoffs, before.handoffs), Failures: per(now.fails, before.fails),
	}
	d.mu.Unlock()
	d.c.hub.Publish(api.TopicRates, d.lastRates())
}

// lastRates are those of the last second.
func (d *cdn) lastRates() api.ControllerRates {
	d.mu.Lock()
	r := d.rates
	d.mu.Unlock()
	r.Surrogates = d.set.Rates()
	return r
}

// mostZones is the bound of the zones for request routers.
const mostZones = 4096

// distances are what request routers of the native mode decide by.
func (d *cdn) distances() api.ControllerDistances {
	n := distances.Network{Bits4: d.cfg.Bits4, Bits6: d.cfg.Bits6, Most: mostZones}
	list := d.set.List()
	out := api.ControllerDistances{Surrogates: list}
	d.c.network.View(func(g *topology.Graph) {
		n.Hops = g.Distance
		for _, s := range d.cfg.Surrogates {
			h, ok := g.Locate(s.Address.Addr())
			n.Surrogates = append(n.Surrogates, distances.Surrogate{Name: s.Name, At: h.At.Switch, Known: ok})
		}
		for _, h := range g.Hosts() {
			if _, kind := d.who(h.Addresses); kind != "client" {
				continue
			}
			for _, a := range h.Addresses {
				if !a.IsLinkLocalUnicast() {
					n.Clients = append(n.Clients, distances.Client{Address: a, At: h.At.Switch})
				}
			}
		}
		out.Zones, _ = distances.Zones(n)
	})
	return out
}

// publishDistances tells request routers what has changed of distances, weights and states.
func (d *cdn) publishDistances() {
	if d == nil || !d.c.hub.Watched(api.TopicDistances) {
		return
	}
	now := d.distances()
	for i := range now.Surrogates { // what changes all the time is not told again and again
		u := &now.Surrogates[i]
		u.Sessions, u.Handoffs, u.Legs, u.Rate = 0, 0, 0, 0
	}
	d.mu.Lock()
	same := reflect.DeepEqual(now, d.zones)
	d.zones = now
	d.mu.Unlock()
	if !same {
		d.c.hub.Publish(api.TopicDistances, now)
	}
}

// follow takes a change of the topology.
func (d *cdn) follow(ctx context.Context) {
	if d == nil {
		return
	}
	d.publishDistances()
	if d.manager != nil {
		d.manager.Reroute(ctx)
	}
}
