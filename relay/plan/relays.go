package plan

import (
	"cmp"
	"slices"
	"time"
)

// group is a set of candidate relays, ordered by name, with their distances. A time of 0 is unknown.
type group struct {
	q        *Question
	relays   []Relay
	toClient []time.Duration
	toServer []time.Duration
	between  [][]time.Duration
}

func newGroup(q *Question, relays []Relay) *group {
	g := &group{q: q, relays: relays}
	for _, r := range relays {
		client, _ := q.RTTs.RTT(q.Client, r.Name)
		server, _ := q.RTTs.RTT(r.Name, q.Server)
		g.toClient, g.toServer = append(g.toClient, client), append(g.toServer, server)
		row := make([]time.Duration, len(relays))
		for i, other := range relays {
			if other.Name != r.Name {
				row[i], _ = q.RTTs.RTT(r.Name, other.Name)
			}
		}
		g.between = append(g.between, row)
	}
	return g
}

// ends returns the first and last relay, possibly the same: the two with the smallest sum of distances to the ends. Among equally near ones
// (Question.Near) it returns the pair with the shortest whole route, so that a relay near both ends needs no second one. Pairs without a
// known distance are skipped; missing lists those that were as near.
func (g *group) ends() (first, last int, missing []Missing, ok bool) {
	nearest, best := time.Duration(-1), time.Duration(-1)
	g.outside(func(a, b int, d time.Duration) {
		if g.joined(a, b) && (nearest < 0 || d < nearest) {
			nearest = d
		}
	})
	g.outside(func(a, b int, d time.Duration) {
		if nearest >= 0 && d > nearest+g.q.Near {
			return
		}
		if !g.joined(a, b) {
			missing = append(missing, Missing{g.relays[a].Name, g.relays[b].Name, "the two are " + text(d) + " away from the ends"})
			return
		}
		if way := d + g.between[a][b]; best < 0 || way < best || way == best && a == b && first != last {
			first, last, best = a, b, way
		}
	})
	return first, last, missing, best >= 0
}

// outside visits each pair of first and last relay whose distances to the ends are known.
func (g *group) outside(visit func(a, b int, d time.Duration)) {
	g.pairs(func(a, b int) {
		if g.toClient[a] > 0 && g.toServer[b] > 0 && (a == b || g.q.Most > 1) {
			visit(a, b, g.toClient[a]+g.toServer[b])
		}
	})
}

func (g *group) joined(a, b int) bool { return a == b || g.between[a][b] > 0 }

func (g *group) pairs(visit func(a, b int)) {
	for a := range g.relays {
		for b := range g.relays {
			visit(a, b)
		}
	}
}

// path is relays from the first one on, and the time along them.
type path struct {
	relays []int // nil: none
	total  time.Duration
}

func (p path) less(o path) bool {
	if o.relays == nil {
		return true
	}
	// The group is sorted, so the order of indices is that of names.
	return cmp.Or(cmp.Compare(p.total, o.total), cmp.Compare(len(p.relays), len(o.relays)), slices.Compare(p.relays, o.relays)) < 0
}

// longest is the longest RTT between two adjacent relays.
func (g *group) longest(p path) time.Duration {
	var out time.Duration
	for i, at := range p.relays[1:] {
		out = max(out, g.between[p.relays[i]][at])
	}
	return out
}

// divide returns, for each number of relays from 2 to Question.Most, the path from first to last with at most so many relays whose longest
// RTT between adjacent ones is minimal (min-max, section 4.4); ties go to the smallest sum. The first element exists; later ones may be as
// long as those before.
func (g *group) divide(first, last int) []path {
	var out []path
	for n := 2; n <= g.q.Most; n++ {
		out = append(out, g.shortest(first, last, n-1, g.width(first, last, n-1)))
	}
	return out
}

// width is the smallest possible longest leg with at most so many legs.
func (g *group) width(first, last, legs int) time.Duration {
	reached := slices.Clone(g.between[first]) // by at most one leg
	for range legs - 1 {
		next := slices.Clone(reached)
		g.pairs(func(a, b int) {
			if a == first || b == first || reached[a] == 0 || g.between[a][b] == 0 {
				return
			}
			if w := max(reached[a], g.between[a][b]); next[b] == 0 || w < next[b] {
				next[b] = w
			}
		})
		reached = next
	}
	return reached[last]
}

// shortest is the path with the smallest sum among those with at most so many legs, none longer than width.
func (g *group) shortest(first, last, legs int, width time.Duration) path {
	reached := make([]path, len(g.relays))
	reached[first] = path{relays: []int{first}}
	for range legs {
		next := slices.Clone(reached)
		g.pairs(func(a, b int) {
			rtt := g.between[a][b]
			if reached[a].relays == nil || rtt == 0 || rtt > width {
				return
			}
			total := reached[a].total + rtt
			if next[b].relays != nil && total > next[b].total {
				return
			}
			p := path{append(slices.Clone(reached[a].relays), b), total}
			if p.less(next[b]) {
				next[b] = p
			}
		})
		reached = next
	}
	return reached[last]
}
