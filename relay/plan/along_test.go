package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestAlong: each route of a plan takes what it takes when it is asked for by itself.
func TestAlong(t *testing.T) {
	random := seeded(t)
	ways := 0
	for range 500 {
		q := world(random)
		p := choose(t, q)
		check := func(relays []string, want *Times) {
			t.Helper()
			ways++
			got, ok := Along(q, relays)
			if diff := cmp.Diff(*want, got, cmpopts.IgnoreUnexported(Times{})); !ok || diff != "" || got.size != want.size {
				t.Fatalf("along %q: known %v (-plan +along):\n%s", relays, ok, diff)
			}
		}
		if p.Route != nil {
			check(p.Route.Relays, &p.Route.Times)
		}
		if p.Direct != nil {
			check(nil, p.Direct)
		}
		for _, c := range p.Others {
			check(c.Relays, &c.Times)
		}
		if _, ok := Along(q, []string{"nobody"}); ok {
			t.Fatal("a way over a relay that there is not has a time")
		}
	}
	if ways < 500 {
		t.Errorf("only %d ways were looked at", ways)
	}
}
