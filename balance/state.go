package balance

import (
	"cmp"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"time"

	"baton/balance/alive"
	"baton/balance/config"
	"baton/balance/host"
	"baton/balance/links"
	"baton/balance/policy"
	"baton/balance/tables"
	"baton/daemon"
)

// state is everything that the tables and the host's side depend on. It is data: the loop records events in it and derives both from it.
type state struct {
	cfg    *config.Config
	users  map[string]uint32 // user ids, by the names in rules
	places []place           // by OpenFlow port, from tables.FirstLink on
}

// place belongs to a link. A link keeps its place as long as the process runs, because flows refer to it; a link that a reload removes
// leaves an empty place.
type place struct {
	cfg     config.Link // from the last configuration that had the link
	gone    bool        // not in the current configuration
	now     links.Link
	verdict alive.Verdict // of its probes
	usage   policy.Usage  // of its cap
	weight  uint16        // computed from measurements

	reported string // the state that was last reported, and since when
	since    time.Time
}

// configure activates a configuration. Links keep their places. It fails if there are too many links or a user is unknown.
func (k state) configure(cfg *config.Config) (state, error) {
	next := state{cfg: cfg, users: make(map[string]uint32), places: slices.Clone(k.places)}
	for i := range next.places {
		next.places[i].gone = true
	}
	for _, l := range cfg.Links {
		i := next.placeOf(l.Interface)
		if i < 0 {
			i = len(next.places)
			next.places = append(next.places, place{})
		}
		next.places[i].cfg, next.places[i].gone = l, false
		next.places[i].now.Name, next.places[i].now.Interface = l.Name, l.Interface
	}
	for i := range next.places {
		if p := &next.places[i]; p.gone {
			*p = place{cfg: p.cfg, gone: true}
		}
	}
	if len(next.places) > tables.MaxLinks {
		return k, fmt.Errorf("%s: links: %d, including those since the start: more than %d %s", cfg.File, len(next.places),
			tables.MaxLinks, daemon.AfterRestart)
	}
	for i, r := range cfg.Rules {
		if r.Application == nil || r.Application.User == "" {
			continue
		}
		number, err := userNumber(r.Application.User)
		if err != nil {
			return k, cfg.Places.Wrong(fmt.Sprintf("rules[%d].application.user", i), fmt.Sprintf("%q is not a user of this host", r.Application.User),
				"a user's name or number: see getent passwd")
		}
		next.users[r.Application.User] = number
	}
	return next, nil
}

// placeOf returns the place of a configured link.
func (k *state) placeOf(device string) int {
	return slices.IndexFunc(k.places, func(p place) bool { return p.cfg.Interface == device })
}

func userNumber(name string) (uint32, error) {
	text := name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, err
		}
		text = u.Uid
	}
	number, err := strconv.ParseUint(text, 10, 32)
	return uint32(number), err
}

// decide says how the links are used, by place.
//
// Probes are ignored if no link would be usable: then the probed server itself may be down, and users sign in to a portal over the link
// that has it.
func (k *state) decide() []policy.Decision {
	in := make([]policy.Input, len(k.places))
	answers := slices.ContainsFunc(k.places, func(p place) bool { return p.now.Usable() && verdictOf(p.verdict) == policy.Alive })
	for i := range k.places {
		p := &k.places[i]
		in[i] = policy.Input{Config: p.cfg, Link: p.now, Over: p.usage.Over, Weight: p.weight}
		if answers {
			in[i].Verdict = verdictOf(p.verdict)
		}
	}
	return policy.Decide(in)
}

func verdictOf(v alive.Verdict) policy.Verdict {
	switch v.State {
	case alive.Dead:
		return policy.Dead
	case alive.Portal:
		return policy.Portal
	}
	return policy.Alive // also before the first result
}

// tables returns the state for the switch's tables. The MTU is that of the internal interface; v6: it has IPv6.
func (k *state) tables(decisions []policy.Decision, mtu int, v6 bool) tables.State {
	s := tables.State{
		Datapath: k.cfg.Datapath,
		Internal: tables.Internal{MAC: host.HostMAC, MTU: mtu, IPv4: k.cfg.Internal.IPv4.Addr()},
	}
	if v6 {
		s.Internal.IPv6 = k.cfg.Internal.IPv6.Addr()
	}
	applications := k.cfg.Applications()
	for class := range len(applications) + 1 {
		g := tables.Gateway{IPv4: k.cfg.Internal.Gateway4(class)}
		if v6 {
			g.IPv6 = k.cfg.Internal.Gateway6(class)
		}
		s.Internal.Gateways = append(s.Internal.Gateways, g)
	}
	for _, d := range decisions {
		s.Links = append(s.Links, d.Link)
	}
	for _, r := range k.cfg.Rules {
		class := 0
		if r.Application != nil {
			class = 1 + slices.Index(applications, *r.Application)
		}
		s.Rules = append(s.Rules, tables.Rule{
			To: r.To, Services: r.Services, Class: class, Links: k.placesOf(r.Links), Otherwise: r.Otherwise,
			Method: cmp.Or(r.Method, k.cfg.Method), Affinity: r.Affinity,
		})
	}
	s.Rules = append(s.Rules, tables.Rule{
		Links: k.placesOf(nil), Otherwise: config.Any, Method: k.cfg.Method, Affinity: k.cfg.Affinity,
	})
	return s
}

// placesOf returns the places of links by name; without names, of all configured ones.
func (k *state) placesOf(names []string) []int {
	var list []int
	for i := range k.places {
		if p := &k.places[i]; !p.gone && (len(names) == 0 || slices.Contains(names, p.cfg.Name)) {
			list = append(list, i)
		}
	}
	return list
}

// internal returns the state for the host's side.
func (k *state) internal() host.State {
	s := host.State{Name: k.cfg.Name, Internal: k.cfg.Internal, Datapath: k.cfg.Datapath}
	for i := range k.places {
		s.Links = append(s.Links, k.places[i].now)
	}
	s.Classes = append(s.Classes, k.class(0, config.Application{}))
	for i, a := range k.cfg.Applications() {
		s.Classes = append(s.Classes, k.class(i+1, a))
	}
	return s
}

func (k *state) class(number int, a config.Application) host.Class {
	c := host.Class{
		IPv4: k.cfg.Internal.Gateway4(number), IPv6: k.cfg.Internal.Gateway6(number), MAC: tables.GatewayMAC(number), Group: a.Cgroup,
	}
	if a.User != "" {
		c.Users = &host.Users{First: k.users[a.User], Last: k.users[a.User]}
	}
	return c
}
