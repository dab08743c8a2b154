package host

import "slices"

// stepKind is what to do with an item.
type stepKind int

const (
	keepItem stepKind = iota // it should exist: checked, and made again if it is gone
	makeItem                 // new, or in place of others with its identity
	undoItem
)

type step struct {
	kind stepKind
	item Item
	old  []Item // items that a makeItem replaces: they are only removed from the journal
}

// difference returns the steps from the existing items to the desired ones: first everything new, in order, then everything unused in
// reverse order, so that nothing is missing in between.
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
