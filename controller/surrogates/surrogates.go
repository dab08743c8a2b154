// Package surrogates has what a controller knows of its surrogates: what checks, operators and handoffs say of each, how far each is from a client,
// and by the policy which one serves a request.
package surrogates

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"baton/api"
	"baton/document"
	"baton/policy"
)

// Surrogate is a surrogate of the configuration. The policy has its site, weight and state.
type Surrogate struct {
	Name    string
	Address netip.AddrPort // where request routers connect to
	Host    string         // for the Host field of requests; "": unchanged
}

// Options configure a set. Policy is required; zero fields have defaults.
type Options struct {
	Policy     *policy.Policy
	Surrogates []Surrogate // each is one of the policy's
	// Hops is the number of links between a client and a surrogate, false if one of them is not known.
	Hops func(client, surrogate netip.Addr) (int, bool)
	// Save keeps what an operator has changed of a surrogate. Its error is the operator's answer, and nothing is changed.
	Save func(Change) error
	// Publish gets what has changed. It must not wait.
	Publish func(topic api.ControllerTopic, value any)
	Log     *slog.Logger
	Now     func() time.Time // default: time.Now
	Kept    int              // decisions that are remembered; default: 1,000
	// Suspect is how many handoffs in a row must fail, or sessions in a row stay without an answer, to set a surrogate aside for Aside, whatever its
	// checks say. Defaults: 5, 10 s.
	Suspect int
	Aside   time.Duration
}

// Change is what operators have changed of a surrogate; nil fields: nothing.
type Change struct {
	Name        string
	Weight      *int
	Maintenance *bool
}

// Set has the surrogates of a controller. Its methods may be called concurrently.
type Set struct {
	o   Options
	log *policy.Log

	setting sync.Mutex // serializes operators' changes: saving one may take a second, and decisions do not wait for it

	mu    sync.Mutex
	all   []*member // in the order of the configuration
	state *policy.State
	until time.Time // when a surrogate that was set aside is no longer, and state is out of date; zero: never
}

type member struct {
	Surrogate
	site     string
	weight   int   // of the configuration
	idle     bool  // in maintenance by the configuration
	failure  error // of the last check that counted
	change   Change
	sessions int
	handoffs uint64
	legs     int
	row      int       // handoffs that have failed in a row
	silent   int       // sessions in a row without an answer
	aside    time.Time // until then it gets none
	because  string    // why it was set aside
	recent   [window]uint16
	second   int64 // of the newest in recent
}

// window is over how many seconds a rate is taken.
const window = 10

// New returns the set of a configuration. All are up until a check has failed.
func New(o Options) (*Set, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Publish == nil {
		o.Publish = func(api.ControllerTopic, any) {}
	}
	if o.Save == nil {
		o.Save = func(Change) error { return nil }
	}
	if o.Hops == nil {
		o.Hops = func(netip.Addr, netip.Addr) (int, bool) { return 0, false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kept <= 0 {
		o.Kept = 1000
	}
	if o.Suspect <= 0 {
		o.Suspect = 5
	}
	if o.Aside <= 0 {
		o.Aside = 10 * time.Second
	}
	s := &Set{o: o, log: policy.NewLog(o.Kept)}
	for _, u := range o.Surrogates {
		of, site := o.Policy.Surrogate(u.Name)
		if of == nil {
			return nil, fmt.Errorf("surrogate %s is at no site of the policy", u.Name)
		}
		s.all = append(s.all, &member{Surrogate: u, site: site.Name, weight: of.Weight, idle: of.Maintenance})
	}
	s.refresh()
	return s, nil
}

// refresh makes the snapshot that decisions are made from. The lock is held, or nobody else has the set.
func (s *Set) refresh() {
	now := s.o.Now()
	seen := map[string]policy.Observed{}
	s.until = time.Time{}
	for _, m := range s.all {
		if now.Before(m.aside) && (s.until.IsZero() || m.aside.Before(s.until)) {
			s.until = m.aside
		}
		o := policy.Observed{Maintenance: m.change.Maintenance, Weight: m.change.Weight, Sessions: m.sessions}
		if err := m.down(now); err != nil {
			o.Down, o.Error = true, err.Error()
		}
		seen[m.Name] = o
	}
	s.state = s.o.Policy.State(s.state, seen, nil)
}

// down is why a surrogate gets no clients; nil: it does.
func (m *member) down(now time.Time) error {
	if m.failure == nil && now.Before(m.aside) {
		return errors.New(m.because)
	}
	return m.failure
}

func (s *Set) find(name string) *member {
	i := slices.IndexFunc(s.all, func(m *member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

// Request is a request for which a surrogate is chosen.
type Request struct {
	Client netip.Addr
	Host   string
	Target string   // of the request: path and query
	Among  []string // the surrogates that can take it; the others count as down
}

// ErrNone: no surrogate can serve.
var ErrNone = errors.New("no surrogate can serve")

// Choose returns the surrogate for a request, and keeps the decision in the log.
func (s *Set) Choose(r Request) (Surrogate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.until.IsZero() && !s.o.Now().Before(s.until) {
		s.refresh()
	}
	path, query, _ := strings.Cut(r.Target, "?")
	q := policy.Query{Client: policy.Whole(r.Client), Host: r.Host, Path: path, RawQuery: query, Random: rand.Uint64(), Want: len(s.all), Distances: s.distances(r.Client)}
	d := s.state.Explain(&q)
	var without []string
	d.Choices = slices.DeleteFunc(d.Choices, func(c policy.Choice) bool {
		if slices.Contains(r.Among, c.Surrogate.Name) {
			return false
		}
		without = append(without, c.Surrogate.Name)
		return true
	})
	if len(without) > 0 {
		d.Because = append(d.Because, "no ready leg to "+strings.Join(without, ", "))
	}
	record := d.Record(s.o.Now(), "handoff", &q)
	s.log.Add(record)
	s.o.Publish(api.TopicDecisions, record)
	if len(d.Choices) == 0 {
		return Surrogate{}, fmt.Errorf("%w: %s", ErrNone, strings.Join(d.Because, "; "))
	}
	return s.find(d.Choices[0].Surrogate.Name).Surrogate, nil
}

// distances are the hops from a client to the policy's surrogates; nil: none is known.
func (s *Set) distances(client netip.Addr) []uint32 {
	var all []uint32
	for _, m := range s.all {
		hops, ok := s.o.Hops(client, m.Address.Addr())
		i := s.o.Policy.Index(m.Name)
		if !ok || i < 0 {
			continue
		}
		for len(all) <= i {
			all = append(all, policy.Far)
		}
		all[i] = uint32(hops)
	}
	return all
}

// Checked takes the outcome of a surrogate's check that counts: nil, or why it is down.
func (s *Set) Checked(name string, err error) {
	s.update(name, func(m *member) {
		if (m.failure == nil) != (err == nil) {
			s.o.Log.Info("a surrogate's health has changed", "surrogate", name, "up", err == nil, "err", err)
		}
		m.failure = err
	})
}

// Failed takes a handoff that the surrogate is to blame for. A surrogate whose checks succeed and whose handoffs fail is set aside for a while.
func (s *Set) Failed(name string) {
	s.update(name, func(m *member) {
		if m.row++; m.row >= s.o.Suspect {
			s.setAside(m, fmt.Sprintf("%d handoffs in a row have failed", m.row))
		}
	})
}

// Heard takes whether a surrogate that has acknowledged a session's request has begun to answer it in time. One that does not answer is set aside, too.
func (s *Set) Heard(name string, answered bool) {
	if answered {
		s.mu.Lock()
		defer s.mu.Unlock()
		if m := s.find(name); m != nil {
			m.silent = 0
		}
		return
	}
	s.update(name, func(m *member) {
		if m.silent++; m.silent >= s.o.Suspect {
			s.setAside(m, fmt.Sprintf("%d requests in a row were acknowledged and not answered", m.silent))
		}
	})
}

// setAside has a surrogate get no clients for a while. The lock is held.
func (s *Set) setAside(m *member, because string) {
	m.aside, m.because = s.o.Now().Add(s.o.Aside), because
	s.o.Log.Warn("a surrogate is set aside", "surrogate", m.Name, "because", because, "for", s.o.Aside)
}

// Served takes a handoff that is complete.
func (s *Set) Served(name string) {
	s.update(name, func(m *member) {
		m.row = 0
		m.handoffs++
		m.count(s.o.Now().Unix())
	})
}

// Loaded takes how many sessions each surrogate has, and how many legs are ready to each.
func (s *Set) Loaded(sessions, legs map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for _, m := range s.all {
		changed := m.sessions != sessions[m.Name] || m.legs != legs[m.Name]
		m.sessions, m.legs = sessions[m.Name], legs[m.Name]
		if changed {
			s.o.Publish(api.TopicSurrogates, m.described(now))
		}
	}
	s.refresh()
}

// update changes a surrogate, and publishes it.
func (s *Set) update(name string, change func(*member)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(name); m != nil {
		change(m)
		s.refresh()
		s.o.Publish(api.TopicSurrogates, m.described(s.o.Now()))
	}
}

// count adds a handoff of a second (Unix time).
func (m *member) count(second int64) {
	m.forget(second)
	m.recent[second%window]++
}

// forget empties the seconds that are over.
func (m *member) forget(second int64) {
	for m.second < second {
		m.second = max(m.second+1, second-window+1)
		m.recent[m.second%window] = 0
	}
}

// rate is handoffs a second.
func (m *member) rate(now time.Time) float64 {
	m.forget(now.Unix())
	var sum int
	for _, n := range m.recent {
		sum += int(n)
	}
	return float64(sum) / window
}

// List returns all surrogates, in the order of the configuration.
func (s *Set) List() []api.ControllerSurrogate {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	list := make([]api.ControllerSurrogate, 0, len(s.all))
	for _, m := range s.all {
		list = append(list, m.described(now))
	}
	return list
}

// Decisions are the last ones, the oldest first.
func (s *Set) Decisions() []api.RoutingDecision { return s.log.Last(0) }

// Rates are the handoffs a second, by surrogate.
func (s *Set) Rates() map[string]float64 {
	rates := map[string]float64{}
	for _, u := range s.List() {
		rates[u.Name] = u.Rate
	}
	return rates
}

func (m *member) described(now time.Time) api.ControllerSurrogate {
	u := api.ControllerSurrogate{Name: m.Name, Site: m.site, Address: m.Address, Up: true, State: api.InService, Weight: m.weight,
		Sessions: m.sessions, Handoffs: m.handoffs, Legs: m.legs, Rate: m.rate(now)}
	if err := m.down(now); err != nil {
		u.Up, u.Error = false, err.Error()
	}
	idle := m.idle
	if m.change.Maintenance != nil {
		idle = *m.change.Maintenance
	}
	if idle {
		u.State = api.Maintenance
	}
	if m.change.Weight != nil {
		u.Weight = *m.change.Weight
	}
	return u
}

// maxWeight is the bound of the policy's weights.
const maxWeight = 1 << 16

// Set carries out an operator's change, and returns the surrogate.
func (s *Set) Set(name string, c api.ControllerSurrogateChange) (api.ControllerSurrogate, error) {
	s.setting.Lock()
	defer s.setting.Unlock()
	next, err := s.next(name, c)
	if err == nil {
		err = s.o.Save(next)
	}
	if err != nil {
		return api.ControllerSurrogate{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(name)
	m.change = next
	s.refresh()
	u := m.described(s.o.Now())
	s.o.Publish(api.TopicSurrogates, u)
	s.o.Log.Info("an operator has changed a surrogate", "surrogate", name, "weight", u.Weight, "state", u.State)
	return u, nil
}

// next is what is changed of a surrogate after one more change.
func (s *Set) next(name string, c api.ControllerSurrogateChange) (Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(name)
	if m == nil {
		return Change{}, fmt.Errorf("surrogate %q: %w (%s)", name, api.ErrNotFound, document.Meant(name, s.names()))
	}
	next := m.change
	next.Name = name
	if c.Weight != nil {
		if *c.Weight < 0 || *c.Weight > maxWeight {
			return Change{}, fmt.Errorf("weight %d: %w: use 0 to %d", *c.Weight, api.ErrInvalid, maxWeight)
		}
		next.Weight = c.Weight
	}
	if c.State != nil {
		if *c.State != api.InService && *c.State != api.Maintenance {
			return Change{}, fmt.Errorf("state %q: %w: use %s or %s", *c.State, api.ErrInvalid, api.InService, api.Maintenance)
		}
		idle := *c.State == api.Maintenance
		next.Maintenance = &idle
	}
	return next, nil
}

// Changed takes all changes of operators anew: those of before, or what another controller has saved. Surrogates without one are as configured.
func (s *Set) Changed(changes []Change) {
	by := map[string]Change{}
	for _, c := range changes {
		by[c.Name] = c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		m.change = by[m.Name]
	}
	s.refresh()
	for _, m := range s.all {
		s.o.Publish(api.TopicSurrogates, m.described(s.o.Now()))
	}
}

func (s *Set) names() []string {
	names := map[string]bool{}
	for _, m := range s.all {
		names[m.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
