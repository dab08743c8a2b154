package choice

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/relay/plan"
)

func TestRoutes(t *testing.T) {
	s := serverAt(1)
	at := s.Addr().String()
	tests := []struct {
		name  string
		build func(w *world)
		want  Route
		known bool
	}{
		{"the near peer", func(w *world) {
			w.set("self", at, 200)
			w.set("self", "b", 180)
			w.set("b", at, 5)
			w.set("self", "c", 150)
			w.set("c", at, 60)
			w.set("b", "c", 40)
		}, "b", true},
		{"no relay helps", func(w *world) {
			w.set("self", at, 20)
			w.set("self", "b", 19)
			w.set("b", at, 15)
		}, Direct, true},
		{"not from here", func(w *world) {
			w.o.Allowed = func(netip.AddrPort) bool { return false }
			w.set("self", at, 20)
			w.set("self", "b", 15)
			w.set("b", at, 10)
		}, "b", true},
		{"a third relay divides the way", func(w *world) {
			w.set("self", at, 320)
			w.set("self", "b", 300)
			w.set("b", at, 5)
			w.set("self", "c", 150)
			w.set("c", "b", 150)
			w.set("c", at, 160)
		}, "c,b", true},
		{"at most two relays", func(w *world) {
			w.o.Most = 2
			w.set("self", at, 320)
			w.set("self", "b", 300)
			w.set("b", at, 5)
			w.set("self", "c", 150)
			w.set("c", "b", 150)
			w.set("c", at, 160)
		}, "b", true},
		{"the third relay has no trunks to the last", func(w *world) {
			w.set("self", at, 320)
			w.set("self", "b", 300)
			w.set("b", at, 5)
			w.set("self", "c", 150)
			w.rtts[plan.Pair{From: "b", To: "c"}] = 150 * time.Millisecond
			w.never[plan.Pair{From: "c", To: "b"}] = true
			w.set("c", at, 160)
		}, "b", true},
		{"one cloud", func(w *world) {
			w.o.Clouds, w.o.Cloud, w.o.Peers[0].Cloud, w.o.Peers[1].Cloud = plan.OneCloud, "sky", "ground", "sky"
			w.set("self", at, 200)
			w.set("self", "b", 180)
			w.set("b", at, 5)
			w.set("self", "c", 150)
			w.set("c", at, 30)
		}, "c", true},
		{"nobody reaches it", func(w *world) { w.set("self", "b", 1) }, Direct, false},
		{"one peer alone reaches it", func(w *world) {
			w.set("self", "b", 100)
			w.set("b", at, 100)
			w.set("self", "c", 1)
		}, "b", true},
	}
	for _, tt := range tests {
		for _, fixed := range []bool{false, true} {
			if fixed && tt.name == "not from here" {
				continue // an entry may connect to its own destination
			}
			t.Run(tt.name, func(t *testing.T) {
				w := newWorld(t, "b", "c")
				tt.build(w)
				if fixed {
					w.o.Learn, w.o.Fixed = false, []netip.AddrPort{s}
				}
				w.configure()
				if !fixed {
					w.c.Track(w.now, s)
				}
				w.run(15 * time.Second)
				if got, known := w.route(s); known != tt.known || known && got != tt.want {
					t.Errorf("%v, known %v; want %v, %v", got, known, tt.want, tt.known)
				}
				if n := len(w.log); n > 2 { // b and c may measure each other later
					t.Errorf("%d changes: %+v", n, w.log)
				}
			})
		}
	}
}

// far is a world where b is better than c, and that is better than none.
func far(t *testing.T) (*world, netip.AddrPort) {
	w, s := newWorld(t, "b", "c"), serverAt(1)
	at := s.Addr().String()
	w.set("self", at, 300)
	w.set("self", "b", 190)
	w.set("b", at, 5)
	w.set("self", "c", 190)
	w.set("c", at, 30)
	w.o.Fixed = []netip.AddrPort{s}
	w.configure()
	return w, s
}

func TestDwell(t *testing.T) {
	w, s := far(t)
	w.run(10 * time.Second)
	w.want(s, "b")
	w.c.Reach(w.now, "b", false)
	w.step()
	w.want(s, "c")
	w.run(time.Minute)
	w.want(s, "c")
	w.c.Reach(w.now, "c", false)
	w.step()
	w.want(s, Direct)
	w.c.Reach(w.now, "b", true)
	w.run(29 * time.Second)
	w.want(s, Direct)
	w.run(2 * time.Second)
	w.want(s, "b")
	w.c.Reach(w.now, "c", true)
	w.c.Broken(w.now, "b", "c") // of no interest
	w.run(time.Minute)
	w.want(s, "b")
	var why []string
	for _, c := range w.log {
		why = append(why, c.To.String()+": "+c.Why)
	}
	want := []string{
		"via b: first measurement", "via c: via b is unreachable", "directly: via b is unreachable", "via b: it is reachable again",
	}
	if !slices.Equal(why, want) {
		t.Errorf("changes %q, want %q", why, want)
	}
}

func TestBroken(t *testing.T) {
	w, s := newWorld(t, "b", "c"), serverAt(1)
	at := s.Addr().String()
	w.set("self", at, 320)
	w.set("self", "b", 300)
	w.set("b", at, 5)
	w.set("self", "c", 150)
	w.set("c", "b", 150)
	w.configure()
	w.c.Track(w.now, s)
	w.run(10 * time.Second)
	w.want(s, "c,b")
	w.c.Broken(w.now, "c", "b")
	w.step()
	w.want(s, "b")
	w.run(29 * time.Second)
	w.want(s, "b")
	w.run(2 * time.Second)
	w.want(s, "c,b")
}

// TestMargin: a way is left for one that is better by the margin, and for no other.
func TestMargin(t *testing.T) {
	w, s := far(t)
	w.o.Margin = 0.3
	w.configure()
	w.run(10 * time.Second)
	w.want(s, "b")
	w.set("self", "c", 160) // 1 MB takes 1 s by b, 1.01 s by c as it was
	w.run(30 * time.Minute)
	w.want(s, "b")
	w.set("self", "c", 100)
	w.run(30 * time.Minute)
	w.want(s, "b") // the rule is that the one nearest to the server is the last
	w.set("c", s.Addr().String(), 3)
	w.set("b", s.Addr().String(), 9)
	w.run(30 * time.Minute)
	w.want(s, "c")
	if len(w.log) != 2 {
		t.Errorf("%+v", w.log)
	}
}

// TestNoise: what stays below the margin moves flows to nothing that is not better in truth, so that they never come back. They may be
// moved at all as the rule is the nearest relay, of which there may be two.
func TestNoise(t *testing.T) {
	random := seeded(t)
	for range 20 {
		w := newWorld(t, "b", "c", "d")
		var servers []netip.AddrPort
		nodes := []string{"self", "b", "c", "d"}
		for i := range 5 {
			servers = append(servers, serverAt(i))
			nodes = append(nodes, servers[i].Addr().String())
		}
		for i, a := range nodes {
			for _, b := range nodes[:i] {
				w.set(a, b, 1+200*random.Float64())
			}
		}
		w.o.Margin = 0.1
		w.noise = func() float64 { return 1 + 0.045*random.Float64() } // twice: of this way and that one
		w.o.Fixed = servers
		w.configure()
		w.run(30 * time.Second)
		settled := len(w.log)
		w.run(2 * time.Hour)
		if settled != len(servers) {
			t.Fatalf("%d of %d have a way", settled, len(servers))
		}
		for _, c := range w.log[settled:] {
			if from, to := w.takes(c.Destination, c.From), w.takes(c.Destination, c.To); to >= from {
				t.Fatalf("%+v: %v without noise, before %v", c, to, from)
			}
		}
	}
}

// takes is what a way takes in truth.
func (w *world) takes(d Destination, way Route) time.Duration {
	w.t.Helper()
	q := plan.Question{Client: client, Server: d.Prefix.Addr().String(), RTTs: w.rtts}
	q.RTTs.Set(client, "self", 1)
	times, ok := plan.Along(q, append([]string{"self"}, way.Relays()...))
	if !ok {
		w.t.Fatalf("%v %v: a round-trip time is not known", d, way)
	}
	return time.Duration(times.Sizes[2])
}

// TestFlap: however fast a peer comes and goes, flows change their way at most twice in a dwell time.
func TestFlap(t *testing.T) {
	random := seeded(t)
	for range 20 {
		w, s := far(t)
		w.run(10 * time.Second)
		w.log = nil
		began, up := w.now, true
		for w.now.Sub(began) < 20*time.Minute {
			up = !up
			w.c.Reach(w.now, "b", up)
			w.run(time.Duration(random.ExpFloat64() * float64(10*time.Second)))
			if got, _ := w.route(s); !up && got == "b" {
				t.Fatal("flows are sent to a relay that is down")
			}
		}
		if most := 2*int(w.now.Sub(began)/w.o.Dwell) + 2; len(w.log) > most || len(w.log) == 0 {
			t.Errorf("%d changes, want 1 to %d", len(w.log), most)
		}
	}
}

func TestForgotten(t *testing.T) {
	w, fixed := far(t)
	w.c.Track(w.now, serverAt(2))
	w.c.Track(w.now, serverAt(3))
	w.run(20 * time.Second)
	table, _ := w.c.Table()
	w.run(10 * time.Minute)
	table.Find(serverAt(3), w.now) // an old table tells of it, too
	w.run(6 * time.Minute)
	w.c.Expire(w.now)
	if len(w.c.all) != 2 || w.c.all[Exactly(fixed)] == nil || w.c.all[Of(serverAt(3))] == nil {
		t.Errorf("left: %v", w.c.records())
	}
	before := len(w.probes[w.c.nodes[0]])
	w.run(time.Hour)
	if got := len(w.probes[w.c.nodes[0]]) - before; got < 40 || got > 60 { // 2 peers and 2 destinations, each 12 times
		t.Errorf("%d measurements in an hour, want 4 targets 12 times", got)
	}
}

// TestFull: the table has room for so many, and nobody drives out what was asked for just now.
func TestFull(t *testing.T) {
	w := newWorld(t, "b")
	w.configure()
	server := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 80)
	}
	for i := range mostDestinations + 100 {
		w.c.Track(w.now, server(i))
	}
	if len(w.c.all) != mostDestinations || w.c.all[Of(server(0))] == nil {
		t.Fatalf("%d destinations, the first %v", len(w.c.all), w.c.all[Of(server(0))])
	}
	w.now = w.now.Add(leastAge + time.Second)
	w.c.Track(w.now, server(0))
	w.c.Track(w.now, server(mostDestinations))
	if len(w.c.all) != mostDestinations || w.c.all[Of(server(0))] == nil || w.c.all[Of(server(1))] != nil ||
		w.c.all[Of(server(mostDestinations))] == nil {
		t.Errorf("%d destinations; the one not asked for the longest has not made room", len(w.c.all))
	}
}

func TestConfigure(t *testing.T) {
	w, s := far(t)
	w.c.Track(w.now, serverAt(2))
	w.run(20 * time.Second)
	w.want(s, "b")
	changes := len(w.log)

	w.configure()
	w.step()
	if len(w.log) != changes {
		t.Errorf("the same again: %+v", w.log[changes:])
	}
	w.o.Peers = []Peer{{Name: "c", Address: address("c")}, {Name: "d", Address: address("d")}}
	w.configure()
	w.step()
	w.want(s, "c") // at once, by what is known
	w.o.Peers[0].Address = address("e")
	w.configure()
	w.step()
	w.run(20 * time.Second) // anew
	w.want(s, "c")
	w.o.Learn = false
	w.configure()
	if len(w.c.all) != 1 {
		t.Errorf("%d destinations are left, want the fixed one", len(w.c.all))
	}
	w.o.Fixed = nil
	w.configure()
	w.run(time.Second)
	if len(w.c.all) != 0 {
		t.Errorf("%d destinations are left, want none", len(w.c.all))
	}
}

func TestReports(t *testing.T) {
	w, s := far(t)
	w.c.Track(w.now, serverAt(2))
	w.run(20 * time.Second)
	w.now = w.now.Add(time.Minute)
	w.c.Reach(w.now, "b", false)
	w.step()
	r := w.c.Reports()
	if len(r) != 2 || r[0].Server != s || !r[0].Fixed || !r[0].Known || r[0].Route != "c" || !slices.Equal(r[0].Others, []Route{Direct}) {
		t.Fatalf("%+v", r)
	}
	if r[0].RTT != 300*time.Millisecond || r[0].Takes < 500*time.Millisecond || r[0].Takes > 2*time.Second || !r[0].Since.Equal(w.now) ||
		r[0].Why != "via b is unreachable" || r[0].At.IsZero() || !r[0].Due.After(r[0].At) || !r[0].LastUsed.Equal(start) {
		t.Errorf("%+v", r[0])
	}
	want := []Distance{
		{Relay: "self", RTT: 300 * time.Millisecond}, {Relay: "b", RTT: 5 * time.Millisecond, Down: true},
		{Relay: "c", RTT: 30 * time.Millisecond},
	}
	if !slices.Equal(r[0].Relays, want) {
		t.Errorf("%+v", r[0].Relays)
	}
	if r[1].Known || r[1].RTT != 0 || r[1].Relays[0].Why != "no answer" || r[1].Route != Direct {
		t.Errorf("%+v", r[1])
	}
	peers := w.c.Distances()
	if !slices.Equal(peers, []Distance{{Relay: "b", RTT: 190 * time.Millisecond, Down: true}, {Relay: "c", RTT: 190 * time.Millisecond}}) {
		t.Errorf("%+v", peers)
	}
}
