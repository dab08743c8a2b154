package choice

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/relay/plan"
)

// TestAlways: whatever happens, what a Chooser promises holds.
func TestAlways(t *testing.T) {
	random := seeded(t)
	kinds := make(map[string]int)
	for range 40 {
		w := someWorld(t, random)
		for range 60 {
			happen(w, random)
			w.run(Pace + time.Duration(random.IntN(8000))*time.Millisecond)
			w.check(kinds)
		}
	}
	t.Logf("%v", kinds)
	for _, k := range []string{"direct", "one", "two", "another is up", "none is up"} {
		if kinds[k] == 0 {
			t.Errorf("no world where %s: the test looks in the wrong place", k)
		}
	}
}

func someWorld(t *testing.T, random *rand.Rand) *world {
	w := newWorld(t, "b", "c", "d", "e")
	w.o.Dwell = time.Duration(random.IntN(20)) * time.Second
	w.o.Refresh = time.Duration(5+random.IntN(60)) * time.Second
	w.o.Most = 1 + random.IntN(4)
	w.o.Clouds = []plan.Clouds{plan.PreferOne, plan.AnyCloud}[random.IntN(2)]
	for i := range w.o.Peers {
		w.o.Peers[i].Cloud = []string{"sky", "sea"}[random.IntN(2)]
	}
	forbidden := random.IntN(2) == 0
	w.o.Allowed = func(netip.AddrPort) bool { return !forbidden }
	w.noise = func() float64 { return 1 + random.Float64()/2 }
	for range 60 {
		w.rewire(random)
	}
	w.configure()
	return w
}

// along is where on the line something is: servers are at the end.
func along(name string) int {
	at := map[string]int{"self": 0, "b": 60, "c": 120, "d": 190, "e": 195}
	if ms, ok := at[name]; ok {
		return ms
	}
	return 200
}

// rewire changes what one relay measures.
func (w *world) rewire(random *rand.Rand) {
	nodes := []string{"self", "b", "c", "d", "e"}
	from := nodes[random.IntN(len(nodes))]
	to := nodes[1+random.IntN(len(nodes)-1)]
	if random.IntN(2) == 0 {
		to = serverAt(random.IntN(6)).Addr().String()
	}
	pair := plan.Pair{From: from, To: to}
	delete(w.rtts, pair)
	w.never[pair] = random.IntN(8) == 0
	switch random.IntN(4) {
	case 0:
	case 1:
		w.rtts[pair] = time.Duration(1 + random.IntN(2e8))
	default: // as on a line, where relays between others divide their way
		w.rtts[pair] = time.Millisecond * time.Duration(1+max(along(from)-along(to), along(to)-along(from)))
	}
}

func happen(w *world, random *rand.Rand) {
	peer := func() string { return string(rune('b' + random.IntN(4))) }
	switch random.IntN(8) {
	case 0, 1:
		w.c.Track(w.now, serverAt(random.IntN(6)))
	case 2, 3:
		w.c.Reach(w.now, peer(), random.IntN(2) == 0)
	case 4:
		w.c.Broken(w.now, peer(), peer())
	case 5:
		w.rewire(random)
	case 6:
		w.c.Expire(w.now)
	case 7:
		random.Shuffle(len(w.o.Peers), func(i, j int) { w.o.Peers[i], w.o.Peers[j] = w.o.Peers[j], w.o.Peers[i] })
		o := w.o
		o.Peers = o.Peers[:1+random.IntN(len(o.Peers))]
		w.c.Configure(w.now, o)
		w.step()
	}
}

func (w *world) check(kinds map[string]int) {
	w.t.Helper()
	c := w.c
	if len(c.legs) > MostPeers*(MostPeers+1) || len(c.all) > 6 || len(c.dirty) > 0 {
		w.t.Fatalf("%d legs, %d destinations, %d not looked at", len(c.legs), len(c.all), len(c.dirty))
	}
	for _, p := range c.all {
		if len(p.seen) > len(c.nodes) {
			w.t.Fatalf("%d relays have measured, of %d", len(p.seen), len(c.nodes))
		}
		if !p.known {
			continue
		}
		relays := p.used.Relays()
		kinds[[]string{"direct", "one", "two", "three"}[len(relays)]]++
		if len(relays) >= c.o.Most || p.used == Direct && !p.direct || !c.exists(p.used) {
			w.t.Fatalf("%v is sent %v", p.of, p.used)
		}
		firsts := []string{p.used.first()}
		for _, o := range p.others {
			if slices.Contains(firsts, o.first()) || !c.isValid(p, o, up) {
				w.t.Fatalf("%v is sent %v, in reserve is %v", p.of, p.used, p.others)
			}
			firsts = append(firsts, o.first())
		}
		if c.isValid(p, p.used, up) {
			continue
		}
		// The way in use cannot be had: then there is none.
		kinds["none is up"]++
		for _, x := range w.routes(c) {
			if c.isValid(p, x, up) {
				w.t.Fatalf("%v is sent %v, which cannot be had, and not %v", p.of, p.used, x)
			}
		}
	}
	for _, p := range c.all {
		if p.known && p.used != p.chosen && c.isValid(p, p.used, up) {
			kinds["another is up"]++
		}
	}
}

// routes are all that are short enough and whose first and last relay are joined, as package plan wants it.
func (w *world) routes(c *Chooser) (out []Route) {
	var grow func(relays []string)
	grow = func(relays []string) {
		if len(relays) >= c.o.Most {
			return
		}
		if n := len(relays); n < 2 || c.joined(c.o.Self, relays[n-1], up) {
			out = append(out, routeOf(relays))
		}
		for _, n := range c.nodes[1:] {
			if !slices.Contains(relays, n.Name) {
				grow(append(slices.Clone(relays), n.Name))
			}
		}
	}
	grow(nil)
	return out
}
