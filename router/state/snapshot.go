package state

import (
	"net/netip"

	"baton/packet/hello"
	"baton/policy"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/head"
	"baton/router/health"
)

// Snapshot is a configuration with the known state of its surrogates at one time. It never changes: a change of a surrogate's health
// makes another of the same configuration, a reload one of another.
type Snapshot struct {
	*Compiled
	Pools []*Pool // in the order of Config.Pools
}

// Pool is a pool with its available surrogates.
type Pool struct {
	*NumberedPool
	choices
}

// choices are the available surrogates of a pool.
type choices struct {
	candidates []choose.Candidate
	table      []uint16
	zones      []choose.ZoneTable

	// Of a policy of a file. The kernel's tables are made of it instead of those above.
	shared   *choose.Shared
	tables   choose.Tables
	excluded []string // of the pool's surrogates
}

// Snapshot makes a snapshot from the surrogates' health. shared is the state of a pool's policy of a file.
func (c *Compiled) Snapshot(state func(surrogate string) health.State, shared func(*NumberedPool) *choose.Shared) *Snapshot {
	s := &Snapshot{Compiled: c}
	for _, p := range c.Numbered {
		if p.Config.Shared != nil {
			of := shared(p)
			s.Pools = append(s.Pools, &Pool{p, choices{shared: of, tables: of.Tables(), excluded: of.Excluded()}})
			continue
		}
		candidates := choose.Candidates(p.Config, func(name string) (up, draining bool) {
			h := state(name)
			return h.Up, h.Draining
		})
		s.Pools = append(s.Pools, &Pool{p, choicesOf(p.Config, candidates)})
	}
	return s
}

// choicesOf ranks candidates by the pool's own policy.
func choicesOf(p *config.Pool, candidates []choose.Candidate) choices {
	c := choices{candidates: candidates, table: choose.Table(p.Policy, candidates)}
	if p.Policy == config.Nearest {
		c.zones = choose.Nearest(p.Nearest, candidates)
	}
	return c
}

// SameConfiguration reports whether a snapshot is of the same configuration, whatever the health of its surrogates.
func (s *Snapshot) SameConfiguration(as *Snapshot) bool { return s.Compiled == as.Compiled }

// FindUsable finds a surrogate of the pool by name. False: unknown or not available.
func (p *Pool) FindUsable(name string) (at int, ok bool) {
	for i := range p.Config.Surrogates {
		if p.Config.Surrogates[i].Name != name {
			continue
		}
		if p.shared != nil {
			return i, p.excluded[i] == ""
		}
		return i, p.candidates[i].Excluded() == ""
	}
	return 0, false
}

// Question has all that a choice depends on.
type Question struct {
	Client netip.Addr
	Hash   uint64       // for policy hash
	Query  policy.Query // for a policy of a file
}

// QuestionOf returns the question for a client's request.
func (p *NumberedPool) QuestionOf(req *head.Request, client netip.Addr) Question {
	q := Question{Client: client}
	if p.Config.Shared != nil {
		q.Query = choose.Question(p.Config.Shared, req, client)
	} else {
		q.Hash = choose.Hash(req.Path, req.Query, p.Config.HashQuery)
	}
	return q
}

// QuestionOfHello returns the question for a client's hello.
func (p *NumberedPool) QuestionOfHello(h *hello.Hello, client netip.Addr) Question {
	q := Question{Client: client, Hash: hello.Hash(client, h.ServerName)}
	if p.Config.Shared != nil {
		q.Query = choose.QuestionOfHello(p.Config.Shared, h, client)
	}
	return q
}

// Choice is the result of Pick.
type Choice struct {
	At       int              // index of the surrogate in Config.Surrogates
	Bypass   string           // where to send the client if none is available; "": nowhere
	Decision *policy.Decision // how a policy of a file came to it; nil: the pool has none
}

// Pick chooses a surrogate for what user space decides. False: none is available. exclude are the names of surrogates that have been
// tried in vain, sessions counts those of a surrogate by its number.
func (p *Pool) Pick(q *Question, exclude []string, sessions func(id uint16) uint64) (Choice, bool) {
	if p.shared == nil {
		at, ok := p.pickByOwn(q, exclude, sessions)
		return Choice{At: at}, ok
	}
	d := p.shared.Decide(q.Query, len(exclude))
	at, ok := p.shared.First(&d, exclude)
	return Choice{At: at, Bypass: config.BypassURL(d.Bypass), Decision: &d}, ok
}

// pickByOwn chooses by the pool's own policy.
func (p *Pool) pickByOwn(q *Question, exclude []string, sessions func(id uint16) uint64) (int, bool) {
	c := &p.choices
	if len(exclude) > 0 {
		left := p.without(exclude)
		c = &left
	}
	var (
		at uint16
		ok bool
	)
	switch p.Config.Policy {
	case config.Hash:
		at, ok = choose.Slot(c.table, q.Hash)
	case config.LeastSessions:
		at, ok = choose.Least(c.table, p.nextTurn(), func(i uint16) uint64 { return sessions(p.IDs[i]) })
	case config.Nearest:
		table := c.table
		if z := choose.ZoneOf(p.Config.Nearest, q.Client); z >= 0 {
			table = c.zones[z].Table
		}
		at, ok = choose.Pick(table, p.nextTurn())
	default:
		at, ok = choose.Pick(c.table, p.nextTurn())
	}
	return int(at), ok
}

func (p *NumberedPool) nextTurn() uint64 { return p.turn.Add(1) - 1 }

// without are the choices that are left.
func (p *Pool) without(exclude []string) choices {
	left := append([]choose.Candidate(nil), p.candidates...)
	for i := range left {
		for _, name := range exclude {
			if left[i].Name == name {
				left[i].Up = false
			}
		}
	}
	choose.Rank(left)
	return choicesOf(p.Config, left)
}

// Public is where a redirected client finds a surrogate; "": at its address.
func (p *Pool) Public(at int) string {
	sg := &p.Config.Surrogates[at]
	if sg.Public != "" || p.Config.Shared == nil {
		return sg.Public
	}
	if u, _ := p.shared.State.Policy().Surrogate(config.PolicyName(sg.Name)); u != nil && u.Host != "" {
		return "http://" + u.Host
	}
	return ""
}
