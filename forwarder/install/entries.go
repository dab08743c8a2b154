package install

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"baton/datapath"
	"baton/forwarder/compile"
	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// entry is where a flow entry stands.
type entry struct {
	place, counts uint32
	ops           uint32
	opCount       int
	priority      uint16
	table         uint8
	sub           *subtable
	key           match.Key
}

// table is the subtables of an OpenFlow table.
type table struct {
	subtables map[match.Key]*subtable // by mask
	first     uint32                  // of its list in Lists
	listed    int
	departed  uint64
}

// subtable is the entries of a table that ask for the same bits.
type subtable struct {
	place  uint32
	mask   match.Key
	chains map[match.Key][]*entry // those that want the same packets, the highest priority first
	ranks  map[uint16]int         // how many entries have each priority
	best   uint16
}

func (k *Kernel) setEntry(s pipeline.Set) error {
	record, ops, err := compile.Entry(s.Entry, k.places())
	if err != nil {
		return err
	}
	old := k.entries[s.Entry.ID]
	e := &entry{opCount: len(ops), priority: s.Entry.Priority, table: uint8(s.Entry.Table), key: s.Entry.Match.Key}
	if e.ops, err = k.putOps(ops); err != nil {
		return full("a flow entry", err)
	}
	if e.place, err = k.entryRoom.take(1); err != nil {
		k.opRoom.put(e.ops, e.opCount)
		return full("a flow entry", err)
	}
	undo := func(err error) error {
		k.opRoom.put(e.ops, e.opCount)
		k.entryRoom.put(e.place, 1)
		if old == nil || !s.KeepCounts {
			k.countRoom.put(e.counts, 1)
		}
		return full("a flow entry", err)
	}
	if old != nil && s.KeepCounts {
		e.counts = old.counts
	} else {
		if e.counts, err = k.countRoom.take(1); err != nil {
			k.opRoom.put(e.ops, e.opCount)
			k.entryRoom.put(e.place, 1)
			return full("a flow entry", err)
		}
		k.f.EntryCounts[e.counts] = datapath.ForwarderCounts{}
	}
	record.Ops, record.Counts = e.ops, e.counts
	k.f.Entries[e.place] = record
	if e.sub, err = k.subtable(e.table, &s.Entry.Match); err != nil {
		return undo(err)
	}
	if err := k.enter(e, old); err != nil {
		return undo(err)
	}
	k.entries[s.Entry.ID] = e
	if old != nil {
		k.rest(old, !s.KeepCounts)
	}
	return nil
}

func (k *Kernel) putOps(ops []datapath.ForwarderOp) (uint32, error) {
	if len(ops) == 0 {
		return 0, nil
	}
	at, err := k.opRoom.take(len(ops))
	if err != nil {
		return 0, err
	}
	copy(k.f.Ops[at:], ops)
	return at, nil
}

// rest gives back what an entry had.
func (k *Kernel) rest(e *entry, counts bool) {
	if e.opCount > 0 {
		k.opRoom.put(e.ops, e.opCount)
	}
	k.entryRoom.put(e.place, 1)
	if counts {
		k.tables[e.table].departed += k.f.EntryCounts[e.counts].Packets
		k.countRoom.put(e.counts, 1)
	}
}

// subtable returns the one for a match, which it makes if there is none.
func (k *Kernel) subtable(number uint8, m *match.Match) (*subtable, error) {
	t := &k.tables[number]
	if t.subtables == nil {
		t.subtables = make(map[match.Key]*subtable)
	}
	if s := t.subtables[m.Mask]; s != nil {
		return s, nil
	}
	if len(t.subtables) == datapath.ForwarderSubtables {
		return nil, fmt.Errorf("%w: table %d has entries with %d different masks", errFull, number, len(t.subtables))
	}
	place, err := k.subtableRoom.take(1)
	if err != nil {
		return nil, err
	}
	k.f.Subtables[place] = m.Mask
	s := &subtable{place: place, mask: m.Mask, chains: make(map[match.Key][]*entry), ranks: make(map[uint16]int)}
	t.subtables[m.Mask] = s
	k.use(&m.Mask)
	return s, nil
}

// use adds bits to those that cached paths are told apart by. They stay until the forwarder starts again: too many only cost room.
func (k *Kernel) use(mask *match.Key) {
	more := false
	for i := range mask {
		more = more || mask[i]&^k.used[i] != 0
		k.used[i] |= mask[i]
	}
	if more {
		k.f.SetUsed(&k.used)
		k.f.Changed()
	}
}

// enter puts an entry into its chain, in the place of an old one if there is one.
func (k *Kernel) enter(e, old *entry) error {
	s := e.sub
	chain := s.chains[e.key]
	at, found := slices.BinarySearchFunc(chain, e, func(a, b *entry) int { return cmp.Compare(b.priority, a.priority) })
	if found && chain[at] != old {
		return fmt.Errorf("two entries of priority %d want the same packets", e.priority)
	}
	if !found {
		s.ranks[e.priority]++
		if len(s.ranks) == 1 && s.ranks[e.priority] == 1 || e.priority > s.best {
			// before the entry, or a search would end too early
			was := s.best
			s.best = e.priority
			if err := k.list(e.table); err != nil {
				s.best = was
				k.unrank(s, e.priority)
				return err
			}
		}
	}
	if at == 0 {
		if err := k.f.SetWanted(s.probe(&e.key), e.place, uint32(e.priority)); err != nil {
			if !found {
				k.unrank(s, e.priority)
			}
			return fmt.Errorf("%w: %w", errFull, err)
		}
	}
	if found {
		chain[at] = e
	} else {
		s.chains[e.key] = slices.Insert(chain, at, e)
	}
	return nil
}

func (k *Kernel) unrank(s *subtable, priority uint16) {
	if s.ranks[priority]--; s.ranks[priority] == 0 {
		delete(s.ranks, priority)
	}
}

// probe is what the kernel looks a packet of those fields up with.
func (s *subtable) probe(key *match.Key) *datapath.ForwarderFields {
	fields := datapath.ForwarderFields(*key)
	*(*uint32)(unsafe.Pointer(&fields[match.Size-8])) = s.place
	return &fields
}

func (k *Kernel) removeEntry(id uint64) (openflow.Counter, error) {
	e := k.entries[id]
	if e == nil {
		return openflow.Counter{}, nil
	}
	delete(k.entries, id)
	s := e.sub
	chain := s.chains[e.key]
	at := slices.Index(chain, e)
	chain = slices.Delete(chain, at, at+1)
	var err error
	switch {
	case len(chain) == 0:
		delete(s.chains, e.key)
		err = k.f.RemoveWanted(s.probe(&e.key))
	case at == 0:
		s.chains[e.key] = chain
		err = k.f.SetWanted(s.probe(&e.key), chain[0].place, uint32(chain[0].priority))
	default:
		s.chains[e.key] = chain
	}
	k.unrank(s, e.priority)
	if s.ranks[e.priority] == 0 && e.priority == s.best {
		s.best = 0
		for p := range s.ranks {
			s.best = max(s.best, p)
		}
		if len(s.ranks) == 0 {
			delete(k.tables[e.table].subtables, s.mask)
			k.subtableRoom.put(s.place, 1)
		}
		if again := k.list(e.table); err == nil {
			err = again
		}
	}
	n := read(&k.f.EntryCounts[e.counts])
	k.rest(e, true)
	return n, err
}

// list writes a table's list of subtables anew, the one with the highest priority first.
func (k *Kernel) list(number uint8) error {
	t := &k.tables[number]
	subs := make([]*subtable, 0, len(t.subtables))
	for _, s := range t.subtables {
		if len(s.ranks) > 0 {
			subs = append(subs, s)
		}
	}
	slices.SortFunc(subs, func(a, b *subtable) int {
		return cmp.Or(cmp.Compare(b.best, a.best), cmp.Compare(a.place, b.place))
	})
	first := uint32(0)
	if len(subs) > 0 {
		var err error
		if first, err = k.listRoom.take(len(subs)); err != nil {
			return err
		}
	}
	for i, s := range subs {
		k.f.Lists[first+uint32(i)] = datapath.ForwarderListed{Subtable: s.place, Best: uint32(s.best)}
	}
	k.f.SetList(int(number), first, uint32(len(subs)))
	if t.listed > 0 {
		k.listRoom.put(t.first, t.listed)
	}
	t.first, t.listed = first, len(subs)
	return nil
}
