package resume

import (
	"slices"
	"sync"
	"time"

	"baton/resume/width"
)

// ledger is what a download has seen so far. It may be used by several lanes at once.
type ledger struct {
	mu      sync.Mutex
	account Account
	lives   width.Lives
	rates   width.Rates
	trips   width.Trips // shortest of each connection
	starts  width.Trips // times to an answer on a new connection
	quiet   time.Time   // since when nothing has broken or begun
	extra   int64       // bytes that came and were not taken because of connections beside each other
	last    string      // server that answered last
	broken  map[int]time.Time
	events  func(Event)
}

func (g *ledger) emit(e Event) {
	if g.events != nil {
		g.events(e)
	}
}

// answered begins the life of a connection at its content.
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

// calm is how long nothing has broken for the rate to be what the path gives, and pressed which share of the best rate is little then.
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

// spent counts what connections beside each other have cost.
func (g *ledger) spent(bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account.Wasted += bytes
	g.extra += bytes
}

// leastWaste is what connections beside each other may cost of a file of any size.
const leastWaste = 256 << 10

// may tells whether they may cost so much more, when a share of what was taken is allowed.
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
