package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Query is a question: which surrogate serves this.
type Query struct {
	Client    netip.Prefix // an address with its whole length, or what is known of it (EDNS client subnet)
	Host      string       // or the name in DNS; a port is ignored
	Path      string       // escaped, as in the request; "": unknown, as in DNS
	RawQuery  string       // behind the ?
	Sticky    string       // for the spread key: a session's name, for example
	Random    uint64       // for the spread weight: from the caller, as a decision has none
	Distances []uint32     // from this client, by Policy.Index; nil: those of the State. Far: unknown
	Want      int          // surrogates, the first to be tried first, from more sites if need be; 0: those of one site
}

// Whole returns the prefix that has one address alone.
func Whole(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

// canonicalClient writes IPv4 as IPv4, without a zone. Of a client whose prefix has no bits nothing is known.
func canonicalClient(c netip.Prefix) netip.Prefix {
	a := c.Addr()
	switch bits := c.Bits(); {
	case bits <= 0 || a.Is4In6() && bits <= 96:
		return netip.Prefix{}
	case a.Is4In6():
		return netip.PrefixFrom(a.Unmap(), bits-96)
	}
	return c // a prefix has no zone
}

// Decision is an answer. A caller may use one again: its slices are kept.
type Decision struct {
	Site    *Site    // of the first surrogate; nil: nothing can serve
	Choices []Choice // the best first; none: nothing can serve
	Method  Method   // how the client's site was found; "": it was not
	Spread  Spread   // of the host's rules
	Spills  int      // how many sites were passed over
	Scope   int      // length of the client's prefix for which the site is the same (RFC 7871)
	Bypass  string   // where to send the client when there is no choice; "": refuse
	Because []string // of Explain alone

	explain bool
	order   []int  // sites
	origin  string // why a site was passed over, until the next one is known
	ranks   []rank
}

// Choice is a surrogate that can serve.
type Choice struct {
	Surrogate *Surrogate
	Site      *Site
}

// Explain decides and says why.
func (s *State) Explain(q *Query) Decision {
	d := Decision{explain: true}
	s.decide(q, &d)
	return d
}

// Decide decides without reasons. With a Decision that is used again it allocates nothing, but in the database.
func (s *State) Decide(q *Query, d *Decision) {
	*d = Decision{Choices: d.Choices[:0], order: d.order[:0], ranks: d.ranks[:0]}
	s.decide(q, d)
}

func (d *Decision) because(format string, values ...any) {
	d.Because = append(d.Because, fmt.Sprintf(format, values...))
}

func (s *State) decide(q *Query, d *Decision) {
	p := s.policy
	if c := canonicalClient(q.Client); c != q.Client {
		other := *q
		other.Client = c
		q = &other
	}
	host := canonicalHost(q.Host)
	r := p.rulesOf(host)
	d.Spread = r.Spread
	from := s.distancesOf(q, d)
	if r.steer != nil {
		s.steer(q, r, d)
	} else {
		s.locate(q, from, d)
	}
	for _, i := range d.order {
		if s.passOver(i, r, d) {
			continue
		}
		s.rankSite(i, q, host, r, from, d)
		if q.Want <= len(d.Choices) {
			break
		}
	}
	if len(d.Choices) > 0 {
		d.Site = d.Choices[0].Site
		if q.Want > 0 {
			d.Choices = d.Choices[:min(q.Want, len(d.Choices))]
		}
		return
	}
	d.Bypass = p.config.Bypass
	if d.explain {
		s.refuse(d)
	}
}

func (s *State) refuse(d *Decision) {
	if d.origin != "" {
		d.because("%s: no site is left", d.origin)
	}
	if d.Bypass != "" {
		d.because("nothing can serve: bypass to %s", d.Bypass)
		return
	}
	d.because("nothing can serve: refused")
}

// passOver reports whether a site cannot take the client.
func (s *State) passOver(i int, r *rules, d *Decision) bool {
	site, why := &s.policy.sites[i], ""
	first := len(d.Choices) == 0 // a spill, and not one more surrogate that the caller wants
	if first && d.explain && d.origin != "" {
		d.because("%s: spills to %s", d.origin, site.Name)
		d.origin = ""
	}
	switch {
	case r.allowed != nil && !r.allowed[i]:
		why = "does not have this service"
	case site.Maintenance:
		why = "is in maintenance"
	case s.sites[i].full:
		if why = "is full"; d.explain {
			why = "is " + s.sites[i].text(s.policy.resume)
		}
	default:
		usable := false
		for u := site.first; u < site.past && !usable; u++ {
			usable = s.usable(u)
		}
		if usable {
			return false
		}
		why = "has no surrogate that can serve"
	}
	if first {
		d.Spills++
	}
	if first && d.explain {
		if why == "has no surrogate that can serve" {
			s.explainUnusable(site, d)
		}
		d.origin = site.Name + " " + why
	}
	return true
}

func (s *State) explainUnusable(site *site, d *Decision) {
	for u := site.first; u < site.past; u++ {
		if why := s.unusable(u); why != "" {
			d.Because = append(d.Because, why)
		}
	}
}

// rank is the place of a surrogate in a site, or of a site: first the lowest, then the highest score.
type rank struct {
	which int
	low   float64
	score float64
}

func compareRanks(a, b rank) int {
	return cmp.Or(cmp.Compare(a.low, b.low), cmp.Compare(b.score, a.score), cmp.Compare(a.which, b.which))
}

// rankSite appends the surrogates of a site that can serve, the best first.
func (s *State) rankSite(i int, q *Query, host string, r *rules, from []uint32, d *Decision) {
	p, site := s.policy, &s.policy.sites[i]
	key := r.key(host, q)
	if r.byClient(q) {
		d.Scope = max(d.Scope, r.clientPrefix(q.Client).Bits())
	}
	d.ranks = d.ranks[:0]
	for u := site.first; u < site.past; u++ {
		if !s.usable(u) {
			continue
		}
		c := &s.surrogates[u]
		one := rank{which: u, score: score(key, p.surrogates[u].id, c.weight)}
		switch r.Spread {
		case ByNearest:
			one.low = float64(distance(from, u))
		case ByLoad:
			one.low = float64(c.sessions) / float64(c.weight)
		}
		d.ranks = append(d.ranks, one)
	}
	slices.SortFunc(d.ranks, compareRanks)
	shared := s.disperse(q, r, d.ranks)
	if d.explain && len(d.Choices) == 0 {
		s.explainUnusable(site, d)
		s.explainSpread(q, r, from, d, shared)
	}
	for _, one := range d.ranks {
		d.Choices = append(d.Choices, Choice{&p.surrogates[one.which].Surrogate, &site.Site})
	}
}

// disperse brings one of the surrogates that share an object to the front, the same for a client, and returns how many share it.
func (s *State) disperse(q *Query, r *rules, ranks []rank) int {
	shared := min(r.Dispersion, len(ranks))
	if r.Spread != ByObject || shared < 2 {
		return 1
	}
	key, best, most := addrKey(r.clientPrefix(q.Client)), 0, -1.0
	for i := range shared {
		if v := score(key, s.policy.surrogates[ranks[i].which].id, 1); v > most {
			best, most = i, v
		}
	}
	for ; best > 0; best-- {
		ranks[best], ranks[best-1] = ranks[best-1], ranks[best]
	}
	return shared
}

// byClient reports whether the client's address has a say in the order of a site's surrogates.
func (r *rules) byClient(q *Query) bool {
	return r.Spread == ByClient || r.Spread == ByKey && q.Sticky == "" || r.Spread == ByObject && r.Dispersion > 1
}

func (r *rules) key(host string, q *Query) uint64 {
	switch {
	case r.Spread == ByWeight:
		return mix(q.Random)
	case r.Spread == ByKey && q.Sticky != "":
		return hashName(q.Sticky)
	case r.Spread == ByClient, r.Spread == ByKey:
		return addrKey(r.clientPrefix(q.Client))
	}
	return r.objectKey(host, q.Path, q.RawQuery)
}

func (s *State) explainSpread(q *Query, r *rules, from []uint32, d *Decision, shared int) {
	first := d.ranks[0].which
	name := s.policy.surrogates[first].Name
	switch {
	case len(d.ranks) == 1:
		d.because("only %s can serve", name)
	case r.Spread == ByClient, r.Spread == ByKey && q.Sticky == "":
		d.because("client %s -> %s", clientText(r.clientPrefix(q.Client)), name)
	case r.Spread == ByKey:
		d.because("key %s -> %s", clip(q.Sticky), name)
	case r.Spread == ByWeight:
		d.because("weight %d of %d -> %s", s.surrogates[first].weight, s.weights(d.ranks), name)
	case r.Spread == ByNearest && distance(from, first) < Far:
		d.because("measured distance %d -> %s", distance(from, first), name)
	case r.Spread == ByLoad:
		d.because("fewest sessions for its weight, %d for %d -> %s", s.surrogates[first].sessions, s.surrogates[first].weight, name)
	case shared > 1:
		names := make([]string, shared)
		for i := range names {
			names[i] = s.policy.surrogates[d.ranks[i].which].Name
		}
		slices.Sort(names)
		d.because("hash of %s -> %s", clip(r.objectName(q.Path, q.RawQuery)), strings.Join(names, ", "))
		d.because("of these, client %s -> %s", clientText(r.clientPrefix(q.Client)), name)
	default:
		d.because("hash of %s -> %s", clip(r.objectName(q.Path, q.RawQuery)), name)
	}
}

func (s *State) weights(ranks []rank) (sum int) {
	for _, r := range ranks {
		sum += s.surrogates[r.which].weight
	}
	return sum
}

// clip shortens what strangers send.
func clip(s string) string {
	if len(s) > 200 {
		s = s[:197] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
