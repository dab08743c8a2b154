package install

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"unsafe"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/compile"
	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// entry is an installed flow entry.
type entry struct {
	place, counts uint32
	ops           uint32
	opCount       int
	priority      uint16
	table         uint8
	sub           *subtable
	key           match.Key
	hash          uint64 // of key
	next          *entry // of the same hash
}

// table is the subtables of an OpenFlow table.
type table struct {
	subtables map[match.Key]*subtable // by mask
	listed    []*subtable             // as in the kernel's list
	first     uint32                  // index of the list in Lists
	departed  uint64
}

// subtable is the entries of a table with the same mask. It may be empty until the list is rewritten.
type subtable struct {
	place  uint32
	mask   match.Key
	byHash map[uint64]*entry // entries with the same hash are chained by descending priority
	ranks  []rank            // ascending
	listed bool
	best   uint16 // its priority in the list: no entry has a higher one
}

// rank counts the entries of a priority.
type rank struct {
	priority uint16
	entries  uint32
}

func (k *Kernel) setEntry(s pipeline.Set) (err error) {
	record, ops, err := compile.Entry(s.Entry, k.places())
	if err != nil {
		return err
	}
	old := k.entries[s.Entry.ID]
	keep := old != nil && s.KeepCounts
	e := &entry{opCount: len(ops), priority: s.Entry.Priority, table: uint8(s.Entry.Table), key: s.Entry.Match.Key,
		hash: hash(&s.Entry.Match.Key)}
	var taken []func()
	defer func() {
		if err == nil {
			return
		}
		for _, back := range taken {
			back()
		}
		err = fmt.Errorf("install a flow entry: %w", err)
	}()
	if e.ops, err = k.putOps(ops); err != nil {
		return err
	}
	taken = append(taken, func() { k.freeOps(e.ops, e.opCount) })
	if e.place, err = k.entryAlloc.alloc(1); err != nil {
		return err
	}
	taken = append(taken, func() { k.entryAlloc.free(e.place, 1) })
	if keep {
		e.counts = old.counts
	} else {
		if e.counts, err = k.countAlloc.alloc(1); err != nil {
			return err
		}
		taken = append(taken, func() { k.countAlloc.free(e.counts, 1) })
		k.f.EntryCounts[e.counts] = kernel.Counts{}
	}
	record.Ops, record.Counts = e.ops, e.counts
	k.f.Entries[e.place] = record
	if e.sub, err = k.subtable(e.table, &s.Entry.Match); err != nil {
		return err
	}
	if err := k.enter(e, old); err != nil {
		k.prune(e.table, e.sub)
		return err
	}
	k.entries[s.Entry.ID] = e
	if old != nil {
		k.release(old, !keep)
	}
	return nil
}

func (k *Kernel) putOps(ops []kernel.Op) (uint32, error) {
	if len(ops) == 0 {
		return 0, nil
	}
	at, err := k.opAlloc.alloc(len(ops))
	if err != nil {
		return 0, err
	}
	copy(k.f.Ops[at:], ops)
	return at, nil
}

// freeOps frees ops that were never published.
func (k *Kernel) freeOps(at uint32, n int) {
	if n > 0 {
		k.opAlloc.free(at, n)
	}
}

// release frees an entry's ranges after a grace period.
func (k *Kernel) release(e *entry, counts bool) {
	if e.opCount > 0 {
		k.opAlloc.deferFree(e.ops, e.opCount)
	}
	k.entryAlloc.deferFree(e.place, 1)
	if counts {
		k.tables[e.table].departed += k.f.EntryCounts[e.counts].Packets
		k.countAlloc.deferFree(e.counts, 1)
	}
}

// subtable returns the subtable for a match, creating it if needed.
func (k *Kernel) subtable(number uint8, m *match.Match) (*subtable, error) {
	t := &k.tables[number]
	if t.subtables == nil {
		t.subtables = make(map[match.Key]*subtable)
	}
	if s := t.subtables[m.Mask]; s != nil {
		return s, nil
	}
	if len(t.subtables) == kernel.MaxSubtables {
		return nil, fmt.Errorf("%w: table %d has entries with %d different masks", errFull, number, len(t.subtables))
	}
	place, err := k.subtableAlloc.alloc(1)
	if err != nil {
		return nil, err
	}
	k.f.Subtables[place] = m.Mask
	s := &subtable{place: place, mask: m.Mask, byHash: make(map[uint64]*entry)}
	t.subtables[m.Mask] = s
	k.use(&m.Mask)
	return s, nil
}

// prune removes a subtable that was created in vain.
func (k *Kernel) prune(number uint8, s *subtable) {
	if len(s.ranks) == 0 && !s.listed {
		delete(k.tables[number].subtables, s.mask)
		k.subtableAlloc.free(s.place, 1)
	}
}

// use adds bits to the mask of megaflows. Bits are never removed while the forwarder runs: superfluous ones only make the cache less
// effective.
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

var seed = maphash.MakeSeed()

func hash(k *match.Key) uint64 { return maphash.Bytes(seed, k[:]) }

// first returns the entry with the highest priority for the same packets as e, nil if there is none.
func (s *subtable) first(e *entry) *entry {
	f := s.byHash[e.hash]
	for f != nil && f.key != e.key {
		f = f.next
	}
	return f
}

// chain inserts an entry by priority, before others of the same priority.
func (s *subtable) chain(e *entry) {
	first := s.byHash[e.hash]
	if first == nil || first.priority <= e.priority {
		e.next = first
		s.byHash[e.hash] = e
		return
	}
	for first.next != nil && first.next.priority > e.priority {
		first = first.next
	}
	e.next, first.next = first.next, e
}

func (s *subtable) unchain(e *entry) {
	first := s.byHash[e.hash]
	switch {
	case first != e:
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	case e.next != nil:
		s.byHash[e.hash] = e.next
	default:
		delete(s.byHash, e.hash)
	}
	e.next = nil
}

// enter adds an entry to its subtable, replacing old if that is not nil.
func (k *Kernel) enter(e, old *entry) error {
	s := e.sub
	first := s.first(e)
	same := first
	for same != nil && (same.priority != e.priority || same.key != e.key) {
		same = same.next
	}
	if same != nil && same != old {
		return fmt.Errorf("two entries of priority %d have the same match", e.priority)
	}
	if first == nil || first.priority <= e.priority {
		if err := k.f.SetRule(s.probe(&e.key), e.place, uint32(e.priority)); err != nil {
			return fmt.Errorf("%w: %w", errFull, err)
		}
	}
	if same != nil {
		s.unchain(same)
		s.chain(e)
		return nil
	}
	s.rank(e.priority, 1)
	// Until the list is rewritten, a lookup may stop before it reaches the entry, which is not in force yet.
	if !s.listed || e.priority > s.best {
		if err := k.list(e.table); err != nil {
			s.rank(e.priority, -1)
			return errors.Join(err, k.setRule(e))
		}
	}
	s.chain(e)
	return nil
}

// setRule updates the kernel's rule for the packets of an entry: the first entry for them, or none.
func (k *Kernel) setRule(e *entry) error {
	probe := e.sub.probe(&e.key)
	if first := e.sub.first(e); first != nil {
		return k.f.SetRule(probe, first.place, uint32(first.priority))
	}
	return k.f.RemoveRule(probe)
}

// rank adds to the number of entries of a priority.
func (s *subtable) rank(priority uint16, by int) {
	at, found := slices.BinarySearchFunc(s.ranks, priority, func(r rank, p uint16) int { return cmp.Compare(r.priority, p) })
	if !found {
		s.ranks = slices.Insert(s.ranks, at, rank{priority: priority})
	}
	s.ranks[at].entries += uint32(by)
	if s.ranks[at].entries == 0 {
		s.ranks = slices.Delete(s.ranks, at, at+1)
	}
}

// top is the highest priority of an entry.
func (s *subtable) top() uint16 { return s.ranks[len(s.ranks)-1].priority }

// probe is the kernel's lookup key for packets with those fields.
func (s *subtable) probe(key *match.Key) *kernel.Fields {
	fields := kernel.Fields(*key)
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
	met := s.first(e) == e
	s.unchain(e)
	var err error
	if met {
		err = k.setRule(e)
	}
	s.rank(e.priority, -1)
	if len(s.ranks) == 0 || s.top() < s.best {
		// If there is no space, the old list stays: packets are looked up once more than needed.
		_ = k.list(e.table)
	}
	n := read(&k.f.EntryCounts[e.counts])
	k.release(e, true)
	return n, err
}

// list rewrites a table's list of subtables, in order of descending priority.
func (k *Kernel) list(number uint8) error {
	t := &k.tables[number]
	subs := make([]*subtable, 0, len(t.subtables))
	for _, s := range t.subtables {
		if len(s.ranks) > 0 {
			subs = append(subs, s)
		}
	}
	slices.SortFunc(subs, func(a, b *subtable) int {
		return cmp.Or(cmp.Compare(b.top(), a.top()), cmp.Compare(a.place, b.place))
	})
	same, first := slices.Equal(subs, t.listed), t.first
	if !same {
		first = 0
		if len(subs) > 0 {
			var err error
			if first, err = k.listAlloc.alloc(len(subs)); err != nil {
				return err
			}
		}
	}
	for i, s := range subs {
		item := &k.f.Lists[first+uint32(i)]
		atomic.StoreUint64((*uint64)(unsafe.Pointer(item)), uint64(s.top())<<32|uint64(s.place))
		s.best, s.listed = s.top(), true
	}
	if same {
		return nil
	}
	k.f.SetList(int(number), first, uint32(len(subs)))
	if len(t.listed) > 0 {
		k.listAlloc.deferFree(t.first, len(t.listed))
	}
	for _, s := range t.listed {
		if len(s.ranks) == 0 {
			delete(t.subtables, s.mask)
			k.subtableAlloc.deferFree(s.place, 1)
		}
	}
	t.first, t.listed = first, subs
	return nil
}
