package distances

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/api"
)

// line is a line of switches 1, 2, 3 …: 9 is at none.
func line(from, to uint64) (int, bool) {
	if from == 9 || to == 9 {
		return 0, from == to
	}
	if from > to {
		from, to = to, from
	}
	return int(to - from), true
}

func clients(at uint64, addresses ...string) []Client {
	var all []Client
	for _, a := range addresses {
		all = append(all, Client{netip.MustParseAddr(a), at})
	}
	return all
}

func zone(prefix string, surrogates ...string) api.ControllerZone {
	return api.ControllerZone{Prefix: netip.MustParsePrefix(prefix), Surrogates: surrogates}
}

func TestZones(t *testing.T) {
	surrogates := []Surrogate{{"se1", 1, true}, {"se2", 5, true}}
	for _, tt := range []struct {
		name       string
		clients    []Client
		surrogates []Surrogate
		most       int
		want       []api.ControllerZone
		left       int
	}{
		{"nobody", nil, surrogates, 10, nil, 0},
		{"the nearest first", slices.Concat(clients(1, "10.0.1.1"), clients(4, "10.0.4.1")), surrogates, 10,
			[]api.ControllerZone{zone("10.0.1.0/24", "se1", "se2"), zone("10.0.4.0/24", "se2", "se1")}, 0},
		{"the same distance: by name", clients(3, "10.0.3.1"), surrogates, 10, []api.ControllerZone{zone("10.0.3.0/24", "se1", "se2")}, 0},
		{"one that lives elsewhere than its neighbours", slices.Concat(clients(5, "10.0.1.9"), clients(1, "10.0.1.1", "10.0.1.2")), surrogates, 10,
			[]api.ControllerZone{zone("10.0.1.0/24", "se1", "se2"), zone("10.0.1.9/32", "se2", "se1")}, 0},
		{"the same order from another switch", slices.Concat(clients(2, "10.0.1.9"), clients(1, "10.0.1.1")), surrogates, 10,
			[]api.ControllerZone{zone("10.0.1.0/24", "se1", "se2")}, 0},
		{"unknown and unreachable last", clients(5, "2001:db8::1"), []Surrogate{{"a", 5, false}, {"b", 9, true}, {"c", 1, true}}, 10,
			[]api.ControllerZone{zone("2001:db8::/64", "c", "a", "b")}, 0},
		{"both families, one host", slices.Concat(clients(1, "10.0.1.1", "2001:db8::1")), surrogates[:1], 10,
			[]api.ControllerZone{zone("10.0.1.0/24", "se1"), zone("2001:db8::/64", "se1")}, 0},
		{"the bound", slices.Concat(clients(5, "10.0.1.9"), clients(1, "10.0.1.1", "10.0.1.2"), clients(5, "10.0.2.1")), surrogates, 2,
			[]api.ControllerZone{zone("10.0.1.0/24", "se1", "se2"), zone("10.0.2.0/24", "se2", "se1")}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, left := Zones(Network{Clients: tt.clients, Surrogates: tt.surrogates, Hops: line, Bits4: 24, Bits6: 64, Most: tt.most})
			if d := cmp.Diff(tt.want, got, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.EquateEmpty()); d != "" || left != tt.left {
				t.Errorf("%s\n%d left, want %d", d, left, tt.left)
			}
		})
	}
}

// Every client's longest zone has the order of its own switch, however clients are spread; and the order of the clients does not matter.
func TestEveryClientHasItsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	surrogates := []Surrogate{{"a", 1, true}, {"b", 4, true}, {"c", 6, true}, {"d", 9, true}}
	for range 200 {
		n := Network{Surrogates: surrogates, Hops: line, Bits4: 24, Bits6: 64, Most: 1 << 20}
		for i := range 1 + r.IntN(60) {
			n.Clients = append(n.Clients, Client{netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", r.IntN(4), i)), 1 + r.Uint64N(8)})
		}
		zones, left := Zones(n)
		if left != 0 {
			t.Fatalf("%d clients have no zone", left)
		}
		for _, c := range n.Clients {
			var best *api.ControllerZone
			for i := range zones {
				if z := &zones[i]; z.Prefix.Contains(c.Address) && (best == nil || z.Prefix.Bits() > best.Prefix.Bits()) {
					best = z
				}
			}
			if best == nil || !slices.Equal(best.Surrogates, n.order(c.At)) {
				t.Fatalf("client %v at %d has %v, want %v", c.Address, c.At, best, n.order(c.At))
			}
		}
		r.Shuffle(len(n.Clients), func(i, j int) { n.Clients[i], n.Clients[j] = n.Clients[j], n.Clients[i] })
		if again, _ := Zones(n); !cmp.Equal(zones, again, cmpopts.EquateComparable(netip.Prefix{})) {
			t.Fatal("another order of the clients makes other zones")
		}
	}
}
