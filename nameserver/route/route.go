// Package route answers names that are routed: the policy chooses surrogates for the client's network, checks and operators say which can serve, and a
// service says how many addresses an answer has and for how long it holds.
package route

import (
	"cmp"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"baton/api"
	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/follow"
	"baton/nameserver/zone"
	"baton/policy"
)

// Table has the routed names of a configuration, and what is known of the surrogates. Its methods may be called from any goroutine.
type Table struct {
	log     *slog.Logger
	view    func() follow.View // of the controller
	now     atomic.Pointer[snapshot]
	journal journal
	restart chan struct{} // the checks are to be made anew

	mu      sync.Mutex // guards what is below, and changes of now
	cfg     *config.Config
	policy  *policy.Policy
	routes  map[string]answer.Route
	health  map[netip.Addr]*health // as the checks have said last
	changes map[string]change
	counts  map[string]*counts // by service, and by surrogate with a slash before its name
}

// health is that of an address; nil: it is up, or was never asked.
type health struct{ failure error }

// change is what an operator has changed of a surrogate.
type change struct {
	maintenance *bool
	weight      *int
}

type counts struct{ decisions, fallbacks, chosen atomic.Uint64 }

// snapshot is all that a decision depends on. It is never changed.
type snapshot struct {
	state   *policy.State
	targets map[*policy.Surrogate]*target
	all     []*target // in the configuration's order
}

// target is the addresses of a surrogate that may be answered.
type target struct {
	v4, v6 []netip.Addr
	counts *counts
}

// New returns the table of a configuration, which may have no routed names. All surrogates count as up until a check has failed.
func New(cfg *config.Config, view func() follow.View, log *slog.Logger) (*Table, error) {
	t := &Table{
		log: log, view: view, restart: make(chan struct{}, 1), health: make(map[netip.Addr]*health), changes: make(map[string]change), counts: make(map[string]*counts),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t, t.use(cfg)
}

// use takes a configuration. The caller holds mu.
func (t *Table) use(cfg *config.Config) error {
	if cfg.Policy == nil {
		t.cfg, t.policy, t.routes = cfg, nil, nil
		t.now.Store(&snapshot{})
		return nil
	}
	p, err := policy.Load(Defaults(*cfg.Policy), t.policy)
	if p == nil {
		return cfg.Wrong("policy", err.Error(), "")
	}
	if err != nil {
		t.log.Error("a file of the policy keeps its old content", "err", err)
	}
	t.cfg, t.policy, t.routes = cfg, p, make(map[string]answer.Route)
	for _, z := range cfg.Zones {
		for _, r := range z.Routed {
			i := slices.IndexFunc(cfg.Services, func(s config.Service) bool { return s.Name == r.Service })
			if key, err := zone.KeyOf(r.Name); err == nil && i >= 0 {
				t.routes[r.Name] = newRoute(t, key, r.Name, &cfg.Services[i])
			}
		}
	}
	t.update()
	return nil
}

// Defaults are a policy's for answers in DNS, which know nothing of the object: clients are spread by weight. Services are as the policy, unless they say.
func Defaults(c policy.Config) policy.Config {
	c.Rules.Spread = cmp.Or(c.Rules.Spread, policy.ByWeight)
	return c
}

// update makes a new snapshot of what is known. The caller holds mu.
func (t *Table) update() {
	seen, view := make(map[string]policy.Observed), t.view()
	next := &snapshot{targets: make(map[*policy.Surrogate]*target)}
	for _, site := range t.policy.Config().Sites {
		for _, u := range site.Surrogates {
			o, to, _ := t.observe(&u, &view)
			seen[u.Name] = o
			pointer, _ := t.policy.Surrogate(u.Name)
			next.targets[pointer] = to
			next.all = append(next.all, to)
		}
	}
	var before *policy.State
	if old := t.now.Load(); old != nil {
		before = old.state
	}
	next.state = t.policy.State(before, seen, view.Measured)
	t.now.Store(next)
}

// Refresh takes over what the controller says.
func (t *Table) Refresh() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.policy != nil {
		t.update()
	}
}

// observe returns the known state of a surrogate, and its source. By the health checks a surrogate is down when
// all its addresses are; of one that is up, only addresses that are up are answered. A controller's report counts for all
// addresses. A change by an operator here overrides one made at the controller.
func (t *Table) observe(u *policy.Surrogate, view *follow.View) (policy.Observed, *target, follow.Source) {
	to := &target{counts: t.count("/" + u.Name)}
	var o policy.Observed
	told, known := view.Surrogates[u.Name]
	source := view.Source
	if known {
		maintenance := told.State == api.Maintenance
		o.Maintenance, o.Weight = &maintenance, &told.Weight
	}
	if known && source != follow.Checks {
		to.add(u.Addresses...)
		o.Down, o.Error, o.Sessions = !told.Up, told.Error, told.Sessions
	} else {
		source = follow.Checks
		if t.cfg.Health == nil {
			source = "none"
		}
		t.checked(u, &o, to)
	}
	c := t.changes[u.Name]
	o.Maintenance, o.Weight = cmp.Or(c.maintenance, o.Maintenance), cmp.Or(c.weight, o.Weight)
	return o, to, source
}

// checked is what the checks say of a surrogate.
func (t *Table) checked(u *policy.Surrogate, o *policy.Observed, to *target) {
	for _, a := range u.Addresses {
		if h := t.health[a]; h != nil && h.failure != nil {
			o.Error = h.failure.Error()
			continue
		}
		to.add(a)
	}
	if o.Down = len(to.v4)+len(to.v6) == 0; o.Down {
		to.add(u.Addresses...) // for the fallback to all
	}
}

func (to *target) add(addresses ...netip.Addr) {
	for _, a := range addresses {
		if a.Is4() {
			to.v4 = append(to.v4, a)
		} else {
			to.v6 = append(to.v6, a)
		}
	}
}

func (t *Table) count(of string) *counts {
	if t.counts[of] == nil {
		t.counts[of] = &counts{}
	}
	return t.counts[of]
}

// Routes are the routed names, for the zones.
func (t *Table) Routes() map[string]answer.Route {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.routes
}

// route is a routed name.
type route struct {
	t       *Table
	key     zone.Key
	host    string
	service *config.Service
	ttl     uint32
	params  []byte
	counts  *counts
	desks   sync.Pool
}

// desk is what a decision needs, and is used again.
type desk struct {
	policy.Query
	policy.Decision
}

func newRoute(t *Table, key zone.Key, name string, s *config.Service) *route {
	return &route{
		t: t, key: key, host: trimDot(name), service: s, ttl: uint32(s.TTL / time.Second), params: params(s.HTTPS), counts: t.count(s.Name),
		desks: sync.Pool{New: func() any { return new(desk) }},
	}
}

func trimDot(name string) string {
	if n := len(name) - 1; n > 0 && name[n] == '.' {
		return name[:n]
	}
	return name
}

// params are those of HTTPS records below the hints of addresses, in wire form.
func params(h *config.HTTPS) []byte {
	if h == nil {
		return nil
	}
	var ids []byte
	for _, id := range h.ALPN {
		ids = append(append(ids, byte(len(id))), id...)
	}
	out := binary.BigEndian.AppendUint16(nil, uint16(dns.SVCB_ALPN))
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(ids))), ids...)
	if h.Port != 0 {
		out = binary.BigEndian.AppendUint16(out, uint16(dns.SVCB_PORT))
		out = binary.BigEndian.AppendUint16(out, 2)
		out = binary.BigEndian.AppendUint16(out, h.Port)
	}
	return out
}

// query is the question to the policy.
func (r *route) query(a answer.Asked) policy.Query {
	q := policy.Query{Host: r.host, Random: rand.Uint64()}
	q.Client, _ = a.Client.Prefix(a.Bits)
	if string(a.Name) != string(r.key) && r.key.IsWild() {
		q.Host = trimDot(zone.Key(a.Name).String())
	}
	return q
}

// Choose chooses addresses for a client.
func (r *route) Choose(a answer.Asked, c *answer.Choice) {
	now := r.t.now.Load()
	d := r.desks.Get().(*desk)
	defer r.desks.Put(d)
	d.Query = r.query(a)
	now.state.Decide(&d.Query, &d.Decision)
	r.fill(now, &d.Decision, a, c)
	if a.Dry {
		return
	}
	r.counts.decisions.Add(1)
	if len(d.Choices) == 0 {
		r.counts.fallbacks.Add(1)
	}
	if r.t.journal.due() {
		r.t.journal.add(r.decision(now, d.Query, a))
	}
}

// fill makes a choice of a decision.
func (r *route) fill(now *snapshot, d *policy.Decision, a answer.Asked, c *answer.Choice) {
	c.TTL, c.Scope, c.Params = r.ttl, min(d.Scope, a.Client.BitLen()), r.params
	most := r.service.Answers
	take := func(to *target) {
		fits := a.Kind == dns.TypeA && len(to.v4) > 0 || a.Kind == dns.TypeAAAA && len(to.v6) > 0 || a.Kind == dns.TypeHTTPS
		if fits && most > 0 {
			most--
			c.V4, c.V6 = append(c.V4, to.v4...), append(c.V6, to.v6...)
			if !a.Dry {
				to.counts.chosen.Add(1)
			}
		}
	}
	for _, one := range d.Choices {
		take(now.targets[one.Surrogate])
	}
	if len(d.Choices) > 0 {
		return
	}
	switch f := r.service.Fallback; {
	case f.All:
		most = len(now.all)
		for _, to := range now.all[:min(len(now.all), mostFallback)] {
			take(to)
		}
	case len(f.Addresses) > 0:
		for _, at := range f.Addresses {
			if at.Is4() {
				c.V4 = append(c.V4, at)
			} else {
				c.V6 = append(c.V6, at)
			}
		}
	default:
		c.Fail = true
	}
}

// mostFallback is how many surrogates an answer of all has, so that it fits a datagram.
const mostFallback = 16
