package pipeline

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// table is a flow table: its entries by shape. A request that names a match exactly finds its entry by two look-ups; one that
// covers many leaves out whole shapes.
type table struct {
	id     openflow.TableID
	shapes map[shapeKey]*shape
	// order is the shapes by falling priority, then by age. Shapes without an entry stay until they are as many as the others.
	order []*shape
	empty int
	count int // entries
	tableConfig
}

// shapeKey is what the entries of a shape have in common.
type shapeKey struct {
	mask     match.Key
	priority uint16
}

// shape is the entries of a table that have priority and mask in common. No two have the same key, and no packet matches two.
type shape struct {
	shapeKey
	slots []*slot
	// byKey finds a slot by the hash of its key; slots of one hash are chained.
	byKey map[uint64]*slot
}

// slot is where an entry stands. It stays when the entry is modified.
type slot struct {
	entry *Entry
	shape *shape
	at    int // in shape.slots
	hash  uint64
	next  *slot // of the same hash
	// due is when the entry may have expired, and turn where that stands in the schedule, -1 if nowhere.
	due  time.Time
	turn int
}

var seed = maphash.MakeSeed()

func hash(k *match.Key) uint64 { return maphash.Bytes(seed, k[:]) }

// find returns the slot of the entry with that priority and match, nil if there is none.
func (t *table) find(priority uint16, m *match.Match) *slot {
	if s := t.shapes[shapeKey{m.Mask, priority}]; s != nil {
		return s.find(&m.Key)
	}
	return nil
}

func (s *shape) find(k *match.Key) *slot {
	for c := s.byKey[hash(k)]; c != nil; c = c.next {
		if c.entry.Match.Key == *k {
			return c
		}
	}
	return nil
}

// masked returns the bits of a packet's fields that the entries of the shape ask about.
func (s *shape) masked(k *match.Key) *match.Key {
	var m match.Key
	for i := range m {
		m[i] = k[i] & s.mask[i]
	}
	return &m
}

// insert adds an entry. No entry of that priority and match is there.
func (t *table) insert(e *Entry) *slot {
	key := shapeKey{e.Match.Mask, e.Priority}
	s := t.shapes[key]
	if s == nil {
		s = t.newShape(key)
	} else if len(s.slots) == 0 {
		t.empty--
	}
	h := hash(&e.Match.Key)
	c := &slot{entry: e, shape: s, at: len(s.slots), hash: h, next: s.byKey[h], turn: -1}
	s.byKey[h] = c
	s.slots = append(s.slots, c)
	t.count++
	return c
}

func (t *table) newShape(key shapeKey) *shape {
	s := &shape{shapeKey: key, byKey: map[uint64]*slot{}}
	if t.shapes == nil {
		t.shapes = map[shapeKey]*shape{}
	}
	t.shapes[key] = s
	at := t.from(int(key.priority) - 1)
	t.order = slices.Insert(t.order, at, s)
	return s
}

// from returns where the shapes of that priority and of lower ones begin.
func (t *table) from(priority int) int {
	at, _ := slices.BinarySearchFunc(t.order, priority, func(s *shape, p int) int { return p - int(s.priority) })
	return at
}

func (t *table) remove(c *slot) {
	s := c.shape
	s.unchain(c)
	last := s.slots[len(s.slots)-1]
	s.slots[c.at], last.at = last, c.at
	s.slots[len(s.slots)-1] = nil
	s.slots = s.slots[:len(s.slots)-1]
	t.count--
	if len(s.slots) > 0 {
		return
	}
	t.empty++
	if t.empty > len(t.order)/2 {
		t.sweep()
	}
}

// sweep drops the shapes without an entry.
func (t *table) sweep() {
	t.order = slices.DeleteFunc(t.order, func(s *shape) bool {
		if len(s.slots) == 0 {
			delete(t.shapes, s.shapeKey)
		}
		return len(s.slots) == 0
	})
	t.empty = 0
	if len(t.order) == 0 {
		t.shapes, t.order = nil, nil // maps do not shrink
	}
}

func (s *shape) unchain(c *slot) {
	first := s.byKey[c.hash]
	switch {
	case first != c:
		for first.next != c {
			first = first.next
		}
		first.next = c.next
	case c.next != nil:
		s.byKey[c.hash] = c.next
	default:
		delete(s.byKey, c.hash)
	}
}

// each calls f for each slot, those of a higher priority first. f must not change the table.
func (t *table) each(f func(*slot)) {
	for _, s := range t.order {
		for _, c := range s.slots {
			f(c)
		}
	}
}

// covered calls f for each slot whose entry is as specific as m or more, whatever its priority. f must not change the table.
func (t *table) covered(m *match.Match, f func(*slot)) {
	for _, s := range t.order {
		switch {
		case len(s.slots) == 0:
		case s.mask == m.Mask:
			if c := s.find(&m.Key); c != nil {
				f(c)
			}
		case within(&m.Mask, &s.mask):
			for _, c := range s.slots {
				if m.Matches(&c.entry.Match.Key) {
					f(c)
				}
			}
		}
	}
}

// overlapping returns an entry of the same priority that a packet may match as well as m, other than the identical one.
func (t *table) overlapping(priority uint16, m *match.Match) *Entry {
	for _, s := range t.order[t.from(int(priority)):] {
		if s.priority != priority {
			break
		}
		if s.mask == m.Mask {
			continue
		}
		for _, c := range s.slots {
			if c.entry.Match.Overlaps(m) {
				return c.entry
			}
		}
	}
	return nil
}

// within reports whether all bits of a are in b.
func within(a, b *match.Key) bool {
	for i := 0; i < match.Size; i += 8 {
		if binary.NativeEndian.Uint64(a[i:])&^binary.NativeEndian.Uint64(b[i:]) != 0 {
			return false
		}
	}
	return true
}
