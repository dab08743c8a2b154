package paths

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

var start = time.Unix(1000, 0)

func mac(n int) packet.MAC { return packet.MAC{2, 0, 0, 0, byte(n >> 8), byte(n)} }

func point(id uint64, port int) topology.Point {
	return topology.Point{Switch: id, Port: openflow.PortNo(port)}
}

// network is n switches with 20 ports, a host of the MAC n at port 20 of switch n, and these links.
func network(t *testing.T, n int, links ...[2]topology.Point) *topology.Graph {
	t.Helper()
	g := topology.New(topology.Rules{})
	for i := 1; i <= n; i++ {
		var ports []topology.Port
		for p := 1; p <= 20; p++ {
			ports = append(ports, topology.Port{Number: openflow.PortNo(p), Up: true})
		}
		g.SwitchUp(start.Add(-time.Second), uint64(i), ports)
	}
	for _, l := range links {
		connect(g, l[0], l[1])
	}
	for i := 1; i <= n; i++ {
		if _, v, _ := g.SeeHost(start, mac(i), netip.Addr{}, point(uint64(i), 20)); v != topology.Learnt {
			t.Fatal(v)
		}
	}
	return g
}

func connect(g *topology.Graph, a, b topology.Point) {
	g.SeeLink(start, a, b)
	g.SeeLink(start, b, a)
}

func host(t *testing.T, g *topology.Graph, n int) topology.Host {
	t.Helper()
	h, ok := g.Host(mac(n))
	if !ok {
		t.Fatalf("host %d is not known", n)
	}
	return h
}

// follow follows the entries of a tree from a switch until they end, and reports a loop.
func follow(table *Table, links map[topology.Point]topology.Point, k Key, id uint64) (last topology.Point, err error) {
	for range 100 {
		out, ok := table.out(k, id)
		if !ok {
			return topology.Point{Switch: id}, nil
		}
		last = topology.Point{Switch: id, Port: out}
		next, link := links[last]
		if !link {
			return last, nil
		}
		id = next.Switch
	}
	return last, errors.New("loop")
}

// TestNoLoops cuts and mends links of random networks at random. At each moment of each rerouting the entries of every tree are without a loop,
// and at its end they lead from each source to the destination, if there is a path.
func TestNoLoops(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 3 + r.IntN(8)
		g := network(t, n)
		table := NewTable([]Spread{SpreadNone, SpreadDestination, SpreadPair}[seed%3])
		used := map[uint64]int{}
		links := map[topology.Point]topology.Point{}
		var cables [][2]topology.Point
		for i := 2; i <= n+r.IntN(n); i++ {
			a, b := uint64(1+(i-1)%n), uint64(1+r.IntN(n))
			if a == b || used[a] > 16 || used[b] > 16 {
				continue
			}
			used[a]++
			used[b]++
			cables = append(cables, [2]topology.Point{point(a, used[a]), point(b, used[b])})
		}
		up := map[int]bool{}
		check := func(when string, k Key) {
			t.Helper()
			for id := uint64(1); id <= uint64(n); id++ {
				if _, err := follow(table, links, k, id); err != nil {
					t.Fatalf("seed %d: %s: %v from %d", seed, when, k, id)
				}
			}
		}
		apply := func(when string, steps []Step) {
			t.Helper()
			for _, layer := range Layers(steps) {
				r.Shuffle(len(layer), func(i, j int) { layer[i], layer[j] = layer[j], layer[i] })
				for _, s := range layer {
					table.Done(s)
					check(when, s.Key)
				}
			}
		}
		pairs := map[Pair]bool{}
		for range 40 {
			if c := r.IntN(len(cables) + 1); c < len(cables) {
				a, b := cables[c][0], cables[c][1]
				if up[c] = !up[c]; up[c] {
					links[a], links[b] = b, a
					connect(g, a, b)
				} else {
					delete(links, a)
					delete(links, b)
					g.PortChanged(start, a.Switch, topology.Port{Number: a.Port})
					g.PortChanged(start, a.Switch, topology.Port{Number: a.Port, Up: true})
				}
				for _, k := range table.All() {
					dst, _ := g.Host(k.Dst)
					apply("reroute", table.Replan(g, k, dst))
				}
			} else if a, b := 1+r.IntN(n), 1+r.IntN(n); a != b {
				steps, err := table.Plan(g, host(t, g, a), host(t, g, b), false)
				apply("new path", steps)
				if err == nil {
					pairs[Pair{mac(a), mac(b)}] = true
				}
			}
			for p := range pairs {
				src, _ := g.Host(p.Src)
				dst, _ := g.Host(p.Dst)
				if _, err := g.Path(src, dst, 0); err != nil {
					continue
				}
				if end, _ := follow(table, links, table.Key(p.Src, p.Dst), src.At.Switch); end != dst.At {
					t.Fatalf("seed %d: the path from %v to %v ends at %v", seed, src.At, dst.At, end)
				}
			}
		}
	}
}

func TestPlan(t *testing.T) {
	g := network(t, 3, [2]topology.Point{point(1, 2), point(2, 1)}, [2]topology.Point{point(2, 2), point(3, 1)})
	for _, tt := range []struct {
		spread Spread
		second int // steps of a second source's path, at the switch of the first
	}{{SpreadDestination, 0}, {SpreadPair, 3}} {
		table := NewTable(tt.spread)
		a, b := host(t, g, 1), host(t, g, 3)
		steps, err := table.Plan(g, a, b, false)
		if err != nil || len(steps) != 3 {
			t.Fatalf("%v, %v", steps, err)
		}
		layers := Layers(steps)
		if len(layers) != 2 || len(layers[0]) != 2 || layers[1][0].Switch != 1 || layers[0][0].Switch != 3 || layers[0][0].Out != 20 {
			t.Errorf("layers %v", layers)
		}
		for _, s := range steps {
			table.Done(s)
		}
		if steps, _ = table.Plan(g, a, b, false); len(steps) != 0 {
			t.Errorf("once more: %v", steps)
		}
		if steps, _ = table.Plan(g, a, b, true); len(steps) != 3 {
			t.Errorf("without the cache: %v", steps)
		}
		g.SeeHost(start, mac(9), netip.Addr{}, point(1, 19))
		if steps, _ = table.Plan(g, host(t, g, 9), b, false); len(steps) != tt.second {
			t.Errorf("a second source: %v", steps)
		}
		if n := table.Entries(2); n != 1 {
			t.Errorf("%d entries", n)
		}
	}
}

func TestAdopt(t *testing.T) {
	stats := func(m *openflow.FlowMod) openflow.FlowStats {
		return openflow.FlowStats{Priority: m.Priority, Cookie: m.Cookie, Match: m.Match, Instructions: m.Instructions}
	}
	table := NewTable(SpreadDestination)
	kept, lost, wrong, strange := Key{Dst: mac(1)}, Key{Dst: mac(2)}, Key{Dst: mac(3)}, Key{Dst: mac(4)}
	for _, k := range []Key{kept, lost, wrong} {
		table.Done(Step{Key: k, Switch: 7, Out: 1})
	}
	other := stats(Entry(kept, 1))
	other.Priority++
	steps, remove := table.Adopt(7, []openflow.FlowStats{
		stats(Entry(kept, 1)), stats(Entry(wrong, 2)), stats(Entry(strange, 3)), other, stats(Entry(Key{mac(8), mac(9)}, 1)),
	})
	got := map[Key]bool{}
	for _, s := range steps {
		got[s.Key] = s.Replaces
		if s.Out != 1 {
			t.Errorf("%+v", s)
		}
	}
	if len(got) != 2 || got[lost] || !got[wrong] || len(remove) != 2 {
		t.Errorf("lost %v, removed %d", steps, len(remove))
	}
	if out, ok := table.out(strange, 7); !ok || out != 3 {
		t.Error("an entry to an unknown destination is not adopted")
	}
	since := table.Orphans(start, func(m packet.MAC) bool { return m != mac(4) })
	if since[strange] != start || len(since) != 1 {
		t.Errorf("orphans %v", since)
	}
	if since = table.Orphans(start.Add(time.Second), func(m packet.MAC) bool { return m != mac(4) }); since[strange] != start {
		t.Errorf("later: %v", since)
	}
	if at, ok := table.Leaf(strange, func(p topology.Point) bool { return p.Port == 3 }); !ok || at != point(7, 3) {
		t.Errorf("leaf %v, %v", at, ok)
	}
}

// TestManager: an unchanged path costs nothing, one that a switch refuses is not cached, and a cut link is rerouted.
func TestManager(t *testing.T) {
	g := network(t, 3, [2]topology.Point{point(1, 2), point(2, 1)}, [2]topology.Point{point(2, 2), point(3, 1)},
		[2]topology.Point{point(1, 3), point(3, 3)})
	g.PortChanged(start, 1, topology.Port{Number: 3})
	var mu, sent sync.Mutex
	var got []string
	broken := uint64(2)
	m := NewManager(NewTable(SpreadDestination), true, func(_ context.Context, id uint64, messages ...openflow.Message) error {
		sent.Lock()
		defer sent.Unlock()
		if id == broken {
			return errors.New("table full")
		}
		got = append(got, fmt.Sprintf("%d:%d", id, messages[0].(*openflow.FlowMod).Command))
		return nil
	}, func(f func(*topology.Graph)) { mu.Lock(); defer mu.Unlock(); f(g) })
	ctx := t.Context()
	if err := m.Ensure(ctx, mac(1), mac(3)); err == nil {
		t.Error("a switch refuses, and nobody tells")
	}
	if fmt.Sprint(got) != "[3:0]" {
		t.Errorf("the first switch of a path that is not whole got an entry: %v", got)
	}
	broken, got = 0, nil
	for range 3 {
		if err := m.Ensure(ctx, mac(1), mac(3)); err != nil {
			t.Fatal(err)
		}
	}
	if fmt.Sprint(got) != "[2:0 1:0]" {
		t.Errorf("got %v", got)
	}
	if c := m.Counts(); c.Hits != 2 || c.Misses != 2 || c.Failures != 1 {
		t.Errorf("%+v", c)
	}
	got = nil
	g.PortChanged(start, 1, topology.Port{Number: 3, Up: true})
	connect(g, point(1, 3), point(3, 3))
	if err := m.Reroute(ctx, m.table.Keys(mac(3))); err != nil || fmt.Sprint(got) != "[1:0]" {
		t.Errorf("a shorter path: %v, %v", got, err)
	}
	if err := m.Ensure(ctx, mac(1), mac(77)); !errors.Is(err, ErrUnknownHost) {
		t.Errorf("to an unknown host: %v", err)
	}
	m.SetCache(false)
	got = nil
	if err := m.Ensure(ctx, mac(1), mac(3)); err != nil || len(got) != 2 {
		t.Errorf("without a cache: %v, %v", got, err)
	}
	got = nil
	if err := m.Remove(ctx, m.table.Keys(mac(3))); err != nil || len(got) != 3 {
		t.Errorf("removal: %v, %v", got, err)
	}
	if trees, entries, _ := m.table.Counts(); trees+entries != 0 {
		t.Errorf("%d trees, %d entries are left", trees, entries)
	}
	if len(m.locks) != 0 {
		t.Errorf("%d locks are left", len(m.locks))
	}
}
