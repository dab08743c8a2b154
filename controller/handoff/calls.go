package handoff

import (
	"context"
	"maps"
	"slices"
	"time"

	"baton/api"
	"baton/controller/northbound"
	"baton/controller/sessions"
)

// Calls returns the calls of request routers.
func (m *Manager) Calls() northbound.Calls {
	return northbound.Calls{Hello: m.hello, SetRequestSize: m.setRequestSize, GetMatchingSession: m.getMatchingSession, Proxied: m.proxied, Gone: m.routerGone}
}

func (m *Manager) hello(_ context.Context, c northbound.Caller, hello api.ControllerHello) (api.ControllerWelcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.index.services[hello.Service] {
		return api.ControllerWelcome{}, api.ControllerErrorf(api.ControllerNotFound, "%v is no service of this controller", hello.Service)
	}
	m.routers[c.Connection] = hello
	w := api.ControllerWelcome{Strip: m.o.Strip}
	for _, s := range m.index.Surrogates {
		w.Surrogates = append(w.Surrogates, api.ControllerSurrogate{Name: s.Name, Address: s.Address, Up: true, State: api.InService, Legs: m.legs(s)})
	}
	return w, nil
}

// routerGone undoes what a request router had begun.
func (m *Manager) routerGone(c northbound.Caller) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.routers, c.Connection)
	for _, h := range m.handoffs {
		if h.router == c.Connection && h.stage < committing {
			m.fail(h, failure{"router-gone", "the request router has lost its connection to the controller"})
		}
	}
}

// session returns a session of the caller's service. The lock is held.
func (m *Manager) session(c northbound.Caller, key api.ControllerSessionKey) (*sessions.Session, error) {
	hello, ok := m.routers[c.Connection]
	if !ok {
		return nil, api.ControllerErrorf(api.ControllerConflict, "say hello first")
	}
	if hello.Service != key.Service {
		return nil, api.ControllerErrorf(api.ControllerForbidden, "%v is not the service of %s", key.Service, hello.Name)
	}
	s := m.table.Session(sessions.Way{From: key.Client, To: key.Service})
	if s == nil || s.Kind != sessions.Client || s.Closed() {
		return nil, api.ControllerErrorf(api.ControllerNotFound, "there is no session of %v with %v", key.Client, key.Service)
	}
	return s, nil
}

func (m *Manager) setRequestSize(_ context.Context, c northbound.Caller, p api.ControllerRequestSize) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.Leg.Local.IsValid() {
		return m.legSize(c, p)
	}
	s, err := m.session(c, api.ControllerSessionKey{Client: p.Client, Service: p.Service})
	if err != nil {
		return err
	}
	have := s.Opener.Bytes()
	switch {
	case m.byClient[s] != nil || s.Proxied || s.State != api.ControllerEstablished:
		return api.ControllerErrorf(api.ControllerConflict, "the session is %s", s.State)
	case have < p.Size:
		return api.ControllerErrorf(api.ControllerConflict, "the client has sent %d bytes", have)
	case have > p.Size || s.Opener.Finished:
		return api.ControllerErrorf(api.ControllerConflict, "the client has sent more than its request: %d bytes", have)
	}
	m.begin(s, c.Connection, p)
	return nil
}

// begin begins a handoff: what the client sends from here on belongs to the surrogate. The lock is held.
func (m *Manager) begin(s *sessions.Session, router uint64, p api.ControllerRequestSize) {
	ctx, expire := context.WithTimeoutCause(m.ctx, m.o.Patience, failure{"timeout", "the handoff takes too long"})
	ctx, cancel := context.WithCancelCause(ctx)
	h := &handoff{id: m.number(), client: s, router: router, host: p.Host, size: p.Size, cancel: cancel,
		ready: make(chan struct{}), answer: make(chan struct{})}
	h.record = api.ControllerHandoff{ID: uint64(h.id), Client: s.From, Service: s.To, Request: p.Request, Began: s.Since, Steps: slices.Clone(s.Trail)}
	m.handoffs[h.id], m.byClient[s] = h, h
	m.remembered(h)
	s.Held, s.Handoff, s.State = true, uint64(h.id), api.ControllerRequested
	m.table.Hurry(s)
	m.counts.Began++
	h.step("call", "router", "controller", "setrequestsize %d", p.Size)
	h.step("flow-mod", "controller", "router's switch", "flow mod 1")
	// No barrier: what still comes from the router is dropped here.
	m.send(s.Other.At.Switch, firstBlock(h.id, s.Other.At, tupleOf(s.Back())))
	m.publish(s)
	m.run.Go(func() {
		defer expire()
		m.follow(ctx, h)
	})
}

func (m *Manager) legSize(c northbound.Caller, p api.ControllerRequestSize) error {
	leg := m.table.Session(sessions.Way{From: p.Leg.Local, To: p.Leg.Remote})
	h := m.byLeg[leg]
	if leg == nil || h == nil || h.router != c.Connection {
		return api.ControllerErrorf(api.ControllerNotFound, "the leg %v was not chosen", p.Leg.Local)
	}
	if h.stage != chosen || h.legs != 0 {
		return api.ControllerErrorf(api.ControllerConflict, "the leg is not waiting for a request")
	}
	h.legs = p.Size
	h.step("call", "router", "controller", "setrequestsize %d", p.Size)
	m.complete(h)
	return nil
}

func (m *Manager) getMatchingSession(ctx context.Context, c northbound.Caller, key api.ControllerSessionKey) (api.ControllerMatch, error) {
	m.mu.Lock()
	s, err := m.session(c, key)
	if err != nil {
		m.mu.Unlock()
		return api.ControllerMatch{}, err
	}
	h := m.byClient[s]
	if h == nil || h.stage != reported {
		m.mu.Unlock()
		return api.ControllerMatch{}, api.ControllerErrorf(api.ControllerConflict, "the size of the request is to be reported first, once")
	}
	q := Request{Client: s.From, Service: s.To, Host: h.host, Request: h.record.Request}
	m.mu.Unlock()
	if q.Ready = m.ready(ctx, s); len(q.Ready) == 0 {
		return m.refuse(h, "no-leg", "the request router has no leg that fits the session")
	}
	name, err := m.o.Choose(q)
	if err != nil {
		return m.refuse(h, "no-surrogate", err.Error())
	}
	m.mu.Lock()
	g := m.index.names[name]
	fit, _ := m.fitting(s)
	leg := fit[name] // another session may have taken that of before
	if g == nil || leg == nil || h.stage != reported {
		m.mu.Unlock()
		return m.refuse(h, "no-leg", "the request router has no leg to "+name+" any more")
	}
	defer m.mu.Unlock()
	leg.Leg, h.leg, h.stage = sessions.Chosen, leg, chosen
	m.byLeg[leg] = h
	h.record.Surrogate, h.record.Leg = name, api.RouterLeg{Local: leg.From, Remote: leg.To}
	h.step("call", "controller", "router", "getmatchingsess: %s", name)
	return api.ControllerMatch{Surrogate: name, Host: g.Host, Leg: h.record.Leg}, nil
}

// legWait is how long a session waits for a leg if its request router has none at all: more sessions have come at once than the router keeps legs.
const legWait = 250 * time.Millisecond

// ready returns the surrogates to which a session's request router has a leg that fits.
func (m *Manager) ready(ctx context.Context, s *sessions.Session) (names []string) {
	late := time.After(legWait)
	for {
		m.mu.Lock()
		fit, idle := m.fitting(s)
		for _, g := range m.index.Surrogates {
			if fit[g.Name] != nil {
				names = append(names, g.Name)
			}
		}
		opened := m.opened
		m.mu.Unlock()
		if len(names)+idle > 0 {
			return names
		}
		select {
		case <-opened:
		case <-late:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Manager) refuse(h *handoff, kind, text string) (api.ControllerMatch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail(h, failure{kind, text})
	return api.ControllerMatch{}, api.ControllerErrorf(api.ControllerUnavailable, "%s", text)
}

// fitting returns a leg to each surrogate that the session can be joined to: of the same request router, and the youngest, as surrogates close
// the old ones; and how many idle legs the router has. The lock is held.
func (m *Manager) fitting(s *sessions.Session) (best map[string]*sessions.Session, idle int) {
	best = map[string]*sessions.Session{}
	client := s.ToRouter()
	for _, leg := range m.idle() {
		g := m.index.surrogates[leg.To]
		if g == nil || leg.Opener.At != s.Other.At || leg.Opener.MAC != s.Other.MAC {
			continue
		}
		idle++
		if have := best[g.Name]; have != nil && !leg.Since.After(have.Since) {
			continue
		}
		if (Pair{Client: client, Leg: leg.ToRouter()}).Fit() == nil {
			best[g.Name] = leg
		}
	}
	return best, idle
}

// idle returns the legs that wait for a session. The lock is held.
func (m *Manager) idle() (all []*sessions.Session) {
	m.table.Legs(func(s *sessions.Session) {
		if s.Leg == sessions.Idle && !s.Closed() && !s.Other.Finished && !s.Opener.Finished {
			all = append(all, s)
		}
	})
	return all
}

func (m *Manager) legs(g Surrogate) (n int) {
	for _, leg := range m.idle() {
		if leg.To == g.Address {
			n++
		}
	}
	return n
}

func (m *Manager) proxied(_ context.Context, c northbound.Caller, p api.ControllerProxied) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.session(c, api.ControllerSessionKey{Client: p.Client, Service: p.Service})
	if err != nil {
		return err
	}
	if h := m.byClient[s]; h != nil {
		if h.stage >= committing && h.stage != undone {
			return api.ControllerErrorf(api.ControllerConflict, "the session is being handed over")
		}
		m.fail(h, failure{"proxied", "the request router serves the session itself: " + p.Why})
	}
	s.Proxied = true
	m.table.Hurry(s)
	m.pass(s)
	return nil
}

// Sessions returns the clients' sessions.
func (m *Manager) Sessions() []api.ControllerSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []api.ControllerSession
	m.table.All(func(s *sessions.Session) bool {
		if s.Kind == sessions.Client {
			all = append(all, m.described(s))
		}
		return true
	})
	slices.SortFunc(all, func(a, b api.ControllerSession) int {
		if c := a.Client.Compare(b.Client); c != 0 {
			return c
		}
		return a.Service.Compare(b.Service)
	})
	return all
}

// Handoffs returns the latest handoffs, the oldest first.
func (m *Manager) Handoffs() []api.ControllerHandoff {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]api.ControllerHandoff, 0, len(m.history))
	for _, h := range m.history {
		all = append(all, h.described())
	}
	return all
}

// Load is what a surrogate has: sessions that were handed to it and are not over, handoffs since the start, and idle legs.
type Load struct {
	Sessions int
	Handoffs uint64
	Legs     int
}

// Loads returns those of all surrogates, by name.
func (m *Manager) Loads() map[string]Load {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]Load{}
	for _, g := range m.index.Surrogates {
		all[g.Name] = Load{Handoffs: m.counts.BySurrogate[g.Name], Legs: m.legs(g)}
	}
	for _, h := range m.handoffs {
		if l, ok := all[h.record.Surrogate]; ok {
			l.Sessions++
			all[h.record.Surrogate] = l
		}
	}
	return all
}

// Counts returns the sums.
func (m *Manager) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counts
	c.Sessions, c.Live, c.Remembered = m.table.Counts(), len(m.handoffs), len(m.history)
	c.Failed, c.BySurrogate, c.Unanswered = maps.Clone(c.Failed), maps.Clone(c.BySurrogate), maps.Clone(c.Unanswered)
	return c
}

func (h *handoff) described() api.ControllerHandoff {
	r := h.record
	r.Steps = slices.Clone(r.Steps)
	return r
}

func (m *Manager) described(s *sessions.Session) api.ControllerSession {
	c := api.ControllerSession{Client: s.From, Service: s.To, State: s.State, Since: s.Since, Handoff: s.Handoff}
	if h := m.byClient[s]; h != nil {
		c.Surrogate, c.Leg = h.record.Surrogate, h.record.Leg
	}
	return c
}
