package relay

import (
	"slices"

	"baton/api"
	"baton/relay/choice"
)

// mostLatest limits the destinations in the status, which is requested often.
const mostLatest = 16

// distances returns the distances of peers and servers.
func (r *Relay) distances() (api.RelayDistances, error) {
	s, err := r.Status()
	if err != nil {
		return api.RelayDistances{}, err
	}
	out := api.RelayDistances{Relay: s.Name, Cloud: s.Cloud, Peers: []api.RelayPeerDistance{}, Destinations: []api.RelayDestination{}}
	c := r.choosing
	c.mu.Lock()
	defer c.mu.Unlock()
	measured := c.chooser.Distances()
	for _, p := range s.Peers {
		d := api.RelayPeerDistance{Name: p.Name, Address: p.Address, Cloud: p.Cloud, Up: !p.Down, RTT: p.RTT}
		if i := slices.IndexFunc(measured, func(m choice.Distance) bool { return m.Relay == p.Name }); i >= 0 && measured[i].RTT > 0 {
			d.RTT = measured[i].RTT
		}
		out.Peers = append(out.Peers, d)
	}
	for _, x := range c.chooser.Reports() {
		out.Destinations = append(out.Destinations, destination(&x))
	}
	return out, nil
}

// choiceStatus is nil if no entry has via: auto.
func (r *Relay) choiceStatus() *api.RelayChoice {
	c := r.choosing
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.active {
		return nil
	}
	s := &api.RelayChoice{Changes: c.chooser.Changed(), Probes: c.probes.Load(), Latest: []api.RelayDestination{}}
	s.Destinations, s.Chosen = c.chooser.Count()
	for _, x := range c.chooser.Latest(mostLatest) {
		s.Latest = append(s.Latest, destination(&x))
	}
	return s
}

func destination(x *choice.Report) api.RelayDestination {
	d := api.RelayDestination{
		Destination: x.Destination.String(), Server: x.Server, Fixed: x.Fixed, RTT: x.RTT, Chosen: x.Known, Via: x.Route.Relays(), Takes: x.Takes,
		Why: x.Why, Since: x.Since, Measured: x.At, Due: x.Due, LastUsed: x.LastUsed, Relays: []api.RelayDistance{},
	}
	for _, w := range x.Others {
		instead := w.Relays()
		if instead == nil {
			instead = []string{}
		}
		d.Instead = append(d.Instead, instead)
	}
	for _, m := range x.Relays {
		d.Up = d.Up || m.RTT > 0
		d.Relays = append(d.Relays, api.RelayDistance(m))
	}
	return d
}
