package choose

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/router/config"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var policies = []config.Policy{config.RoundRobin, config.Weighted, config.LeastSessions, config.Hash, config.Nearest}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func up(weights ...int) []Candidate {
	out := make([]Candidate, len(weights))
	for i, w := range weights {
		out[i] = Candidate{Name: fmt.Sprintf("s%d", i), Weight: w, Up: true}
	}
	return out
}

func counts(table []uint16, n int) []int {
	out := make([]int, n)
	for _, i := range table {
		out[i]++
	}
	return out
}

func TestTable(t *testing.T) {
	tests := []struct {
		name       string
		policy     config.Policy
		candidates []Candidate
		want       []uint16
	}{
		{"round-robin, 1 each", config.RoundRobin, up(5, 1, 3), []uint16{0, 1, 2}},
		{"least-sessions, 1 each", config.LeastSessions, up(5, 1, 3), []uint16{0, 1, 2}},
		{"nearest, clients of no zone", config.Nearest, up(5, 1, 3), []uint16{0, 1, 2}},
		{"weighted, nginx's example", config.Weighted, up(5, 1, 1), []uint16{0, 0, 1, 0, 2, 0, 0}},
		{"weighted in lowest terms", config.Weighted, up(100, 200), []uint16{1, 0, 1}},
		{"weighted, all the same", config.Weighted, up(7, 7), []uint16{0, 1}},
		{"down", config.RoundRobin, []Candidate{{Name: "a", Weight: 1}, {Name: "b", Weight: 1, Up: true}}, []uint16{1}},
		{"draining", config.Weighted, []Candidate{{Name: "a", Weight: 9, Up: true, Draining: true}, {Name: "b", Weight: 1, Up: true}}, []uint16{1}},
		{"weight 0", config.LeastSessions, up(0, 1), []uint16{1}},
		{"all down", config.Hash, []Candidate{{Name: "a", Weight: 1}}, nil},
		{"all of weight 0", config.Weighted, up(0, 0), nil},
		{"none", config.Hash, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Table(tt.policy, tt.candidates), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Table (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTableProperties: properties of every policy, on random pools.
func TestTableProperties(t *testing.T) {
	random := seeded(t)
	for range 300 {
		candidates := make([]Candidate, 1+random.IntN(40))
		choosable := 0
		for i, at := range random.Perm(len(candidates)) {
			candidates[i] = Candidate{Name: fmt.Sprintf("s%d", at), Weight: random.IntN(257), Up: random.IntN(5) > 0, Draining: random.IntN(8) == 0}
			if candidates[i].Excluded() == "" {
				choosable++
			}
		}
		for _, policy := range policies {
			table := Table(policy, candidates)
			if !slices.Equal(table, Table(policy, slices.Clone(candidates))) {
				t.Fatalf("%s: two tables of %+v differ", policy, candidates)
			}
			if len(table) > Slots || (len(table) == 0) != (choosable == 0) {
				t.Fatalf("%s: %d slots for %d that can be chosen", policy, len(table), choosable)
			}
			for i, n := range counts(table, len(candidates)) {
				c := &candidates[i]
				if c.Excluded() != "" && n > 0 {
					t.Fatalf("%s: %+v has %d slots", policy, c, n)
				}
				if c.Excluded() == "" && n == 0 && policy != config.Hash {
					t.Fatalf("%s: %+v has no slot", policy, c)
				}
			}
		}
	}
}

func TestWeightedShares(t *testing.T) {
	random := seeded(t)
	for range 200 {
		weights := make([]int, 1+random.IntN(60))
		sum := 0
		for i := range weights {
			weights[i] = 1 + random.IntN(256)
			sum += weights[i]
		}
		table := Table(config.Weighted, up(weights...))
		for i, n := range counts(table, len(weights)) {
			want := float64(weights[i]) / float64(sum) * float64(len(table))
			// Scaled tables first give each candidate one slot, at most at the expense of the heavy ones.
			if slack := 1 + want*float64(len(weights))/Slots; float64(n) < want-slack || float64(n) > want+2 {
				t.Fatalf("weight %d of %d has %d of %d slots, want about %.1f", weights[i], sum, n, len(table), want)
			}
		}
	}
}

// TestWeightedIsSmooth: in any stretch of the sequence a candidate is chosen about as often as its weight says.
func TestWeightedIsSmooth(t *testing.T) {
	weights := []int{1, 2, 3, 10, 16}
	table := Table(config.Weighted, up(weights...))
	if len(table) != 32 {
		t.Fatalf("%d slots, want the sum of the weights, 32", len(table))
	}
	for start := range table {
		for length := 1; length <= len(table); length++ {
			seen := make([]int, len(weights))
			for k := range length {
				seen[table[(start+k)%len(table)]]++
			}
			for i, n := range seen {
				want := float64(weights[i]*length) / 32
				if float64(n) < want-2 || float64(n) > want+2 {
					t.Fatalf("slots %d to %d have surrogate %d %d times, want about %.1f", start, start+length, i, n, want)
				}
			}
		}
	}
}

func TestHashIsBalanced(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 10, 30} {
		weights := make([]int, n)
		for i := range weights {
			weights[i] = 4
		}
		for i, got := range counts(Table(config.Hash, up(weights...)), n) {
			if want := Slots / n; got < want || got > want+1 {
				t.Errorf("surrogate %d of %d has %d slots, want %d or one more", i, n, got, want)
			}
		}
	}
	got := counts(Table(config.Hash, up(1, 2, 5, 0)), 4)
	for i, want := range []int{Slots / 8, Slots / 4, Slots * 5 / 8, 0} {
		if got[i] < want-3 || got[i] > want+3 {
			t.Errorf("surrogate %d has %d slots, want about %d", i, got[i], want)
		}
	}
}

// TestHashMovesOnlyTheShareOfTheLost: a surrogate that goes down moves only its own slots, also when others are down already; all
// come back with it.
func TestHashMovesOnlyTheShareOfTheLost(t *testing.T) {
	random := seeded(t)
	for range 60 {
		candidates := make([]Candidate, 2+random.IntN(30))
		for i := range candidates {
			candidates[i] = Candidate{Name: fmt.Sprintf("edge-%d", random.IntN(1<<30)), Weight: 1 + random.IntN(4), Up: true}
		}
		first := Table(config.Hash, candidates)
		before := first
		for _, lost := range random.Perm(len(candidates))[:len(candidates)-1] {
			if random.IntN(2) == 0 {
				candidates[lost].Up = false
			} else {
				candidates[lost].Draining = true
			}
			after := Table(config.Hash, candidates)
			for slot := range after {
				if (before[slot] == uint16(lost)) == (before[slot] == after[slot]) {
					t.Fatalf("slot %d: %d before, %d after the loss of %d", slot, before[slot], after[slot], lost)
				}
			}
			before = after
		}
		for i := range candidates {
			candidates[i].Up, candidates[i].Draining = true, false
		}
		if !slices.Equal(first, Table(config.Hash, candidates)) {
			t.Fatal("the table is another when all are back")
		}
	}
}

// TestHashSpreadsTheShareOfTheLost: its share is spread over all others.
func TestHashSpreadsTheShareOfTheLost(t *testing.T) {
	const n = 10
	candidates := up(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	before := counts(Table(config.Hash, candidates), n)
	candidates[3].Up = false
	for i, got := range counts(Table(config.Hash, candidates), n) {
		if i != 3 && (got <= before[i] || got > before[i]+before[3]/3) {
			t.Errorf("surrogate %d has %d slots after, %d before, of %d to share out", i, got, before[i], before[3])
		}
	}
}

// TestHashMovesLittleWhenThePoolChanges: removing a surrogate from the file moves its share and a little more (Maglev section 3.4
// says why it is not exactly its share).
func TestHashMovesLittleWhenThePoolChanges(t *testing.T) {
	for _, n := range []int{2, 5, 10} {
		weights := make([]int, n)
		for i := range weights {
			weights[i] = 1
		}
		before := Table(config.Hash, up(weights...))
		after := Table(config.Hash, up(weights[1:]...)) // s0 to s(n-2): the last is gone
		moved := 0
		for slot := range before {
			if before[slot] != after[slot] {
				moved++
			}
		}
		if limit := Slots/n + Slots*6/100; moved > limit {
			t.Errorf("the loss of one of %d moves %d slots of %d, want at most %d", n, moved, Slots, limit)
		}
	}
}

func TestHashDoesNotDependOnTheOrder(t *testing.T) {
	random := seeded(t)
	candidates := up(1, 2, 3, 4, 5, 6)
	candidates[2].Up = false
	want := Table(config.Hash, candidates)
	shuffled := slices.Clone(candidates)
	random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for slot, i := range Table(config.Hash, shuffled) {
		if shuffled[i].Name != candidates[want[slot]].Name {
			t.Fatalf("slot %d is %s's, in another order %s's", slot, candidates[want[slot]].Name, shuffled[i].Name)
		}
	}
}

func TestHashPath(t *testing.T) {
	for _, path := range []string{"", "/", "/video/a.mp4", "/\xff%41"} {
		std := fnv.New64a()
		std.Write([]byte(path))
		if got := HashPath([]byte(path)); got != std.Sum64() {
			t.Errorf("HashPath(%q) = %x, hash/fnv %x", path, got, std.Sum64())
		}
		if got := HashPath([]byte(path + "?a=b?c")); got != std.Sum64() {
			t.Errorf("HashPath(%q) with a query = %x, want that of the path, %x", path, got, std.Sum64())
		}
	}
}

func TestSlot(t *testing.T) {
	table := []uint16{10, 11, 12, 13, 14}
	for _, tt := range []struct {
		h    uint64
		want uint16
	}{{0, 10}, {1, 11}, {1 << 32, 11}, {1<<32 + 1, 10}, {5, 10}, {0xffffffff, 10}, {0xffffffff_fffffffe, 11}} {
		if got, ok := Slot(table, tt.h); !ok || got != tt.want {
			t.Errorf("Slot(%#x) = %d, %v, want %d", tt.h, got, ok, tt.want)
		}
	}
	if _, ok := Slot(nil, 1); ok {
		t.Error("Slot of an empty table found a surrogate")
	}
}

func TestHashQuery(t *testing.T) {
	names := []string{"id", "v"}
	hash := func(query string) uint64 {
		h, ok := HashQuery([]byte(query), names)
		if !ok {
			t.Errorf("HashQuery(%q) found no parameter", query)
		}
		return h
	}
	for _, same := range [][2]string{{"id=1&v=2", "v=2&id=1"}, {"id=1", "x=3&id=1&y"}, {"id=1", "id=1&id=2"}} {
		if hash(same[0]) != hash(same[1]) {
			t.Errorf("%q and %q hash differently", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"id=1", "id=2"}, {"id=1", "v=1"}, {"id=1&v=2", "id=12"}, {"id=", "v="}, {"id=1", "id=1&v="}} {
		if hash(other[0]) == hash(other[1]) {
			t.Errorf("%q and %q hash the same", other[0], other[1])
		}
	}
	if _, ok := HashQuery([]byte("idx=1&xv=2"), names); ok {
		t.Error("HashQuery found a parameter that is not there")
	}
	if got, want := Hash([]byte("/p"), []byte("x=1"), names), HashPath([]byte("/p")); got != want {
		t.Errorf("Hash without the parameters = %x, want that of the path, %x", got, want)
	}
	if got, want := Hash([]byte("/p"), []byte("id=1"), names), hash("id=1"); got != want {
		t.Errorf("Hash with a parameter = %x, want that of the parameter, %x", got, want)
	}
}

func TestPickIsRoundRobin(t *testing.T) {
	table := []uint16{4, 7, 9}
	for turn, want := range []uint16{4, 7, 9, 4} {
		if got, ok := Pick(table, uint64(turn)); !ok || got != want {
			t.Errorf("turn %d: %d, %v, want %d", turn, got, ok, want)
		}
	}
	if _, ok := Pick(nil, 0); ok {
		t.Error("Pick of an empty table found a surrogate")
	}
}

func TestLeast(t *testing.T) {
	table := []uint16{0, 1, 3}
	tests := []struct {
		name     string
		sessions []uint64
		turn     uint64
		want     uint16
	}{
		{"fewest", []uint64{5, 2, 0, 9}, 0, 1},
		{"fewest whatever the turn", []uint64{5, 2, 0, 9}, 2, 1},
		{"the first of a tie", []uint64{1, 1, 0, 1}, 0, 0},
		{"ties rotate", []uint64{1, 1, 0, 1}, 4, 1},
		{"ties rotate past the others", []uint64{1, 2, 0, 1}, 1, 3},
		{"a turn near the end of its numbers", []uint64{1, 1, 0, 0}, 1<<64 - 1, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Least(table, tt.turn, func(i uint16) uint64 { return tt.sessions[i] })
			if !ok || got != tt.want {
				t.Errorf("Least = %d, %v, want %d", got, ok, tt.want)
			}
		})
	}
	if _, ok := Least(nil, 0, nil); ok {
		t.Error("Least of an empty table found a surrogate")
	}
}

func TestNearest(t *testing.T) {
	zones := []config.Zone{
		{Prefix: netip.MustParsePrefix("10.1.0.0/16"), Surrogates: []string{"s2", "s0"}},
		{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Surrogates: []string{"s1"}},
	}
	candidates := up(1, 1, 1)
	want := []ZoneTable{{zones[0].Prefix, []uint16{2}}, {zones[1].Prefix, []uint16{1}}}
	equal := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, Nearest(zones, candidates), equal); diff != "" {
		t.Errorf("all up (-want +got):\n%s", diff)
	}
	candidates[2].Draining, candidates[1].Up = true, false
	want = []ZoneTable{{zones[0].Prefix, []uint16{0}}, {zones[1].Prefix, []uint16{0}}}
	if diff := cmp.Diff(want, Nearest(zones, candidates), equal); diff != "" {
		t.Errorf("the best of each zone lost (-want +got):\n%s", diff)
	}
	candidates[0].Up = false
	for _, z := range Nearest(zones, candidates) {
		if len(z.Table) != 0 {
			t.Errorf("all lost: zone %s has %v, want nothing", z.Prefix, z.Table)
		}
	}
}

func TestZoneOf(t *testing.T) {
	zones := []config.Zone{
		{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("10.1.0.0/16")}, {Prefix: netip.MustParsePrefix("::/0")},
	}
	for client, want := range map[string]int{"10.1.2.3": 1, "10.2.0.1": 0, "192.0.2.1": -1, "2001:db8::1": 2, "::ffff:10.1.2.3": 1, "fe80::1%eth0": 2} {
		if got := ZoneOf(zones, netip.MustParseAddr(client)); got != want {
			t.Errorf("ZoneOf(%s) = %d, want %d", client, got, want)
		}
	}
}

func BenchmarkMaglev(b *testing.B) {
	weights := make([]int, 20)
	for i := range weights {
		weights[i] = 1 + i%4
	}
	candidates := up(weights...)
	candidates[3].Up = false
	for b.Loop() {
		Table(config.Hash, candidates)
	}
}
