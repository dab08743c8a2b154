package install

import (
	"fmt"
	"sync/atomic"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/compile"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// group is an installed group.
type group struct {
	*pipeline.Group
	head, version uint32
	first         uint32 // of its buckets
	slots         uint32
	slotCount     int
	ranges        []opRange // its own ops and its buckets'
}

type opRange struct {
	at uint32
	n  int
}

// meter is an installed meter.
type meter struct{ place uint32 }

func (k *Kernel) setGroup(g *pipeline.Group) error {
	old := k.groups[g.ID]
	n := &group{Group: g}
	if old != nil {
		n.head = old.head
	} else {
		head, err := k.headAlloc.alloc(1)
		if err != nil {
			return fmt.Errorf("install group %d: %w", g.ID, err)
		}
		n.head = head
	}
	record, err := k.putGroup(n)
	if err != nil {
		k.releaseGroup(n)
		if old == nil {
			k.headAlloc.free(n.head, 1)
		}
		return fmt.Errorf("install group %d: %w", g.ID, err)
	}
	k.f.Groups[n.version] = record
	if old == nil { // a modified one keeps its counters [6.5]
		k.f.GroupCounts[n.head] = kernel.Counts{}
	}
	atomic.StoreUint64(&k.f.GroupHeads[n.head], uint64(g.ID)<<32|uint64(n.version))
	k.groups[g.ID] = n
	delete(k.watching, g.ID)
	if n.watches() {
		k.watching[g.ID] = n
	}
	if old != nil {
		k.releaseGroup(old)
	}
	return nil
}

// putGroup writes a group's buckets and ops, and returns its record.
func (k *Kernel) putGroup(n *group) (r kernel.Group, err error) {
	if n.version, err = k.groupAlloc.alloc(1); err != nil {
		return r, err
	}
	if n.first, err = k.bucketAlloc.alloc(len(n.Buckets)); err != nil {
		k.groupAlloc.deferFree(n.version, 1)
		n.version = 0
		return r, err
	}
	var each []kernel.Op
	for i, b := range n.Buckets {
		ops, plain, err := compile.Bucket(b, k.places())
		if err != nil {
			return r, err
		}
		at, err := k.putOps(ops)
		if err != nil {
			return r, err
		}
		n.ranges = append(n.ranges, opRange{at, len(ops)})
		place := n.first + uint32(i)
		record := kernel.Bucket{Ops: at, Count: uint16(len(ops)), Weight: uint32(b.Weight)}
		if plain {
			record.Flags |= kernel.BucketPlain
			each = append(each, kernel.Op{Kind: kernel.OpCount, Arg: place})
			each = append(each, ops...)
		} else {
			each = append(each, kernel.Op{Kind: kernel.OpCopy, Arg: place})
		}
		if b.WatchPort != openflow.PortAny && (n.Kind == openflow.GroupTypeFF || n.Kind == openflow.GroupTypeSelect) {
			record.Watch = k.portPlace(b.WatchPort)
		}
		if record.Watch != 0 && n.Kind == openflow.GroupTypeSelect {
			if err := k.f.Seat(record.Watch); err != nil {
				return r, err
			}
		}
		if n.watchesGroup(&b) {
			record.Flags |= kernel.BucketWatches
			if !k.alive(b.WatchGroup, make(map[openflow.GroupID]bool)) {
				record.Flags |= kernel.BucketDead
			}
		}
		k.f.Buckets[place] = record
		k.f.BucketCounts[place] = kernel.Counts{}
	}
	switch n.Kind {
	case openflow.GroupTypeIndirect: // a choice of one: in tail position the packet itself is sent, not a copy
		return kernel.Group{Kind: kernel.GroupFailover, First: n.first, Count: uint32(len(n.Buckets))}, nil
	case openflow.GroupTypeAll:
		at, err := k.putOps(each)
		if err != nil {
			return r, err
		}
		n.ranges = append(n.ranges, opRange{at, len(each)})
		return kernel.Group{Kind: kernel.GroupAll, First: at, Count: uint32(len(each))}, nil
	case openflow.GroupTypeSelect:
		r = kernel.Group{Kind: kernel.GroupSelect, First: n.first, Count: uint32(len(n.Buckets))}
		chosen := compile.Slots(n.Buckets)
		if len(chosen) == 0 {
			return r, nil
		}
		if n.slots, err = k.slotAlloc.alloc(len(chosen)); err != nil {
			return r, err
		}
		n.slotCount = len(chosen)
		for i, bucket := range chosen {
			k.f.Slots[n.slots+uint32(i)] = uint64(bucket)
		}
		r.Slots, r.SlotMask = n.slots, uint32(len(chosen)-1)
		return r, nil
	}
	return kernel.Group{Kind: kernel.GroupFailover, First: n.first, Count: uint32(len(n.Buckets))}, nil
}

// releaseGroup frees the ranges of a group's version after a grace period.
func (k *Kernel) releaseGroup(n *group) {
	if n.version == 0 {
		return
	}
	for _, r := range n.ranges {
		if r.n > 0 {
			k.opAlloc.deferFree(r.at, r.n)
		}
	}
	if n.slotCount > 0 {
		k.slotAlloc.deferFree(n.slots, n.slotCount)
	}
	k.bucketAlloc.deferFree(n.first, len(n.Buckets))
	k.groupAlloc.deferFree(n.version, 1)
}

func (k *Kernel) removeGroup(id openflow.GroupID) {
	n := k.groups[id]
	if n == nil {
		return
	}
	delete(k.groups, id)
	delete(k.watching, id)
	atomic.StoreUint64(&k.f.GroupHeads[n.head], 0)
	k.releaseGroup(n)
	k.headAlloc.deferFree(n.head, 1)
}

// Group returns the counters of a group and its buckets.
func (k *Kernel) Group(id openflow.GroupID) (openflow.Counter, []openflow.Counter) {
	n := k.groups[id]
	if n == nil {
		return openflow.Counter{}, nil
	}
	each := make([]openflow.Counter, len(n.Buckets))
	for i := range each {
		each[i] = read(&k.f.BucketCounts[n.first+uint32(i)])
	}
	return read(&k.f.GroupCounts[n.head]), each
}

// watchesGroup reports whether the bucket's liveness depends on another group. Buckets of all and indirect groups are always live.
func (n *group) watchesGroup(b *openflow.Bucket) bool {
	return b.WatchGroup != openflow.GroupAny && (n.Kind == openflow.GroupTypeFF || n.Kind == openflow.GroupTypeSelect)
}

func (n *group) watches() bool {
	for i := range n.Buckets {
		if n.watchesGroup(&n.Buckets[i]) {
			return true
		}
	}
	return false
}

// watch marks the buckets that watch a group without a live bucket. The kernel checks ports itself.
func (k *Kernel) watch() {
	if len(k.watching) == 0 {
		return
	}
	known := make(map[openflow.GroupID]bool)
	for _, n := range k.watching {
		for i := range n.Buckets {
			if !n.watchesGroup(&n.Buckets[i]) {
				continue
			}
			record := &k.f.Buckets[n.first+uint32(i)]
			if k.alive(n.Buckets[i].WatchGroup, known) {
				record.Flags &^= kernel.BucketDead
			} else {
				record.Flags |= kernel.BucketDead
			}
		}
	}
}

// alive reports whether a group has a live bucket: one that watches nothing, or something live [6.5]. known caches results. Groups that watch
// only each other are not live.
func (k *Kernel) alive(id openflow.GroupID, known map[openflow.GroupID]bool) bool {
	if lives, ok := known[id]; ok {
		return lives
	}
	n := k.groups[id]
	if n == nil {
		return false
	}
	known[id] = false
	for i := range n.Buckets {
		b := &n.Buckets[i]
		place := k.f.Buckets[n.first+uint32(i)].Watch
		group := n.watchesGroup(b)
		switch {
		case place != 0 && k.f.Ports[place].Flags&kernel.PortLive != 0,
			group && k.alive(b.WatchGroup, known),
			place == 0 && !group:
			known[id] = true
			return true
		}
	}
	return false
}

func (k *Kernel) setMeter(m *pipeline.Meter) error {
	record, err := compile.Meter(m)
	if err != nil {
		return err
	}
	at := k.meters[m.ID]
	if at == nil {
		place, err := k.meterAlloc.alloc(1)
		if err != nil {
			return fmt.Errorf("install meter %d: %w", m.ID, err)
		}
		at = &meter{place}
		k.meters[m.ID] = at
		k.f.MeterCounts[place] = kernel.Counts{} // a modified one keeps its counters [6.6]
	}
	// A meter is changed in place; no band is in force meanwhile.
	bands := record.Bands
	record.Bands = 0
	k.f.Meters[at.place] = record
	atomic.StoreUint32(&k.f.Meters[at.place].Bands, bands)
	return nil
}

func (k *Kernel) removeMeter(id openflow.MeterID) {
	if m := k.meters[id]; m != nil {
		delete(k.meters, id)
		k.meterAlloc.deferFree(m.place, 1)
	}
}

// Meter returns the counters of a meter, and what its bands have dropped or remarked.
func (k *Kernel) Meter(id openflow.MeterID) (openflow.Counter, []openflow.Counter) {
	m := k.meters[id]
	if m == nil {
		return openflow.Counter{}, nil
	}
	record := &k.f.Meters[m.place]
	each := make([]openflow.Counter, record.Bands)
	for i := range each {
		each[i] = openflow.Counter{Packets: record.Band[i].Packets, Octets: record.Band[i].Bytes}
	}
	return read(&k.f.MeterCounts[m.place]), each
}
