package discover

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"baton/router/config"
)

// ResolvConf is where the host's name servers are.
const ResolvConf = "/etc/resolv.conf"

// maxTargets bounds the names that one lookup of SRV leads to.
const maxTargets = 64

// names is a source of DNS names.
type names struct {
	of      config.Discover
	resolve func(ctx context.Context, q question) (answer, error)
	now     func() time.Time

	known map[question]answer // the last answer to each question
	seen  map[netip.AddrPort]sighting
	tries int // failures in a row
}

// NewDNS makes a source of DNS names, of kind dns or srv. conf is the host's resolv.conf.
func NewDNS(of config.Discover, conf string) Source {
	r := &resolver{servers: of.Resolvers, conf: conf, within: answerWithin}
	return newNames(of, r.lookup, time.Now)
}

func newNames(of config.Discover, resolve func(context.Context, question) (answer, error), now func() time.Time) *names {
	return &names{of: of, resolve: resolve, now: now, known: make(map[question]answer), seen: make(map[netip.AddrPort]sighting)}
}

// Run looks the name up when its records' time is over.
func (n *names) Run(ctx context.Context, report func(Outcome)) {
	for {
		o, wait := n.look(ctx)
		if ctx.Err() != nil {
			return
		}
		// routers that were started together ask at different times
		wait = time.Duration(float64(wait) * (0.9 + 0.1*rand.Float64()))
		o.Due = n.now().Add(wait)
		report(o)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// look looks everything up once, and says how long that holds.
func (n *names) look(ctx context.Context) (Outcome, time.Duration) {
	l := lookup{n: n, ctx: ctx, ttl: n.of.MaxTTL}
	var found []Surrogate
	if n.of.Kind == config.DiscoverSRV {
		found = l.service()
	} else {
		for _, a := range l.addresses(n.of.Name) {
			found = append(found, Surrogate{Address: netip.AddrPortFrom(a, n.of.Port), Weight: n.of.Weight})
		}
	}
	if l.err != nil && !l.absent {
		n.tries++
		l.ttl = min(n.of.MaxTTL, n.of.MinTTL<<min(n.tries-1, 16))
	} else {
		n.tries = 0
	}
	wait := max(n.of.MinTTL, min(n.of.MaxTTL, l.ttl))
	switch {
	case len(found) > config.MaxSurrogates:
		return Outcome{Err: failed(TooMany, "%s: %d addresses, at most %d", n.of.Name, len(found), config.MaxSurrogates)}, wait
	case len(found) == 0 && !(l.absent && n.of.RemoveAbsent):
		return Outcome{Err: l.err}, wait
	}
	return Outcome{Set: &Set{Surrogates: n.held(found)}, Err: l.err}, wait
}

// sighting is a surrogate that an answer had, and when.
type sighting struct {
	Surrogate
	at time.Time
}

// held adds surrogates that answers had until recently.
func (n *names) held(found []Surrogate) []Surrogate {
	now := n.now()
	for _, s := range found {
		n.seen[s.Address] = sighting{s, now}
	}
	out := slices.Clone(found)
	for address, s := range n.seen {
		switch {
		case s.at.Equal(now):
		case now.Sub(s.at) >= n.of.Hold:
			delete(n.seen, address)
		default:
			out = append(out, s.Surrogate)
		}
	}
	return sorted(out)
}

func sorted(all []Surrogate) []Surrogate {
	slices.SortFunc(all, func(a, b Surrogate) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Address.Compare(b.Address), cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(all, func(a, b Surrogate) bool { return a.Name == b.Name && a.Address == b.Address })
}

// lookup is one round of questions.
type lookup struct {
	n      *names
	ctx    context.Context
	ttl    time.Duration // how long all answers hold
	err    error         // the first failure
	absent bool          // the name does not exist, or has no records
}

// ask asks one question. After a failure it returns the last answer, if there is one: a broken name server for one kind of record must not
// take away the others. The error is for a question without records.
func (l *lookup) ask(q question) (answer, error) {
	a, err := l.n.resolve(l.ctx, q)
	var f *Failure
	switch {
	case err == nil:
		l.n.known[q] = a
	case errors.As(err, &f) && (f.Kind == NXDomain || f.Kind == NoData):
		l.ttl = min(l.ttl, a.ttl)
		delete(l.n.known, q)
		return answer{}, err
	default:
		l.fail(err)
		return l.n.known[q], nil
	}
	l.ttl = min(l.ttl, a.ttl)
	return a, nil
}

func (l *lookup) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// addresses looks up the addresses of a name.
func (l *lookup) addresses(name string) []netip.Addr {
	var kinds []dnsmessage.Type
	if l.n.of.Family != config.IPv6 {
		kinds = append(kinds, dnsmessage.TypeA)
	}
	if l.n.of.Family != config.IPv4 {
		kinds = append(kinds, dnsmessage.TypeAAAA)
	}
	var out []netip.Addr
	var absent error
	for _, kind := range kinds {
		a, err := l.ask(question{name, kind})
		out = append(out, a.addresses...)
		absent = cmp.Or(absent, err)
	}
	if len(out) == 0 && absent != nil && l.err == nil {
		l.err, l.absent = absent, true
	}
	return out
}

// service looks up the records of a service, and the addresses of their targets.
func (l *lookup) service() []Surrogate {
	q := question{l.n.of.Name, dnsmessage.TypeSRV}
	a, err := l.ask(q)
	if err != nil && l.err == nil {
		l.err, l.absent = err, true
		return nil
	}
	if len(a.targets) == 1 && a.targets[0].name == "" {
		l.err, l.absent = failed(NoData, "%s: the service is not offered here", q), true
		return nil
	}
	if len(a.targets) > maxTargets {
		l.fail(failed(TooMany, "%s: %d targets, at most %d", q, len(a.targets), maxTargets))
		return nil
	}
	var heaviest uint16
	for _, t := range a.targets {
		heaviest = max(heaviest, t.weight)
	}
	var out []Surrogate
	for _, t := range a.targets {
		of := lookup{n: l.n, ctx: l.ctx, ttl: l.ttl}
		for _, address := range of.addresses(t.name) {
			out = append(out, Surrogate{Address: netip.AddrPortFrom(address, t.port), Weight: weightOf(t.weight, heaviest), Priority: int(t.priority)})
		}
		l.ttl = of.ttl
		if of.err != nil {
			l.fail(of.err) // the other targets serve
		}
	}
	return out
}

// maxWeight is the largest weight of a surrogate.
const maxWeight = 256

// weightOf converts a weight of SRV, which is up to 65535. One of 0 is a very small one (RFC 2782).
func weightOf(weight, heaviest uint16) int {
	if heaviest <= maxWeight {
		return max(1, int(weight))
	}
	return max(1, int(weight)*maxWeight/int(heaviest))
}
