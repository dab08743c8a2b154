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
	trip    time.Duration // the shortest handshake of TCP, 0: none was seen
	start   time.Duration // the shortest time to an answer on a new connection
	last    string        // server that answered last
	broken  map[int]time.Time
	events  func(Event)
}

func (g *ledger) tell(e Event) {
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
	least := func(v *time.Duration, seen time.Duration) {
		if seen > 0 && (*v == 0 || seen < *v) {
			*v = seen
		}
	}
	if !t.reused {
		least(&g.trip, t.connect)
		least(&g.start, t.first)
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
	g.tell(e)
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
		g.account.Breaks++
		if g.broken == nil {
			g.broken = make(map[int]time.Time)
		}
		g.broken[lane] = now
	}
}

func (g *ledger) path() width.Path {
	g.mu.Lock()
	defer g.mu.Unlock()
	life, breaks, bytes := g.lives.Average(time.Now())
	return width.Path{Life: life, Breaks: breaks, Bytes: bytes, Trip: g.trip, Start: g.start, Rate: g.rates.Best()}
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
	g.tell(e)
}

func (g *ledger) copy() Account {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account
	a.Servers = slices.Clone(a.Servers)
	return a
}
