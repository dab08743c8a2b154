package discover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/router/config"
)

// parse is a configuration with VIP 10.9.9.9:80 and these pools.
func parse(t testing.TB, pools string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("router.yaml", []byte("vips:\n  - {address: \"10.9.9.9:80\", interfaces: [eth0], routes: [{pool: web}]}\npools:\n"+pools))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func at(n int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("10.2.1.%d:80", n)) }

// shown is a pool's surrogates, with what differs from the usual.
func shown(cfg *config.Config, pool string) string {
	var out []string
	for _, p := range cfg.Pools {
		for _, s := range p.Surrogates {
			if p.Name != pool {
				continue
			}
			text := s.Name
			if s.Weight != 1 {
				text += fmt.Sprintf("*%d", s.Weight)
			}
			if s.Origin != "" {
				text += " of " + s.Origin
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

const twoSources = `  web:
    policy: weighted
    surrogates: [{name: s1, address: "10.2.1.1:80"}]
    discover:
      - {dns: web.example.net, port: 80}
      - {file: /etc/more.yaml}
  other: {surrogates: [{name: o1, address: "10.2.2.1:80"}], discover: {dns: web.example.net, port: 80}}
`

func set(surrogates ...Surrogate) Set { return Set{Surrogates: surrogates} }

var (
	webDNS   = Key{"web", "dns web.example.net:80"}
	webFile  = Key{"web", "file /etc/more.yaml"}
	otherDNS = Key{"other", "dns web.example.net:80"}
)

func weight(n int) *int { return &n }

func TestMerge(t *testing.T) {
	file := parse(t, twoSources)
	for _, tt := range []struct {
		name    string
		sets    map[Key]Set
		changes []Change
		most    int
		want    string
		left    []string
	}{
		{"the file alone", nil, nil, 100, "s1", nil},
		{"all", map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1}), webFile: set(Surrogate{Name: "f1", Address: at(3), Weight: 4})},
			[]Change{{Name: "a1", Pool: "web", Address: at(4), Weight: weight(2)}}, 100,
			"s1; a1*2 of api; web/10.2.1.2:80 of dns web.example.net:80; f1*4 of file /etc/more.yaml", nil},
		{"a set of a source that is not in the file", map[Key]Set{{"web", "dns gone.example.net:80"}: set(Surrogate{Address: at(2), Weight: 1})}, nil, 100, "s1", nil},
		{"the file's server again", map[Key]Set{webDNS: set(Surrogate{Address: at(1), Weight: 9})}, nil, 100, "s1", nil},
		{"a server of two sources has two names", map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1}), webFile: set(Surrogate{Name: "f1", Address: at(2), Weight: 1})}, nil, 100,
			"s1; web/10.2.1.2:80 of dns web.example.net:80; f1 of file /etc/more.yaml", nil},
		{"a name of the file", map[Key]Set{webFile: set(Surrogate{Name: "o1", Address: at(2), Weight: 1})}, nil, 100, "s1", []string{"its name is another one's"}},
		{"weights", map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1})}, []Change{{Name: "s1", Weight: weight(7)}, {Name: "web/10.2.1.2:80", Weight: weight(0)}}, 100,
			"s1*7; web/10.2.1.2:80*0 of dns web.example.net:80", nil},
		{"gone", map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1})}, []Change{{Name: "s1", Gone: true}, {Name: "web/10.2.1.2:80", Gone: true}}, 100, "", nil},
		{"gone of the file, and a source has it again", map[Key]Set{webDNS: set(Surrogate{Address: at(1), Weight: 1})}, []Change{{Name: "s1", Gone: true}}, 100, "web/10.2.1.1:80 of dns web.example.net:80", nil},
		{"unknown pool", nil, []Change{{Name: "a1", Pool: "gone", Address: at(4)}}, 100, "s1", []string{"there is no such pool"}},
		{"too many", map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1}, Surrogate{Address: at(3), Weight: 1})}, nil, 3,
			"s1; web/10.2.1.2:80 of dns web.example.net:80", []string{"the router has at most 3"}},
		{"loopback of DNS", map[Key]Set{webDNS: set(Surrogate{Address: netip.MustParseAddrPort("127.0.0.1:80"), Weight: 1})}, nil, 100, "s1", []string{"no address that another host can have"}},
		{"the VIP", map[Key]Set{webDNS: set(Surrogate{Address: netip.MustParseAddrPort("10.9.9.9:80"), Weight: 1})}, nil, 100, "s1", []string{"it is the address of a VIP"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changes := Changes{}
			for _, c := range tt.changes {
				changes = changes.with(c)
			}
			got, left := Merge(file, tt.sets, changes, tt.most)
			if s := shown(got, "web"); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
			if len(left) != len(tt.left) {
				t.Fatalf("left out %v, want %q", left, tt.left)
			}
			for i, l := range left {
				if !strings.Contains(l.Why, tt.left[i]) {
					t.Errorf("left out: %v, want %q", l, tt.left[i])
				}
			}
			if s := shown(file, "web"); s != "s1" {
				t.Errorf("the file's configuration has changed: %q", s)
			}
		})
	}
}

// TestMergeTwoPools: a server that two pools discover has a name in each.
func TestMergeTwoPools(t *testing.T) {
	sets := map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1}), otherDNS: set(Surrogate{Address: at(2), Weight: 1})}
	got, left := Merge(parse(t, twoSources), sets, nil, 100)
	if a, b := shown(got, "web"), shown(got, "other"); len(left) != 0 || !strings.Contains(a, "web/10.2.1.2:80") || !strings.Contains(b, "other/10.2.1.2:80") {
		t.Errorf("%q, %q, left out %v", a, b, left)
	}
}

func TestMergeZones(t *testing.T) {
	file := parse(t, `  web:
    policy: nearest
    nearest: [{prefix: 192.0.2.0/24, surrogates: [f1]}]
    discover: {file: /f}
`)
	zone := func(prefix string, names ...string) config.Zone {
		return config.Zone{Prefix: netip.MustParsePrefix(prefix), Surrogates: names}
	}
	sets := map[Key]Set{{"web", "file /f"}: {
		Surrogates: []Surrogate{{Name: "f1", Address: at(1), Weight: 1}},
		Zones:      []config.Zone{zone("192.0.2.0/24", "other"), zone("198.51.100.0/25", "f1"), zone("0.0.0.0/0", "f1")},
	}}
	got, _ := Merge(file, sets, nil, 100)
	var prefixes []string
	for _, z := range got.Pools[0].Nearest {
		prefixes = append(prefixes, z.Prefix.String()+" "+z.Surrogates[0])
	}
	if want := []string{"198.51.100.0/25 f1", "192.0.2.0/24 f1", "0.0.0.0/0 f1"}; !slices.Equal(prefixes, want) {
		t.Errorf("zones %q, want %q", prefixes, want)
	}
}

// TestMergeProperties: whatever sources and the API say, names are unique, limits hold, the file's surrogates are there, and the order of
// the answers does not matter.
func TestMergeProperties(t *testing.T) {
	file := parse(t, twoSources)
	random := rand.New(rand.NewPCG(1, 2))
	one := func() Surrogate {
		s := Surrogate{Address: netip.AddrPortFrom(at(1+random.IntN(12)).Addr(), uint16(79+random.IntN(3))), Weight: random.IntN(260) - 2, Priority: random.IntN(3)}
		if random.IntN(2) == 0 {
			s.Name = []string{"s1", "o1", "a1", "f1", "f2", "bad name", "web/10.2.1.2:80"}[random.IntN(7)]
		}
		return s
	}
	for range 2000 {
		sets, changes := make(map[Key]Set), Changes{}
		for _, key := range []Key{webDNS, webFile, otherDNS} {
			var s Set
			for range random.IntN(8) {
				s.Surrogates = append(s.Surrogates, one())
			}
			s.Surrogates = sorted(s.Surrogates)
			sets[key] = s
		}
		for range random.IntN(4) {
			c := Change{Name: []string{"s1", "a1", "a2", "f1"}[random.IntN(4)], Gone: random.IntN(3) == 0}
			if c.Name[0] == 'a' {
				c.Pool, c.Address, c.Gone = []string{"web", "other", "gone"}[random.IntN(3)], one().Address, false
			}
			changes = changes.with(c)
		}
		most := 2 + random.IntN(10)
		got, left := Merge(file, sets, changes, most)
		again, _ := Merge(file, sets, changes, most)
		named, total := make(map[string]bool), 0
		for _, p := range got.Pools {
			for i, s := range p.Surrogates {
				total++
				if named[s.Name] {
					t.Fatalf("%q is there twice: %q, %q", s.Name, shown(got, "web"), shown(got, "other"))
				}
				named[s.Name] = true
				if why := file.Refuses(&got.Pools[0], &s); s.Origin != "" && p.Name == "web" && why != "" {
					t.Fatalf("%+v is in its pool: %s", s, why)
				}
				if s != again.Pools[slices.IndexFunc(got.Pools, func(q config.Pool) bool { return q.Name == p.Name })].Surrogates[i] {
					t.Fatal("the same input gives another configuration")
				}
			}
		}
		if total > most {
			t.Fatalf("%d surrogates, at most %d", total, most)
		}
		if !named["o1"] || named["s1"] == changes["s1"].Gone {
			t.Fatalf("the file's surrogates: %v under %v", named, changes)
		}
		for _, l := range left {
			if l.Why == "" || l.Pool == "" {
				t.Fatalf("left out without a reason: %+v", l)
			}
		}
	}
}

// TestChanges follows the changes of one surrogate of the file, one of a source and one of the API.
func TestChanges(t *testing.T) {
	file := parse(t, twoSources)
	sets := map[Key]Set{webDNS: set(Surrogate{Address: at(2), Weight: 1})}
	cs := Changes{}
	step := func(want string, make func(w *World) (Changes, error)) {
		t.Helper()
		inForce, _ := Merge(file, sets, cs, 100)
		next, err := make(&World{File: file, InForce: inForce})
		if err != nil {
			t.Fatal(err)
		}
		cs = next
		if inForce, _ = Merge(file, sets, cs, 100); shown(inForce, "web") != want {
			t.Fatalf("got %q, want %q", shown(inForce, "web"), want)
		}
	}
	fails := func(want error, make func(w *World) (Changes, error)) {
		t.Helper()
		inForce, _ := Merge(file, sets, cs, 100)
		if _, err := make(&World{File: file, InForce: inForce}); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	const found = "web/10.2.1.2:80 of dns web.example.net:80"
	step("s1; a1*3 of api; "+found, func(w *World) (Changes, error) { return cs.Add(w, "web", "a1", at(9), 3) })
	step("s1; a1*3 of api; "+found, func(w *World) (Changes, error) { return cs.Add(w, "web", "a1", at(9), 3) })
	fails(ErrConflict, func(w *World) (Changes, error) { return cs.Add(w, "web", "a1", at(8), 3) })
	fails(ErrConflict, func(w *World) (Changes, error) { return cs.Add(w, "web", "s1", at(8), 1) })
	fails(ErrConflict, func(w *World) (Changes, error) { return cs.Add(w, "web", "a b", at(8), 1) })
	fails(ErrUnknown, func(w *World) (Changes, error) { return cs.Add(w, "wbe", "a2", at(8), 1) })
	fails(ErrUnknown, func(w *World) (Changes, error) { return cs.Weigh(w, "a2", 1) })
	fails(ErrConflict, func(w *World) (Changes, error) { return cs.Weigh(w, "s1", 257) })
	for want, of := range map[string]func(w *World) (Changes, error){
		`pool "wbe": not found (did you mean web?)`:                          func(w *World) (Changes, error) { return cs.Add(w, "wbe", "a2", at(8), 1) },
		`surrogate "s2": not found (did you mean s1?)`:                       func(w *World) (Changes, error) { return cs.Drain(w, "s2", true) },
		`surrogate "a2" is not changed by API: not found (did you mean a1?)`: func(*World) (Changes, error) { return cs.Reset("a2") },
	} {
		inForce, _ := Merge(file, sets, cs, 100)
		if _, err := of(&World{File: file, InForce: inForce}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	step("s1*5; a1*3 of api; "+found, func(w *World) (Changes, error) { return cs.Weigh(w, "s1", 5) })
	step("s1*5; a1*4 of api; "+found, func(w *World) (Changes, error) { return cs.Weigh(w, "a1", 4) })
	step("s1*5; a1*4 of api; web/10.2.1.2:80*2 of dns web.example.net:80", func(w *World) (Changes, error) { return cs.Weigh(w, "web/10.2.1.2:80", 2) })
	step("s1; a1*4 of api; web/10.2.1.2:80*2 of dns web.example.net:80", func(w *World) (Changes, error) { return cs.Weigh(w, "s1", 1) })
	if _, ok := cs["s1"]; ok {
		t.Error("the file's own weight is no change")
	}
	// A removal waits for the sessions: until then the surrogate is in its pool.
	step("s1; a1*4 of api; web/10.2.1.2:80*2 of dns web.example.net:80", func(w *World) (Changes, error) { return cs.Remove(w, "a1", false) })
	if c := cs["a1"]; !c.Drains() {
		t.Error("a leaving surrogate gets sessions")
	}
	step("s1; a1*4 of api; web/10.2.1.2:80*2 of dns web.example.net:80", func(w *World) (Changes, error) { return cs.Drain(w, "a1", false) })
	if c := cs["a1"]; c.Drains() || c.Leaving {
		t.Error("undrain does not keep a leaving surrogate")
	}
	step("s1; web/10.2.1.2:80*2 of dns web.example.net:80", func(w *World) (Changes, error) { return cs.Remove(w, "a1", true) })
	step("s1", func(w *World) (Changes, error) { return cs.Remove(w, "web/10.2.1.2:80", true) })
	fails(ErrUnknown, func(w *World) (Changes, error) { return cs.Remove(w, "web/10.2.1.2:80", true) })
	step("", func(w *World) (Changes, error) { return cs.Remove(w, "s1", true) })
	fails(ErrConflict, func(w *World) (Changes, error) { return cs.Add(w, "web", "s1", at(1), 1) })
	fails(ErrUnknown, func(*World) (Changes, error) { return cs.Reset("a1") })
	step("s1", func(*World) (Changes, error) { return cs.Reset("s1") })
	step("s1; "+found, func(*World) (Changes, error) { return cs.Reset() })
	if len(cs) != 0 {
		t.Errorf("left after a reset: %v", cs)
	}
}

// TestChangesUnder: a change stands until the file says something else of its surrogate.
func TestChangesUnder(t *testing.T) {
	before := parse(t, twoSources)
	w := &World{File: before, InForce: before}
	cs := Changes{}
	for _, make := range []func(cs Changes) (Changes, error){
		func(cs Changes) (Changes, error) { return cs.Weigh(w, "s1", 5) },
		func(cs Changes) (Changes, error) { return cs.Drain(w, "s1", true) },
		func(cs Changes) (Changes, error) { return cs.Remove(w, "o1", true) },
		func(cs Changes) (Changes, error) { return cs.Add(w, "web", "a1", at(9), 1) },
		func(cs Changes) (Changes, error) { return cs.Add(w, "web", "a2", at(8), 1) },
	} {
		var err error
		if cs, err = make(cs); err != nil {
			t.Fatal(err)
		}
	}
	if kept, dropped := cs.Under(before); len(kept) != len(cs) || len(dropped) != 0 {
		t.Errorf("under the same file: %v kept, %v dropped", kept, dropped)
	}
	after := parse(t, `  web: {surrogates: [{name: s1, address: "10.2.1.1:80", weight: 2}, {name: a1, address: "10.2.1.9:80"}]}
  other: {surrogates: [{name: o1, address: "10.2.2.1:80"}]}
`)
	kept, dropped := cs.Under(after)
	if want := []string{"a1", "s1"}; !slices.Equal(dropped, want) {
		t.Errorf("dropped %q, want %q", dropped, want)
	}
	if c := kept["s1"]; !c.Drain || c.Weight != nil {
		t.Errorf("s1: %+v, want it drained and nothing else", c)
	}
	if !kept["o1"].Gone || kept["a2"].Pool != "web" || len(kept) != 3 {
		t.Errorf("kept %v", kept)
	}
}

func TestChangesAreBounded(t *testing.T) {
	file := parse(t, twoSources)
	w, cs := &World{File: file, InForce: file}, make(Changes)
	for i := range MaxChanges {
		name := fmt.Sprint("a", i)
		cs[name] = Change{Name: name, Gone: true}
	}
	if _, err := cs.Add(w, "web", "b", at(9), 1); !errors.Is(err, ErrConflict) {
		t.Errorf("add: %v", err)
	}
	if _, err := cs.Drain(w, "s1", true); !errors.Is(err, ErrConflict) {
		t.Errorf("drain: %v", err)
	}
}
