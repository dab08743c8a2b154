package purge

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	kernel "baton/datapath/purge"
)

// TestQueue holds the queue against a list that is searched.
func TestQueue(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	q := newQueue()
	var list []*waiting
	now := time.Unix(1000, 0)
	replaced, taken := 0, 0
	for range 20000 {
		if random.IntN(3) > 0 {
			w := &waiting{mark: kernel.Mark{Socket: kernel.Socket{Cookie: random.Uint64N(200)}}}
			w.due = now.Add(time.Duration(random.IntN(500)))
			q.add(w)
			before := len(list)
			list = slices.DeleteFunc(list, func(o *waiting) bool { return o.mark.Cookie == w.mark.Cookie })
			replaced += before - len(list)
			list = append(list, w)
		} else {
			now = now.Add(time.Duration(random.IntN(100)))
			n := 1 + random.IntN(8)
			got := q.pop(now, n)
			taken += len(got)
			due := slices.DeleteFunc(slices.Clone(list), func(w *waiting) bool { return w.due.After(now) })
			if len(got) != min(n, len(due)) {
				t.Fatalf("seed %d: %d of %d that are due", seed, len(got), len(due))
			}
			slices.SortStableFunc(due, func(a, b *waiting) int { return a.due.Compare(b.due) })
			for i, w := range got {
				if !w.due.Equal(due[i].due) || !slices.Contains(due, w) {
					t.Fatalf("seed %d: took one due at %v, want %v", seed, w.due, due[i].due)
				}
				list = slices.DeleteFunc(list, func(o *waiting) bool { return o == w })
			}
		}
		next, some := q.next()
		if q.len() != len(list) || some != (len(list) > 0) {
			t.Fatalf("seed %d: %d, want %d", seed, q.len(), len(list))
		}
		if some && !next.Equal(slices.MinFunc(list, func(a, b *waiting) int { return a.due.Compare(b.due) }).due) {
			t.Fatalf("seed %d: the next is due at %v", seed, next)
		}
	}
	if replaced < 100 || taken < 100 {
		t.Errorf("%d replaced, %d taken: the steps are badly chosen", replaced, taken)
	}
}
