package pipeline

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// table is a flow table: its entries by shape. A request that names a match exactly finds its entry by one look-up; one that
// covers many leaves out whole shapes.
type table struct {
	id openflow.TableID
	// byHash finds a slot by the hash of priority and match; slots of one hash are chained.
	byHash map[uint64]*slot
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

// match is what an entry of the shape that matches a packet asks.
func (s *shape) match(packet *match.Key) *match.Match {
	m := match.Match{Mask: s.mask}
	for i := range m.Key {
		m.Key[i] = packet[i] & s.mask[i]
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

// from returns where the shapes of that priority and of lower ones begin.
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
