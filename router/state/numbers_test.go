package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/config"
)

func poolsNamed(names string) (out []config.Pool) {
	for name := range strings.FieldsSeq(names) {
		out = append(out, config.Pool{Name: name})
	}
	return out
}

func set(ids ...uint16) map[uint16]bool {
	out := make(map[uint16]bool)
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// upTo numbers names from 0 on.
func upTo(n int, except ...string) map[string]uint16 {
	out := make(map[string]uint16)
	for i := range n {
		out[fmt.Sprint("old", i)] = uint16(i)
	}
	for _, name := range except {
		delete(out, name)
	}
	return out
}

func TestNumberPools(t *testing.T) {
	abc := map[string]uint16{"a": 0, "b": 1, "c": 2}
	for _, tt := range []struct {
		name  string
		n     Numbers
		pools string
		want  []uint16 // nil: refused
	}{
		{"at the start", Numbers{}, "a b c", []uint16{0, 1, 2}},
		{"in another order", Numbers{Pools: abc}, "c a b", []uint16{2, 0, 1}},
		{"one less", Numbers{Pools: abc}, "c b", []uint16{2, 1}},
		{"one more in front", Numbers{Pools: abc}, "x a b c", []uint16{3, 0, 1, 2}},
		{"one that comes back", Numbers{Pools: abc, InForce: set(0)}, "b a", []uint16{1, 0}},
		{"numbers that sessions carry without a name", Numbers{Pools: abc, Carried: holds(Carried{Pools: set(3, 4)})}, "a x", []uint16{0, 5}},
		{
			"all were given: not one in force, and not one that a session carries",
			Numbers{Pools: upTo(kernel.MaxPools), InForce: set(0, 1), Carried: holds(Carried{Pools: set(2, 4)})}, "old3 x y", []uint16{3, 5, 6},
		},
		{"none is left", Numbers{Pools: upTo(kernel.MaxPools), InForce: set(0), Carried: holds(Carried{Pools: upToSet(1, kernel.MaxPools)})}, "x", nil},
		{"the one that is left", Numbers{Pools: upTo(kernel.MaxPools), Carried: holds(Carried{Pools: upToSet(0, kernel.MaxPools-1)})}, "x", []uint16{uint16(kernel.MaxPools - 1)}},
	} {
		got, err := tt.n.numberPools(poolsNamed(tt.pools))
		if (err != nil) != (tt.want == nil) || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

func holds(h Carried) func() (Carried, error) { return func() (Carried, error) { return h, nil } }

func upToSet(from, to int) map[uint16]bool {
	out := make(map[uint16]bool)
	for i := from; i < to; i++ {
		out[uint16(i)] = true
	}
	return out
}

func TestNumberSurrogates(t *testing.T) {
	at := func(n int) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 80) }
	parse := func(text string) (out []config.Surrogate) { // name@address
		for field := range strings.FieldsSeq(text) {
			var name rune
			var n int
			_, _ = fmt.Sscanf(field, "%c@%d", &name, &n)
			out = append(out, config.Surrogate{Name: string(name), Address: at(n)})
		}
		return out
	}
	known := []NumberedSurrogate{{"a", at(1), 0}, {"b", at(2), 1}, {"c", at(1), 2}}
	for _, tt := range []struct {
		name       string
		n          Numbers
		surrogates string
		want       []uint16
		fresh      []uint16
	}{
		{"at the start", Numbers{}, "a@1 b@2", []uint16{0, 1}, []uint16{0, 1}},
		{"in another order, two at one address", Numbers{Surrogates: known}, "c@1 b@2 a@1", []uint16{2, 1, 0}, nil},
		{"another name", Numbers{Surrogates: known}, "x@2", []uint16{1}, nil},
		{"another address", Numbers{Surrogates: known}, "a@7 b@2", []uint16{3, 1}, []uint16{3}},
		{"a number that only legs carry", Numbers{Surrogates: known, Carried: holds(Carried{Surrogates: []NumberedSurrogate{{"", at(9), 3}}})}, "x@7", []uint16{4}, []uint16{4}},
		{"one that comes back to its legs", Numbers{Surrogates: known, Carried: holds(Carried{Surrogates: []NumberedSurrogate{{"", at(9), 3}}})}, "x@9 y@8", []uint16{3, 4}, []uint16{4}},
	} {
		got, fresh, err := tt.n.numberSurrogates(parse(tt.surrogates))
		if err != nil || !slices.Equal(got, tt.want) || !slices.Equal(fresh, tt.fresh) {
			t.Errorf("%s: %v, new %v, %v; want %v, new %v", tt.name, got, fresh, err, tt.want, tt.fresh)
		}
	}
}

// TestNumbersOfRandomReloads adds and removes pools while sessions stay: a number means one name as long as any session carries
// it.
func TestNumbersOfRandomReloads(t *testing.T) {
	for seed := range uint64(20) {
		names := make(map[string]uint16)
		sessions := make(map[uint16]string) // the name of a number when its sessions started
		inForce := make(map[uint16]bool)
		r := newSeeded(seed)
		for range 200 {
			var wanted []config.Pool
			for i := range 400 {
				if r.IntN(4) == 0 {
					wanted = append(wanted, config.Pool{Name: fmt.Sprint("p", i)})
				}
			}
			r.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
			n := Numbers{Pools: maps.Clone(names), InForce: inForce, Carried: func() (Carried, error) {
				return Carried{Pools: set(slices.Collect(maps.Keys(sessions))...)}, nil
			}}
			ids, err := n.numberPools(wanted)
			if err != nil {
				sessions = make(map[uint16]string) // they end
				continue
			}
			was := maps.Clone(inForce)
			clear(inForce)
			for i, id := range ids {
				if name, ok := sessions[id]; ok && name != wanted[i].Name {
					t.Fatalf("seed %d: %s has number %d, which sessions of %s carry", seed, wanted[i].Name, id, name)
				}
				if had, ok := names[wanted[i].Name]; was[id] && (!ok || had != id) {
					t.Fatalf("seed %d: %s has number %d, which another had until now", seed, wanted[i].Name, id)
				}
				if inForce[id] {
					t.Fatalf("seed %d: number %d is given twice", seed, id)
				}
				inForce[id] = true
			}
			for i, id := range ids {
				maps.DeleteFunc(names, func(_ string, have uint16) bool { return have == id })
				names[wanted[i].Name] = id
				if r.IntN(8) == 0 {
					sessions[id] = wanted[i].Name
				}
			}
		}
	}
}

func newSeeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
