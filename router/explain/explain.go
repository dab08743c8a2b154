// Package explain answers "which surrogate would this request get, and why" by the same steps and code as for
// requests (head, route, choose). It is pure; the state of a running router comes in as Health.
package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"baton/router/choose"
	"baton/router/config"
	"baton/router/head"
	"baton/router/route"
)

// Question is the request to explain.
type Question struct {
	Method  string         // "" for GET
	URL     string         // http://host[:port]/path?query; the scheme may be left out; https: a session of TLS, by the host alone
	ALPN    []string       // protocols that its hello offers; nil: h2 and http/1.1
	VIP     netip.AddrPort // zero: by the URL's address, else the first VIP with the URL's port
	Client  netip.Addr     // zero: unknown, so in no zone
	Headers []string       // "Name: value", as sent by the client
	Head    []byte         // of the request, as sent: instead of Method, URL and Headers; VIP must be given
	// Shared returns the snapshot of a pool's policy of a file; nil: one is made of the surrogates' health.
	Shared func(*config.Pool) *choose.Shared
}

// Health is the state of a surrogate.
type Health struct {
	Up       bool
	Draining bool
	Local    bool   // on the router's own host
	Why      string // why Up is false, for people; may be ""
	Sessions int    // current; -1: unknown
}

// AllUp is the assumed health of surrogates when no router runs.
func AllUp(string) Health { return Health{Up: true, Sessions: -1} }

// Explanation is the decision on a request, in the order of the steps; fields of steps not reached are zero.
type Explanation struct {
	Request string `json:"request"` // method, target and host, as parsed by the router
	Client  string `json:"client,omitempty"`

	VIP        string            `json:"vip,omitempty"`
	Mode       config.Mode       `json:"mode,omitempty"`
	Pipelining config.Pipelining `json:"pipelining,omitempty"` // in mode handoff

	Missed     []Missed `json:"missed,omitempty"`      // the first routes that did not match
	MissedMore int      `json:"missed_more,omitempty"` // how many more did not
	Route      *Route   `json:"route,omitempty"`

	Pool       string        `json:"pool,omitempty"`
	Policy     config.Policy `json:"policy,omitempty"`
	Reuse      config.Reuse  `json:"reuse,omitempty"`     // in mode handoff
	Key        string        `json:"key,omitempty"`       // input of the policy: hash and slot, or zone
	Rewritten  string        `json:"rewritten,omitempty"` // the request's target and host as the surrogate gets them, if they change
	Fields     []string      `json:"fields,omitempty"`    // that the surrogate gets in the request
	Reasons    []string      `json:"reasons,omitempty"`   // of a policy of a file
	Candidates []Candidate   `json:"candidates,omitempty"`
	Chosen     []string      `json:"chosen,omitempty"` // one, or those in turn
	Action     string        `json:"action,omitempty"` // what happens to the session
	Status     int           `json:"status,omitempty"` // of the router's own response, 0 if a surrogate answers
	Alert      string        `json:"alert,omitempty"`  // of TLS, by which the router refuses the session
	Reason     string        `json:"reason,omitempty"` // of Status or Alert
	Decides    string        `json:"decides"`          // "kernel" or "user space"
	Because    string        `json:"because"`          // why this one
}

// Missed is a route that did not match, with the condition that failed.
type Missed struct {
	Line int    `json:"line"` // in the file
	Why  string `json:"why"`
}

// Route is the route that matched.
type Route struct {
	Index int    `json:"index"` // in the VIP's routes, from 0
	Line  int    `json:"line"`  // in the file
	Match string `json:"match"` // its conditions
}

// Candidate is a surrogate of the pool.
type Candidate struct {
	Name     string  `json:"name"`
	Address  string  `json:"address"`
	Origin   string  `json:"origin,omitempty"` // where it is from, unless it is the file
	Weight   int     `json:"weight"`
	Sessions int     `json:"sessions"`           // -1: unknown
	Share    float64 `json:"share"`              // of the slots that this request could get, 0 to 1
	Excluded string  `json:"excluded,omitempty"` // why it is not available
}

// Rules are a configuration and its compiled routes, which a running router has already.
type Rules struct {
	Config *config.Config
	Routes *route.Table
	Kernel *route.Kernel // what the kernel looks up
}

// Compile compiles a configuration for a router that does not run.
func Compile(cfg *config.Config) (*Rules, error) {
	table, err := route.Compile(cfg)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return &Rules{Config: cfg, Routes: table, Kernel: table.Kernel(route.RoomFor(cfg))}, nil
}

// Explain explains the decision on a request. A request that the router would refuse is explained by its Status; an
// invalid question, such as a URL of another scheme, is an error. The time does not grow with the number of hosts.
func (r *Rules) Explain(q Question, health func(surrogate string) Health) (*Explanation, error) {
	cfg, table := r.Config, r.Routes
	raw, authority, err := q.bytes()
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	e := &Explanation{Request: q.firstLine(), Decides: userSpace}
	if q.Client.IsValid() {
		e.Client = q.Client.String()
	}
	vip, err := q.vip(cfg, authority)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	e.VIP, e.Mode = cfg.VIPs[vip].Address.String(), cfg.VIPs[vip].Mode
	if cfg.VIPs[vip].Protocol.Encrypted() {
		e.hello(&helloed{Rules: r, vip: vip, health: health}, &q, authority)
		return e, nil
	}
	if e.Mode == config.Handoff {
		e.Pipelining = cfg.VIPs[vip].Pipelining
	}

	req, size, err := head.Parse(raw)
	var refused *head.Error
	switch {
	case errors.As(err, &refused):
		e.end(refused.Status, refused.Reason, "the request is refused before it is routed")
		return e, nil
	case err != nil:
		return nil, fmt.Errorf("explain: %w", err)
	}
	e.Request = fmt.Sprintf("%s %s, host %s", req.Method, req.Target, req.Host)

	e.addMisses(table.Misses(vip, &req, mostMissed))
	matched, ok := table.Match(vip, &req)
	if !ok {
		e.end(404, "no route matches", "no route matches")
		return e, nil
	}
	e.Route = &Route{Index: matched.Route, Line: matched.Line, Match: matched.Reason}
	a := &routed{Rules: r, vip: vip, req: &req, size: size, pool: matched.Pool, rewrite: matched.Rewrite, health: health}
	pool := &cfg.Pools[matched.Pool]
	if pool.Shared != nil {
		s := q.shared(pool, health)
		e.decider(a, why(s, q.Client))
		e.chooseShared(&cfg.VIPs[vip], pool, s, choose.Question(pool.Shared, &req, q.Client), health)
		e.introduce(a, q.Client)
		return e, nil
	}
	e.decider(a, "")
	what := "path"
	if _, ok := choose.HashQuery(req.Query, pool.HashQuery); ok {
		what = "query parameters " + strings.Join(pool.HashQuery, ", ")
	}
	e.choose(&cfg.VIPs[vip], pool, &hashed{choose.Hash(req.Path, req.Query, pool.HashQuery), what}, q.Client, health)
	e.introduce(a, q.Client)
	return e, nil
}

// Values of DecidedBy.
const (
	inKernel  = "kernel"
	userSpace = "user space"
)

// spliced is the usual Action.
const spliced = "spliced"

func (e *Explanation) end(status int, reason, because string) {
	e.Status, e.Reason, e.Because = status, reason, because
	e.Action = fmt.Sprintf("the router answers %d", status)
}

// mostMissed is how many routes that did not match are named: a VIP may have 100,000.
const mostMissed = 10

func (e *Explanation) addMisses(first []route.Miss, count int) {
	for _, m := range first {
		e.Missed = append(e.Missed, Missed{Line: m.Line, Why: m.Why})
	}
	e.MissedMore = count - len(first)
}

// routed is a request with its route.
type routed struct {
	*Rules
	vip     int
	req     *head.Request
	size    int // of the head, in bytes
	pool    int
	rewrite config.Rewrite
	health  func(surrogate string) Health
}

// decider explains whether the kernel or user space decides, by the rules from which the kernel's tables are made.
// aside is one more reason for user space.
func (e *Explanation) decider(a *routed, aside string) {
	vip, pool := &a.Config.VIPs[a.vip], &a.Config.Pools[a.pool]
	entry := a.Kernel.Lookup(a.vip, a.req)
	for _, why := range []string{
		onSocket(vip),
		route.Unread(a.req, a.size),
		a.unfit(),
		entry.Why,
		a.Routes.Unchosen(a.pool, pool, func(name string) bool { return a.health(name).Local }),
		route.Unhashed(pool, a.req.Path),
		aside,
	} {
		if why != "" {
			e.Because = why
			return
		}
	}
	e.Decides, e.Because = inKernel, fmt.Sprintf("host and path are in its tables, by prefix %q", entry.Prefix)
}

// onSocket is the reason for which clients of a VIP go to its socket, "" if the kernel handles them first.
func onSocket(v *config.VIP) string {
	switch {
	case v.Mode != config.Handoff && v.Protocol.Encrypted():
		return fmt.Sprintf("mode %s reads hellos from a socket", v.Mode)
	case v.Mode != config.Handoff:
		return fmt.Sprintf("mode %s reads requests from a socket", v.Mode)
	case v.Address.Addr().IsLoopback():
		return "the VIP is on loopback, where a socket reads requests"
	}
	return ""
}

// hashed is the input of policy hash.
type hashed struct {
	hash uint64
	what string // it is of
}

func (e *Explanation) choose(v *config.VIP, p *config.Pool, h *hashed, client netip.Addr, health func(string) Health) {
	e.Pool, e.Policy = p.Name, p.Policy
	if v.Mode == config.Handoff && !v.Protocol.Encrypted() {
		e.Reuse = p.Reuse
	}
	states := make([]Health, 0, len(p.Surrogates))
	candidates := choose.Candidates(p, func(name string) (bool, bool) {
		h := health(name)
		states = append(states, h)
		return h.Up, h.Draining
	})
	slots := choose.Table(p.Policy, candidates)
	turns := slots // slots that this request could get
	switch p.Policy {
	case config.Hash:
		e.Key = fmt.Sprintf("hash %016x of the %s", h.hash, h.what)
		if i, ok := choose.Slot(slots, h.hash); ok {
			turns = []uint16{i}
		}
	case config.Nearest:
		e.Key = "client in no zone"
		if !client.IsValid() {
			e.Key = "no client given, so in no zone"
		} else if z := choose.ZoneOf(p.Nearest, client); z >= 0 {
			e.Key = "zone " + p.Nearest[z].Prefix.String()
			turns = choose.Nearest(p.Nearest, candidates)[z].Table
		}
	case config.LeastSessions:
		turns = fewest(slots, states)
	}

	shares := make([]float64, len(candidates))
	for _, i := range turns {
		shares[i] += 1 / float64(len(turns))
	}
	excluded := make([]string, len(candidates))
	for i := range candidates {
		if excluded[i] = candidates[i].Excluded(); excluded[i] == "down" && states[i].Why != "" {
			excluded[i] += ": " + states[i].Why
		}
	}
	e.outcome(v, p, states, shares, excluded)
}

// outcome is what becomes of a request whose surrogates have these shares of such requests.
func (e *Explanation) outcome(v *config.VIP, p *config.Pool, states []Health, shares []float64, excluded []string) {
	for i, s := range p.Surrogates {
		c := Candidate{Name: s.Name, Address: s.Address.String(), Origin: s.Origin, Weight: s.Weight, Sessions: states[i].Sessions, Share: shares[i], Excluded: excluded[i]}
		if c.Share > 0 {
			e.Chosen = append(e.Chosen, s.Name)
			e.Action = action(v, p, &s, states[i])
		}
		e.Candidates = append(e.Candidates, c)
	}
	switch len(e.Chosen) {
	case 0:
		if v.Protocol.Encrypted() {
			e.refuse("no surrogate of the pool can be chosen", "internal_error", e.Because)
			return
		}
		e.end(503, "no surrogate of the pool can be chosen", e.Because)
	case 1:
	default:
		e.Action = actionOfSeveral(v, p, states, e.Chosen)
	}
}

// fewest returns the slots whose surrogates have the fewest sessions; all if the numbers are unknown.
func fewest(slots []uint16, states []Health) []uint16 {
	var out []uint16
	for _, i := range slots {
		n := states[i].Sessions
		if n < 0 {
			return slots
		}
		if len(out) > 0 && n < states[out[0]].Sessions {
			out = out[:0]
		}
		if len(out) == 0 || n == states[out[0]].Sessions {
			out = append(out, i)
		}
	}
	return out
}

func action(v *config.VIP, p *config.Pool, s *config.Surrogate, h Health) string {
	switch {
	case v.Mode == config.Redirect && s.Public != "":
		return "redirected to " + s.Public
	case v.Mode == config.Redirect:
		return "redirected to http://" + s.Address.String()
	case v.Mode == config.Proxy:
		return "proxied"
	}
	if why := config.Unspliced(v, s); why != "" {
		return "proxied: " + why
	}
	if p.Keeps() && h.Local {
		return "refused: the surrogate is on this host, and cannot be reached from the client's address"
	}
	if p.Keeps() {
		return "spliced, from the client's address and port"
	}
	if h.Local {
		return "proxied: the surrogate is on this host"
	}
	return spliced
}

// actionOfSeveral is the action for surrogates in turn: the same for all, or it depends.
func actionOfSeveral(v *config.VIP, p *config.Pool, states []Health, names []string) string {
	if v.Mode == config.Redirect {
		return "redirected to the surrogate"
	}
	actions := make(map[string]bool)
	var last string
	for i := range p.Surrogates {
		for _, name := range names {
			if p.Surrogates[i].Name == name {
				last = action(v, p, &p.Surrogates[i], states[i])
				actions[last] = true
			}
		}
	}
	if len(actions) == 1 {
		return last
	}
	return "spliced or proxied, by the surrogate"
}
