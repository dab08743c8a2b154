package router_test

import (
	"errors"
	"testing"

	"baton/datapath/kerneltest"
	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/explain"
	"baton/router/head"
	"baton/router/head/headtest"
	"baton/router/health"
	"baton/router/legs"
	"baton/router/state"
)

// grammarFile has a VIP whose requests all go to one pool, one whose routes name no host, and one with hosts.
const grammarFile = `
vips:
  - {address: "203.0.113.9:80", interfaces: [eth0], routes: [{pool: one}]}
  - address: "203.0.113.9:81"
    interfaces: [eth0]
    routes: [{match: {path_prefix: /b}, pool: two}, {match: {methods: [POST]}, pool: three}, {pool: one}]
  - address: "203.0.113.9:82"
    interfaces: [eth0]
    routes:
      - {match: {host: a.example}, pool: one}
      - {match: {host: b.test, path_prefix: /b}, pool: two}
      - {match: {path_prefix: /video/, headers: [{name: X-Up}]}, pool: two}
      - {match: {host: "[2001:db8::9]"}, pool: three}
      - {match: {host: b.test, methods: [GET, HEAD, OPTIONS]}, pool: three}
      - {match: {host: under_score.test}, pool: two}
      - {match: {path_prefix: /}, pool: hashed}
pools:
  one: {surrogates: [{name: s1, address: "10.0.0.1:80"}]}
  two: {surrogates: [{name: s2, address: "10.0.0.2:80"}]}
  three: {surrogates: [{name: s3, address: "10.0.0.3:80"}]}
  hashed: {policy: hash, surrogates: [{name: s4, address: "10.0.0.4:80"}]}
`

// grammar is the same configuration in the kernel and in user space.
type grammar struct {
	t       *testing.T
	cfg     *config.Config
	rules   *explain.Rules
	judge   *kernel.Judge
	poolOf  map[uint16]string // by surrogate
	counted map[string]int
}

func newGrammar(t *testing.T) *grammar {
	cfg, err := config.Parse("f", []byte(grammarFile))
	if err != nil {
		t.Fatal(err)
	}
	c, err := state.Compile(cfg, &state.Numbers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := explain.Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := &grammar{t: t, cfg: cfg, rules: rules, poolOf: make(map[uint16]string), counted: make(map[string]int)}
	s := c.Snapshot(func(string) health.State { return health.State{Up: true} }, nil)
	var surrogates []uint16
	for _, p := range s.Pools {
		for _, id := range p.IDs {
			surrogates = append(surrogates, id)
			g.poolOf[id] = p.Config.Name
		}
	}
	tables := s.Tables(1500, func(uint16) legs.Facts { return legs.Facts{} }, func(string) bool { return false })
	g.judge = kernel.NewJudge(t, tables, surrogates)
	return g
}

// judgeHead has the kernel, user space and explain judge a head: what the first decides, the second decides alike,
// and what the second refuses, the first leaves to it.
func (g *grammar) judgeHead(vip int, b []byte) {
	g.t.Helper()
	at := g.cfg.VIPs[vip].Address
	req, n, err := head.Parse(b)
	if err == nil {
		b = b[:n] // what follows is another matter: the kernel leaves a second request to the proxy
	}
	surrogate, decided := g.judge.Decide(at, b)
	e, explained := g.rules.Explain(explain.Question{VIP: at, Head: b}, explain.AllUp)
	var refused *head.Error
	switch {
	case errors.Is(err, head.ErrIncomplete):
		g.counted["incomplete"]++
		if decided || explained == nil {
			g.t.Errorf("VIP %v, incomplete: the kernel decides: %v; explain: %v\n%q", at, decided, e, b)
		}
		return
	case explained != nil:
		g.t.Errorf("VIP %v: %v\n%q", at, explained, b)
		return
	case errors.As(err, &refused):
		g.counted["refused"]++
		if decided || e.Status != refused.Status || e.Decides != "user space" {
			g.t.Errorf("VIP %v: user space refuses: %v; the kernel decides: %v; explain:\n%v\n%q", at, err, decided, e, b)
		}
		return
	}
	match, ok := g.rules.Routes.Match(vip, &req)
	switch {
	case !ok:
		g.counted["no route"]++
		if decided || e.Status != 404 {
			g.t.Errorf("VIP %v: no route; the kernel decides: %v; explain:\n%v\n%q", at, decided, e, b)
		}
	case decided != (e.Decides == "kernel"), e.Pool != match.PoolName, decided && g.poolOf[surrogate] != match.PoolName:
		g.t.Errorf("VIP %v: user space chooses pool %s; the kernel decides: %v, surrogate %d; explain:\n%v\n%q",
			at, match.PoolName, decided, surrogate, e, b)
	case decided:
		g.counted["kernel"]++
	default:
		g.counted["user space"]++
	}
}

// TestOneGrammar compares the kernel program with user space and explain on generated heads.
func TestOneGrammar(t *testing.T) { judgeHeads(t, 20_000) }

func judgeHeads(t *testing.T, heads int) {
	random, n := kerneltest.Rand(t), kerneltest.Rounds(heads)
	g := newGrammar(t)
	for range n {
		g.judgeHead(random.IntN(len(g.cfg.VIPs)), headtest.Next(random))
		if t.Failed() {
			break
		}
	}
	t.Log(g.counted)
	for _, what := range []string{"kernel", "user space", "refused"} {
		if !t.Failed() && g.counted[what] < n/20 {
			t.Errorf("%s: %d of %d heads, which says little", what, g.counted[what], n)
		}
	}
}
