package balance

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"baton/api"
	"baton/balance/config"
	"baton/balance/links"
	"baton/balance/measure"
	"baton/balance/policy"
	"baton/balance/tables"
	"baton/daemon"
)

// askWithin bounds how long the switch may take to answer.
const askWithin = time.Second

// Status returns the status of the balance. Links are at most a second old, the switch's numbers are current.
func (b *Balance) Status() (api.BalanceStatus, error) {
	b.mu.Lock()
	s, control := b.status, b.switchControl
	b.mu.Unlock()
	s.Resets, s.Reloads, s.ReloadsFailed = b.resets.Load(), b.reloads.Load(), b.reloadsFailed.Load()
	c := b.controller.Status()
	s.Flows.Used, s.Verdicts = c.Flows, make(map[string]uint64)
	for v, n := range c.Packets {
		s.Verdicts["controller_"+string(v)] = n
	}
	if control == "" {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	client := api.NewClient(control)
	defer client.Close()
	f, err := client.Forwarder(ctx)
	if err != nil { // it is starting
		b.log.Debug("the switch does not report its status", "err", err)
		return s, nil
	}
	maps.Copy(s.Verdicts, f.Packets)
	if f.Bindings != nil {
		s.Flows.Used += f.Bindings.Flows.Used
	}
	return s, nil
}

// publish updates the status from the loop's state.
func (b *Balance) publish() {
	cfg := b.state.cfg
	s := api.BalanceStatus{
		Process:  daemon.Process("balance", b.o.Version, b.started),
		Datapath: string(cfg.Datapath), Method: string(cfg.Method), Internal: cfg.Internal.Interface,
		Flows: api.Usage{Limit: cfg.Limits.Flows},
	}
	s.Name, s.Config, s.Loaded = cfg.Name, cfg.File, b.loaded
	b.measuring.grow(len(b.state.places))
	decisions := b.state.decide()
	for i := range b.state.places {
		p := &b.state.places[i]
		if b.watcher != nil && p.reported != decisions[i].State {
			if p.reported != "" {
				b.log.Info("link", "name", p.cfg.Name, "state", decisions[i].State, "before", p.reported)
			}
			p.reported, p.since = decisions[i].State, time.Now()
		}
		if !p.gone {
			s.Links = append(s.Links, b.linkStatus(i, decisions[i]))
		}
	}
	b.mu.Lock()
	b.status = s
	if cfg.Datapath == config.Baton {
		b.switchControl = b.switchConfig().Control
	}
	b.mu.Unlock()
}

func (b *Balance) linkStatus(i int, d policy.Decision) api.BalanceLink {
	p, seat, f := &b.state.places[i], &b.measuring.seats[i], &b.measuring.figures[i]
	l := api.BalanceLink{
		Name: p.cfg.Name, Interface: p.cfg.Interface, Port: uint32(tables.FirstLink + i), State: d.State, Since: later(p.since, b.started), Tier: d.Tier,
		Weight: int(d.Weight), Measured: p.cfg.Weight == 0, Resolvers: p.now.Resolvers, MTU: p.now.MTU,
		Active: seat.Active, Flows: seat.Flows, Connections: seat.SYNs, RTT: seat.RTT, Loss: f.Loss,
		Sent: b.measuring.carried[i].Sent, Received: b.measuring.carried[i].Received,
		SentRate: f.SentRate, ReceivedRate: f.ReceivedRate, Capacity: capacity(f),
	}
	if f.RTT > 0 && l.RTT == 0 {
		l.RTT = f.RTT
	}
	if p.cfg.Cap != nil {
		l.Cap = &api.BalanceCap{Used: p.usage.Used, Bytes: p.usage.Bytes, Until: p.usage.Until}
	}
	for _, of := range []links.Family{p.now.V4, p.now.V6} {
		l.Addresses = appendValid(l.Addresses, of.Address)
		l.Gateways = appendValid(l.Gateways, of.Gateway)
	}
	return l
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func appendValid(list []netip.Addr, a netip.Addr) []netip.Addr {
	if !a.IsValid() {
		return list
	}
	return append(list, a)
}

// capacity returns that of the faster direction; lower bounds are not reported.
func capacity(f *measure.Figures) (rate float64) {
	for _, c := range []measure.Capacity{f.Down, f.Up} {
		if c.Known() {
			rate = max(rate, c.Rate)
		}
	}
	return rate
}
