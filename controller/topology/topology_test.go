package topology

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"baton/openflow"
	"baton/packet"
)

// start is when the tests begin.
var start = time.Unix(1000, 0)

// at is a time of a test, in milliseconds.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func point(id uint64, port uint32) Point { return Point{id, openflow.PortNo(port)} }

func mac(n byte) packet.MAC { return packet.MAC{2, 0, 0, 0, 0, n} }

func ip(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, n}) }

// add adds a switch with ports 1 to n, up.
func add(g *Graph, now time.Time, id uint64, n int) {
	var ports []Port
	for i := 1; i <= n; i++ {
		ports = append(ports, Port{Number: openflow.PortNo(i), Up: true})
	}
	g.SwitchUp(now, id, ports)
}

// join makes a link in both directions.
func join(t *testing.T, g *Graph, now time.Time, a, b Point) {
	t.Helper()
	for _, l := range []Link{{a, b}, {b, a}} {
		if _, why := g.SeeLink(now, l.From, l.To); why != "" {
			t.Fatalf("%v: %s", l, why)
		}
	}
}

// line is switches 1 to n in a line, port 1 to the one before, 2 to the one behind, 3 and 4 for hosts, settled.
func line(t *testing.T, n int) *Graph {
	t.Helper()
	g := New(Rules{})
	for i := 1; i <= n; i++ {
		add(g, at(-1000), uint64(i), 4)
	}
	for i := 1; i < n; i++ {
		join(t, g, at(0), point(uint64(i), 2), point(uint64(i+1), 1))
	}
	return g
}

func TestPathOfALine(t *testing.T) {
	g := line(t, 3)
	hops, err := g.Path(Host{At: point(1, 3)}, Host{At: point(3, 4)}, 0)
	if want := []Hop{{1, 3, 2}, {2, 1, 2}, {3, 1, 4}}; err != nil || fmt.Sprint(hops) != fmt.Sprint(want) {
		t.Errorf("got %v, %v, want %v", hops, err, want)
	}
	hops, err = g.Path(Host{At: point(1, 3)}, Host{At: point(1, 4)}, 0)
	if want := []Hop{{1, 3, 4}}; err != nil || fmt.Sprint(hops) != fmt.Sprint(want) {
		t.Errorf("at one switch: got %v, %v, want %v", hops, err, want)
	}
	c := g.PortChanged(at(1), 2, Port{Number: 2})
	if len(c.Removed) != 2 || !c.Usable {
		t.Errorf("a port that is down removes %v", c)
	}
	if _, err = g.Path(Host{At: point(1, 3)}, Host{At: point(3, 4)}, 0); !errors.Is(err, ErrNoPath) {
		t.Errorf("without the link: %v", err)
	}
}

// TestRandomGraphs compares paths with a naive search: they are as short, end where they should, and follow links. Steps of any mixture of flows
// come nearer to the destination.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 2 + r.IntN(9)
		g := New(Rules{})
		for i := 1; i <= n; i++ {
			add(g, at(-1000), uint64(i), 2*n+1)
		}
		used, links := map[uint64]uint32{}, map[Point]Point{}
		for range r.IntN(2 * n) {
			a, b := uint64(1+r.IntN(n)), uint64(1+r.IntN(n))
			if a == b || used[a] >= uint32(2*n) || used[b] >= uint32(2*n) {
				continue
			}
			used[a]++
			used[b]++
			p, q := point(a, used[a]), point(b, used[b])
			if r.IntN(8) == 0 { // one way only: no link for paths
				g.SeeLink(at(0), p, q)
				continue
			}
			join(t, g, at(0), p, q)
			links[p], links[q] = q, p
		}
		for a := 1; a <= n; a++ {
			for b := 1; b <= n; b++ {
				want := naive(links, n, uint64(a), uint64(b))
				from, to := point(uint64(a), uint32(2*n+1)), point(uint64(b), uint32(2*n+1))
				for flow := range uint64(4) {
					hops, err := g.PathBetween(from, to, flow)
					if want < 0 {
						if !errors.Is(err, ErrNoPath) {
							t.Fatalf("seed %d: %d to %d: %v, %v", seed, a, b, hops, err)
						}
						continue
					}
					if err != nil || len(hops) != want+1 {
						t.Fatalf("seed %d: %d to %d: %v, %v, want %d links", seed, a, b, hops, err, want)
					}
					for i := range hops[1:] {
						if links[Point{hops[i].Switch, hops[i].Out}] != (Point{hops[i+1].Switch, hops[i+1].In}) {
							t.Fatalf("seed %d: %v follows no link", seed, hops)
						}
					}
				}
				mixed, steps := uint64(a), 0
				for ; want >= 0 && mixed != uint64(b); steps++ {
					_, next, ok := g.Next(mixed, uint64(b), r.Uint64())
					if !ok || steps > want {
						t.Fatalf("seed %d: a mixture of flows from %d to %d loops", seed, a, b)
					}
					mixed = next.Switch
				}
			}
		}
	}
}

// naive is the distance by Bellman and Ford, -1 if there is none.
func naive(links map[Point]Point, n int, a, b uint64) int {
	far := map[uint64]int{a: 0}
	for range n {
		for p, q := range links {
			if d, ok := far[p.Switch]; ok {
				if e, seen := far[q.Switch]; !seen || d+1 < e {
					far[q.Switch] = d + 1
				}
			}
		}
	}
	if d, ok := far[b]; ok {
		return d
	}
	return -1
}

func TestSpread(t *testing.T) {
	g := New(Rules{})
	for i := 1; i <= 4; i++ {
		add(g, at(-1000), uint64(i), 4)
	}
	join(t, g, at(0), point(1, 1), point(2, 1))
	join(t, g, at(0), point(1, 2), point(3, 1))
	join(t, g, at(0), point(2, 2), point(4, 1))
	join(t, g, at(0), point(3, 2), point(4, 2))
	count := map[uint64]int{}
	for flow := uint64(1); flow <= 1000; flow++ {
		hops, err := g.PathBetween(point(1, 3), point(4, 3), flow)
		again, _ := g.PathBetween(point(1, 3), point(4, 3), flow)
		if err != nil || fmt.Sprint(hops) != fmt.Sprint(again) {
			t.Fatalf("%v, %v, %v", hops, again, err)
		}
		count[hops[1].Switch]++
	}
	if count[2] < 400 || count[3] < 400 {
		t.Errorf("1,000 flows spread as %v", count)
	}
}

func TestLinks(t *testing.T) {
	g := New(Rules{})
	add(g, at(0), 1, 3)
	add(g, at(0), 2, 3)
	refuse := func(name string, now time.Time, from, to Point, counter *uint64) {
		t.Helper()
		before := *counter
		if c, why := g.SeeLink(now, from, to); why == "" || c.Any() || *counter != before+1 {
			t.Errorf("%s: %v, %q, counted %d", name, c, why, *counter-before)
		}
	}
	refuse("its own port", at(0), point(1, 1), point(1, 1), &g.counts.LinkLoops)
	refuse("unknown switch", at(0), point(9, 1), point(1, 1), &g.counts.LinkUnknown)
	g.PortChanged(at(0), 1, Port{Number: 3, Up: true, Edge: true})
	refuse("port for hosts", at(0), point(1, 3), point(2, 3), &g.counts.LinkAtHosts)

	c, _ := g.SeeLink(at(0), point(1, 1), point(2, 1))
	if len(c.Added) != 1 || c.Usable {
		t.Errorf("one direction: %v", c)
	}
	if c, _ = g.SeeLink(at(0), point(2, 1), point(1, 1)); len(c.Added) != 1 || !c.Usable {
		t.Errorf("both directions: %v", c)
	}
	refuse("another end", at(1), point(1, 1), point(2, 2), &g.counts.LinkConflicts)
	refuse("another beginning", at(1), point(1, 2), point(2, 1), &g.counts.LinkConflicts)
	g.SeeLink(at(2000), point(1, 1), point(2, 1))
	if c = g.Tick(at(3500)); len(c.Removed) != 1 || c.Removed[0].From.Switch != 2 || !c.Usable {
		t.Errorf("a direction that is not confirmed: %v", c)
	}
	if c = g.Tick(at(5001)); len(c.Removed) != 1 || c.Usable {
		t.Errorf("the other direction: %v", c)
	}
	if n := len(g.into); n != 0 {
		t.Errorf("%d ends of links are remembered", n)
	}
}

// TestPortAmnesia: a host cannot make its port one for links by flapping it.
func TestPortAmnesia(t *testing.T) {
	g := New(Rules{})
	add(g, at(-1000), 1, 3)
	add(g, at(-1000), 2, 3)
	if _, v, _ := g.SeeHost(at(0), mac(1), ip(1), point(1, 3)); v != Learnt {
		t.Fatal(v)
	}
	g.PortChanged(at(10), 1, Port{Number: 3})
	g.PortChanged(at(20), 1, Port{Number: 3, Up: true})
	if _, why := g.SeeLink(at(30), point(2, 3), point(1, 3)); why == "" {
		t.Error("a link at a port that faced a host 30 ms ago")
	}
	if _, why := g.SeeLink(at(61_000), point(2, 3), point(1, 3)); why != "" {
		t.Errorf("after a minute: %s", why)
	}
	if _, v, _ := g.SeeHost(at(61_001), mac(2), ip(2), point(1, 3)); v != Refused || g.counts.HostAtLink != 1 {
		t.Errorf("a host at a link: %v", v)
	}
}
