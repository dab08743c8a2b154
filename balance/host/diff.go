package host

import "slices"

// stepKind is what is done with an item.
type stepKind int

const (
	keepItem stepKind = iota // it may be there: it is looked at, and made if it has gone
	makeItem                 // beside, or in the place of others with its identity
	undoItem
)

type step struct {
	kind stepKind
	item Item
	old  []Item // that a makeItem takes the place of: they are only forgotten
}

// difference says how to come from the items that are there to those that are wanted: first all that is new, in order, and then, in the
// reverse order, what there is no more use for, so that nothing is missing in between.
func difference(have, want []Item) []step {
	var steps []step
	inPlace := map[string]bool{}
	for _, w := range want {
		inPlace[w.identity()] = true
		s := step{kind: makeItem, item: w}
		for _, h := range have {
			switch {
			case h.identity() != w.identity():
			case same(h, w):
				s.kind = keepItem
			default:
				s.old = append(s.old, h)
			}
		}
		if len(s.old) > 0 {
			s.kind = makeItem
		}
		steps = append(steps, s)
	}
	for _, h := range slices.Backward(have) {
		if !inPlace[h.identity()] {
			steps = append(steps, step{kind: undoItem, item: h})
		}
	}
	return steps
}
