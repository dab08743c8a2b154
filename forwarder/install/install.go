// Package install keeps the kernel's records (datapath) in step with an OpenFlow pipeline (forwarder/pipeline). When one of its functions
// returns, the change is in force for all packets that arrive afterwards.
package install

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/compile"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Kernel manages the kernel's records. It must be used by one goroutine at a time, except for counters, which may be read by any.
type Kernel struct {
	f *kernel.Forwarder

	entries   map[uint64]*entry // by the pipeline's ID
	tables    [kernel.MaxTables]table
	used      kernel.Fields
	groups    map[openflow.GroupID]*group
	watching  map[openflow.GroupID]*group // groups with a bucket that watches a group
	meters    map[openflow.MeterID]*meter
	ports     map[openflow.PortNo]uint32
	lastPlace uint32 // of a port
	begun     bool   // ports take packets

	entryAlloc, countAlloc, opAlloc, listAlloc, subtableAlloc *allocator
	groupAlloc, headAlloc, bucketAlloc, slotAlloc, meterAlloc *allocator
}

// New returns a Kernel for an empty data path.
func New(f *kernel.Forwarder) *Kernel {
	k := &Kernel{
		f:        f,
		entries:  make(map[uint64]*entry),
		groups:   make(map[openflow.GroupID]*group),
		watching: make(map[openflow.GroupID]*group),
		meters:   make(map[openflow.MeterID]*meter),
		ports:    make(map[openflow.PortNo]uint32),
	}
	// Megaflows may point to deferred ranges until the epoch changes.
	settle := func() error {
		f.Changed()
		return grace()
	}
	k.entryAlloc = newAllocator(0, len(f.Entries), settle)
	k.countAlloc = newAllocator(0, len(f.EntryCounts), settle)
	k.opAlloc = newAllocator(kernel.OutOps, len(f.Ops), settle)
	k.listAlloc = newAllocator(0, len(f.Lists), settle)
	k.subtableAlloc = newAllocator(1, len(f.Subtables), settle) // 0 means a packet's fields
	k.groupAlloc = newAllocator(1, len(f.Groups), settle)       // 0 means no group, here and in heads
	k.headAlloc = newAllocator(1, len(f.GroupHeads), settle)
	k.bucketAlloc = newAllocator(0, len(f.Buckets), settle)
	k.slotAlloc = newAllocator(0, len(f.Slots), settle)
	k.meterAlloc = newAllocator(1, len(f.Meters), settle) // 0 means no meter
	return k
}

// ErrFull reports that a change does not fit in the kernel. What could not be installed keeps its old state.
var ErrFull = errFull

// Apply applies a change. gone is called with each removed entry and its counters.
func (k *Kernel) Apply(c pipeline.Change, gone func(*pipeline.Removed, openflow.Counter)) error {
	var errs []error
	for _, m := range c.SetMeters {
		errs = append(errs, k.setMeter(m))
	}
	for _, g := range c.SetGroups {
		errs = append(errs, k.setGroup(g))
	}
	for _, s := range c.Set {
		errs = append(errs, k.setEntry(s))
	}
	for i := range c.Removed {
		n, err := k.removeEntry(c.Removed[i].Entry.ID)
		errs = append(errs, err)
		gone(&c.Removed[i], n)
	}
	for _, g := range c.RemovedGroups {
		k.removeGroup(g.ID)
	}
	for _, m := range c.RemovedMeters {
		k.removeMeter(m.ID)
	}
	if len(c.SetGroups)+len(c.RemovedGroups) > 0 {
		k.watch()
	}
	k.f.Changed()
	return errors.Join(errs...)
}

// places maps names to indices for compile. A group or meter that could not be installed is none.
func (k *Kernel) places() compile.Places {
	return compile.Places{
		Port: k.portPlace,
		Group: func(id openflow.GroupID) uint32 {
			if g := k.groups[id]; g != nil {
				return g.head
			}
			return 0
		},
		Meter: func(id openflow.MeterID) uint32 {
			if m := k.meters[id]; m != nil {
				return m.place
			}
			return 0
		},
	}
}

// Actions compiles a list outside of an entry, for a packet-out.
func (k *Kernel) Actions(list []openflow.Action) ([]kernel.Op, error) {
	return compile.Actions(list, k.places())
}

// Entry returns the counters of a flow entry, zero if it is not installed.
func (k *Kernel) Entry(id uint64) openflow.Counter {
	if e := k.entries[id]; e != nil {
		return read(&k.f.EntryCounts[e.counts])
	}
	return openflow.Counter{}
}

// Used returns when a packet last matched a flow entry, by the clock of now; the zero Time if none has.
func (k *Kernel) Used(id uint64, now time.Time) time.Time {
	e := k.entries[id]
	if e == nil {
		return time.Time{}
	}
	used := k.f.EntryCounts[e.counts].Used
	if used == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(int64(used) - monotonic()))
}

// Table returns how many packets were looked up in a table, and how many matched an entry.
func (k *Kernel) Table(id openflow.TableID) (lookups, hits uint64) {
	hits = k.tables[id].departed
	for _, s := range k.tables[id].subtables {
		for _, e := range s.byHash {
			for ; e != nil; e = e.next {
				hits += k.f.EntryCounts[e.counts].Packets
			}
		}
	}
	return hits + k.f.Tables[id].Missed, hits
}

// monotonic is the kernel programs' clock (ns).
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return t.Nano()
}

func read(c *kernel.Counts) openflow.Counter {
	return openflow.Counter{Packets: c.Packets, Octets: c.Bytes}
}
