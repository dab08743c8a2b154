package resume

import (
	"slices"
	"sync"
	"time"

	"baton/resume/width"
)

// ledger is the account of a download so far. Several lanes may use it at once.
type ledger struct {
	mu      sync.Mutex
	account Account
	lives   width.Lives
	rates   width.Rates
	trips   width.Trips // shortest of each connection
	starts  width.Trips // times to an answer on a new connection
	quiet   time.Time   // since when nothing has broken or started
	extra   int64       // bytes received but discarded because of parallel connections
	last    string      // the last server that answered
	broken  map[int]time.Time
	events  func(Event)
}

func (g *ledger) emit(e Event) {
	if g.events != nil {
		g.events(e)
	}
}

// answered starts the life of a connection at its content.
func (g *ledger) answered(t *try, e Answered, lanes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	a := &g.account
	if since, ok := g.broken[e.Lane]; ok {
		e.Lost = now.Sub(since)
		a.Lost += e.Lost / time.Duration(max(1, lanes))
		delete(g.broken, e.Lane)
	}
	g.lives.Opened(t.began, e.Lane)
	if !t.reused {
		g.quiet = now
		g.trips.Saw(t.trip())
		g.starts.Saw(t.first)
	}
	if server := e.Server + " " + e.Name; g.last != server {
		if g.last != "" {
			a.Switches++
		}
		g.last = server
	}
	i := slices.IndexFunc(a.Servers, func(s Server) bool { return s.Address == e.Server && s.Name == e.Name })
	if i < 0 && len(a.Servers) < 1000 {
		a.Servers = append(a.Servers, Server{Address: e.Server, Name: e.Name})
		i = len(a.Servers) - 1
	}
	if i >= 0 {
		a.Servers[i].Answers++
	}
	g.emit(e)
}

func (g *ledger) came(t *try, name string, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rates.Came(time.Now(), bytes)
	for i := range g.account.Servers {
		if s := &g.account.Servers[i]; s.Address == t.address && s.Name == name {
			s.Bytes += bytes
			break
		}
	}
}

// ended ends the life of a lane's connection, or of its last content.
func (g *ledger) ended(lane int, broke bool, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.lives.Ended(now, lane, broke, bytes)
	if broke {
		g.quiet = now
		g.account.Breaks++
		if g.broken == nil {
			g.broken = make(map[int]time.Time)
		}
		g.broken[lane] = now
	}
}

// calm is how long nothing must have broken for the rate to be the path's own, and pressed the share of the best rate below which it is low
// then.
const (
	calm    = 3 * time.Second
	pressed = 0.75
)

func (g *ledger) path() width.Path {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	life, breaks, bytes := g.lives.Average(now)
	p := width.Path{Life: life, Breaks: breaks, Bytes: bytes, Trip: g.trips.Least(), Start: g.starts.Least(), Rate: g.rates.Best()}
	p.Pressed = now.Sub(g.quiet) > calm && g.rates.Mean() < pressed*p.Rate
	return p
}

// spent adds what parallel connections have cost.
func (g *ledger) spent(bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account.Wasted += bytes
	g.extra += bytes
}

// leastWaste is what parallel connections may cost for a file of any size.
const leastWaste = 256 << 10

// may reports whether they may cost this much more, given the allowed share of the received bytes.
func (g *ledger) may(cost int64, share float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return share < 0 || g.extra+cost <= leastWaste+int64(share*float64(g.account.Bytes))
}

// add changes the account.
func (g *ledger) add(change func(a *Account)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.account)
}

func (g *ledger) event(e Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.emit(e)
}

func (g *ledger) copy() Account {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account
	a.Servers = slices.Clone(a.Servers)
	return a
}
