package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"baton/api"
	"baton/controller/config"
	"baton/controller/metrics"
	"baton/controller/topology"
	"baton/daemon"
)

func (c *Controller) backend() api.Backend {
	return api.Backend{
		Part: api.ControllerBackend{
			Status:   func(context.Context) (api.ControllerStatus, error) { return c.Status() },
			Topology: func(context.Context) (api.ControllerTopology, error) { return c.Topology(), nil },
		},
		Reload:   func(context.Context) (api.ReloadResult, error) { return c.Reload() },
		Counters: daemon.Counters(c.Status, c.metrics().Series),
	}
}

// metrics returns the controller's metrics. The northbound server is there since New.
func (c *Controller) metrics() metrics.Metrics {
	return metrics.Metrics{Status: c.Status, Northbound: c.north}
}

// Status is what the controller has and has done.
func (c *Controller) Status() (api.ControllerStatus, error) {
	sw, net, term := c.switches.Counts(), c.network.Counts(), c.store.Status()
	p := c.network.Paths.Counts()
	s := api.ControllerStatus{
		Process: daemon.Process("controller", c.o.Version, c.started), Switches: c.switchList(),
		Packets: sw.Packets, Overload: sw.Dropped, FlowMods: sw.FlowMods, PacketOuts: sw.PacketOuts, Discovery: net.Discovery,
		Answered: net.Answered, Flooded: net.Flooded, Limited: net.Limited, Forwarded: net.Forwarded, Undelivered: net.Dropped,
		Store: api.ControllerStore{
			Kind: term.Kind, Master: term.Term.Master, Generation: term.Term.Generation, Holder: term.Term.Holder, Answers: term.Answers,
			Error: term.Error, Pending: term.Pending,
		},
		Paths: api.ControllerPaths{Cache: c.network.Paths.Caches(), Hits: p.Hits, Misses: p.Misses, Reroutes: p.Reroutes, Failures: p.Failures},
	}
	s.Paths.Trees, s.Paths.Entries, s.Paths.Cached = c.network.Table()
	c.network.View(func(g *topology.Graph) {
		for _, l := range g.Links() {
			if l.Usable && l.From.Compare(l.To) < 0 {
				s.Links++
			}
		}
		s.Hosts = len(g.Hosts())
		k := g.Counts()
		s.Moves = k.Moves + k.Claims
		s.Refused = map[string]uint64{
			"lldp_forged": net.Forged, "lldp_replayed": net.Replayed, "lldp_old": net.Old, "lldp_unsigned": net.Unsigned,
			"lldp_malformed": net.Malformed, "link_at_hosts": k.LinkAtHosts, "link_conflict": k.LinkConflicts, "link_loop": k.LinkLoops,
			"link_unknown": k.LinkUnknown, "host_at_link": k.HostAtLink, "host_early": k.HostTooEarly, "host_full": k.HostFull,
			"host_invalid": k.InvalidAddress, "move": k.MovesRefused, "claim": k.ClaimsRefused, "switch": sw.Refused, "stale": sw.Stale,
		}
	})
	c.cdn.status(&s)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Name, s.Config, s.Loaded, s.Listen = c.cfg.Name, c.cfg.File, c.loaded, endpoints(c.cfg)
	s.Reloads, s.ReloadsFailed = c.reloads.Load(), c.reloadsFailed.Load()
	if c.web != nil {
		s.Northbound = c.web.Addr().String()
	}
	return s, nil
}

func id(dpid uint64) string { return fmt.Sprintf("%016x", dpid) }

func at(p topology.Point) api.ControllerPoint {
	return api.ControllerPoint{Switch: id(p.Switch), Port: uint32(p.Port)}
}

// switchList are the switches with their ports.
func (c *Controller) switchList() []api.ControllerSwitch {
	faces := map[uint64][]topology.PortState{}
	c.network.View(func(g *topology.Graph) {
		for _, s := range g.Switches(time.Now()) {
			faces[s.ID] = s.Ports
		}
	})
	list := []api.ControllerSwitch{}
	for _, s := range c.switches.Switches() {
		one := api.ControllerSwitch{
			ID: id(s.ID), Name: s.Name, Maker: s.Desc.Manufacturer, Core: s.Core, Role: strings.ToLower(s.Role.String()), Up: s.Up, Since: s.Since,
			Remote: s.Remote, Flows: c.network.Entries(s.ID), Ports: []api.ControllerPort{},
		}
		for _, p := range faces[s.ID] {
			one.Ports = append(one.Ports, api.ControllerPort{
				Number: uint32(p.Number), Name: p.Name, MAC: p.MAC.String(), Up: p.Up, Faces: string(p.Faces),
			})
		}
		list = append(list, one)
	}
	return list
}

// Topology is the network as the controller knows it.
func (c *Controller) Topology() api.ControllerTopology {
	t := api.ControllerTopology{Switches: c.switchList(), Links: []api.ControllerLink{}, Hosts: []api.ControllerHost{}}
	c.network.View(func(g *topology.Graph) {
		for _, l := range g.Links() {
			t.Links = append(t.Links, api.ControllerLink{From: at(l.From), To: at(l.To), Since: l.Since})
		}
		for _, h := range g.Hosts() {
			name, kind := c.cdn.who(h.Addresses)
			t.Hosts = append(t.Hosts, api.ControllerHost{Name: name, Kind: kind, MAC: h.MAC.String(), Addresses: h.Addresses, At: at(h.At), Seen: h.Seen})
		}
	})
	return t
}

// changed notes a change of the topology; it is called under the network's lock.
func (c *Controller) changed(t topology.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range t.Hosts {
		if !h.Presumed {
			c.moved[h.MAC] = h
			delete(c.left, h.MAC)
		}
	}
	for _, h := range t.Gone {
		delete(c.moved, h.MAC)
		c.left[h.MAC] = true
	}
	wake(c.news)
}

// newsPause is the least time between two topologies for subscribers.
const newsPause = 50 * time.Millisecond

// publish follows the topology and the store's term until ctx ends.
func (c *Controller) publish(ctx context.Context) {
	renewal := time.NewTicker(hostRenewal)
	defer renewal.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.terms:
			c.follow(ctx)
			continue
		case <-c.edits:
			c.cdn.changed()
			continue
		case now := <-renewal.C:
			c.renewHosts(now)
			continue
		case <-c.news:
		}
		c.recordHosts()
		c.cdn.follow(ctx)
		if c.hub.Watched(api.TopicTopology) {
			c.hub.Publish(api.TopicTopology, c.Topology())
		}
		select {
		case <-ctx.Done():
		case <-time.After(newsPause):
		}
	}
}

// fixed are the settings that only a restart changes.
func fixed(old, next *config.Config) (keys []string) {
	web := func(c *config.Config) any {
		if c.Northbound == nil {
			return nil
		}
		return c.Northbound.Listen
	}
	for key, same := range map[string]bool{
		"name": old.Name == next.Name, "listen": reflect.DeepEqual(old.Listen, next.Listen), "store": reflect.DeepEqual(old.Store, next.Store),
		"discovery":    reflect.DeepEqual(old.Discovery, next.Discovery) && reflect.DeepEqual(old.Key, next.Key),
		"paths.spread": old.Paths.Spread == next.Paths.Spread, "cdn": reflect.DeepEqual(old.CDN, next.CDN),
		"northbound.listen": web(old) == web(next),
	} {
		if !same {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Reload reads the configuration again. Switches stay connected, and flow entries as they are. The error wraps api.ErrConflict; the old
// configuration stays in force then.
func (c *Controller) Reload() (api.ReloadResult, error) {
	result, err := c.reload()
	if err != nil {
		c.reloadsFailed.Add(1)
		c.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	c.reloads.Add(1)
	c.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
	return result, nil
}

func (c *Controller) reload() (api.ReloadResult, error) {
	old := c.config()
	next, err := c.o.Load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	if err := daemon.RestartError(next.File, fixed(old, next)...); err != nil {
		return api.ReloadResult{}, err
	}
	if c.north != nil {
		access, encrypted, err := next.Northbound.Load()
		if err != nil {
			return api.ReloadResult{}, fmt.Errorf("%s: northbound: %w", next.File, err)
		}
		c.north.SetAccess(access)
		if encrypted != nil && c.encrypted != nil {
			c.north.SetTLS(encrypted)
		}
	}
	c.network.Paths.SetCache(next.Paths.Cache)
	c.use(next)
	return api.ReloadResult{Config: next.File, Changed: changes(old, next)}, nil
}

// changes are what a reload has changed, for people.
func changes(old, next *config.Config) []string {
	all := map[string]bool{
		"paths.cache": old.Paths.Cache != next.Paths.Cache, "switches": !reflect.DeepEqual(old.Switches, next.Switches),
		"only_known": old.Only != next.Only, "tls": !reflect.DeepEqual(old.TLS, next.TLS),
		"northbound": !reflect.DeepEqual(old.Northbound, next.Northbound),
	}
	maps.DeleteFunc(all, func(_ string, changed bool) bool { return !changed })
	return slices.Sorted(maps.Keys(all))
}
