package pipeline

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// table is a flow table, with entries grouped by shape. A request with an exact match finds its entry in one lookup; one that covers many can
// skip whole shapes.
type table struct {
	id openflow.TableID
	// byHash maps hashes of priority and match to a chain of slots.
	byHash map[uint64]*slot
	shapes map[shapeKey]*shape
	// order is the shapes by descending priority, then by age. Empty shapes are kept until half of all shapes are.
	order []*shape
	empty int
	count int // of entries
	tableConfig
}

// shapeKey is the key of a shape.
type shapeKey struct {
	mask     match.Key
	priority uint16
}

// shape is the entries of a table with the same priority and mask. Their keys differ, so a packet matches at most one of them.
type shape struct {
	shapeKey
	slots []*slot
}

// slot holds an entry. A modification keeps the slot.
type slot struct {
	entry *Entry
	shape *shape
	at    int // index in shape.slots
	hash  uint64
	next  *slot // of the same hash
	// due is the earliest time at which the entry may expire, turn its index in the schedule, -1 if none.
	due  time.Time
	turn int
}

var seed = maphash.MakeSeed()

func hash(priority uint16, m *match.Match) uint64 {
	var b [2 + 2*match.Size]byte
	binary.NativeEndian.PutUint16(b[:], priority)
	copy(b[2:], m.Mask[:])
	copy(b[2+match.Size:], m.Key[:])
	return maphash.Bytes(seed, b[:])
}

// find returns the slot of the entry with that priority and match, nil if there is none.
func (t *table) find(priority uint16, m *match.Match) *slot {
	for c := t.byHash[hash(priority, m)]; c != nil; c = c.next {
		if c.entry.Priority == priority && c.entry.Match == *m {
			return c
		}
	}
	return nil
}

// match is the match of this shape that fits a packet.
func (s *shape) match(packet *match.Key) *match.Match {
	m := match.Match{Mask: s.mask}
	for i := range m.Key {
		m.Key[i] = packet[i] & s.mask[i]
	}
	return &m
}

// insert adds an entry. There must be none with the same priority and match.
func (t *table) insert(e *Entry) *slot {
	key := shapeKey{e.Match.Mask, e.Priority}
	s := t.shapes[key]
	if s == nil {
		s = t.newShape(key)
	} else if len(s.slots) == 0 {
		t.empty--
	}
	h := hash(e.Priority, &e.Match)
	c := &slot{entry: e, shape: s, at: len(s.slots), hash: h, next: t.byHash[h], turn: -1}
	t.byHash[h] = c
	s.slots = append(s.slots, c)
	t.count++
	return c
}

func (t *table) newShape(key shapeKey) *shape {
	s := &shape{shapeKey: key}
	if t.shapes == nil {
		t.shapes, t.byHash = map[shapeKey]*shape{}, map[uint64]*slot{}
	}
	t.shapes[key] = s
	at := t.from(int(key.priority) - 1)
	t.order = slices.Insert(t.order, at, s)
	return s
}

// from returns the index of the first shape with that priority or a lower one.
func (t *table) from(priority int) int {
	at, _ := slices.BinarySearchFunc(t.order, priority, func(s *shape, p int) int { return p - int(s.priority) })
	return at
}

func (t *table) remove(c *slot) {
	s := c.shape
	t.unchain(c)
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

// sweep removes empty shapes.
func (t *table) sweep() {
	t.order = slices.DeleteFunc(t.order, func(s *shape) bool {
		if len(s.slots) == 0 {
			delete(t.shapes, s.shapeKey)
		}
		return len(s.slots) == 0
	})
	t.empty = 0
	if len(t.order) == 0 {
		t.shapes, t.byHash, t.order = nil, nil, nil // maps do not shrink
	}
}

func (t *table) unchain(c *slot) {
	first := t.byHash[c.hash]
	switch {
	case first != c:
		for first.next != c {
			first = first.next
		}
		first.next = c.next
	case c.next != nil:
		t.byHash[c.hash] = c.next
	default:
		delete(t.byHash, c.hash)
	}
}

// each calls f for each slot, by descending priority. f must not change the table.
func (t *table) each(f func(*slot)) {
	for _, s := range t.order {
		for _, c := range s.slots {
			f(c)
		}
	}
}

// covered calls f for each slot whose match is equal to m or more specific, at any priority. f must not change the table.
func (t *table) covered(m *match.Match, f func(*slot)) {
	for _, s := range t.order {
		switch {
		case len(s.slots) == 0:
		case s.mask == m.Mask:
			if c := t.find(s.priority, m); c != nil {
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

// overlapping returns another entry with the same priority that shares a packet with m, unless it is the identical one.
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

// within reports whether b has all bits of a.
func within(a, b *match.Key) bool {
	for i := 0; i < match.Size; i += 8 {
		if binary.NativeEndian.Uint64(a[i:])&^binary.NativeEndian.Uint64(b[i:]) != 0 {
			return false
		}
	}
	return true
}
