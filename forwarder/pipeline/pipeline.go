package pipeline

import (
	"fmt"
	"iter"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// Limits are how much a pipeline holds. A zero is the default.
type Limits struct {
	Tables  int // 254
	Entries int // flow entries of all tables together: 131,072
	Groups  int // 4,096
	Buckets int // of a group: 256
	Meters  int // 4,096
	Bands   int // of a meter: 8
	// Actions of all flow entries and buckets together, which bounds the memory that controllers can fill: 1,048,576.
	Actions int
	// Bindings tells that there is a memory of flows: without it bind and unbind are refused.
	Bindings bool
}

// maxTables is how many numbers there are for tables: from 0 to [openflow.TableMax] [7.3.4.1]. The default is one fewer, which is
// what Open vSwitch has.
const maxTables = int(openflow.TableMax) + 1

func (l Limits) withDefaults() Limits {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&l.Tables, maxTables-1)
	set(&l.Entries, 128<<10)
	set(&l.Groups, 4096)
	set(&l.Buckets, 256)
	set(&l.Meters, 4096)
	set(&l.Bands, 8)
	set(&l.Actions, 1<<20)
	l.Tables = min(l.Tables, maxTables)
	return l
}

// Pipeline is the tables, groups and meters of a switch.
type Pipeline struct {
	limits  Limits
	tables  []table
	entries int    // of all tables
	actions int    // of all entries and buckets
	lastID  uint64 // of an entry
	timed   schedule
	groups  map[openflow.GroupID]*groupSlot
	meters  map[openflow.MeterID]*meterSlot
}

// New returns an empty pipeline: each table is there, and drops what comes, as it has no flow entry.
func New(l Limits) *Pipeline {
	l = l.withDefaults()
	p := &Pipeline{
		limits: l,
		tables: make([]table, l.Tables),
		groups: map[openflow.GroupID]*groupSlot{},
		meters: map[openflow.MeterID]*meterSlot{},
	}
	for i := range p.tables {
		p.tables[i].id = openflow.TableID(i)
	}
	return p
}

// Limits returns how much the pipeline holds, defaults filled in.
func (p *Pipeline) Limits() Limits { return p.limits }

// Entries yields the flow entries: those of a lower table first, in a table those of a higher priority. The pipeline must not be
// changed meanwhile.
func (p *Pipeline) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for i := range p.tables {
			for _, s := range p.tables[i].order {
				for _, c := range s.slots {
					if !yield(c.entry) {
						return
					}
				}
			}
		}
	}
}

// Group returns the group with that number, nil if there is none.
func (p *Pipeline) Group(id openflow.GroupID) *Group {
	if s := p.groups[id]; s != nil {
		return s.group
	}
	return nil
}

// Meter returns the meter with that number, nil if there is none.
func (p *Pipeline) Meter(id openflow.MeterID) *Meter {
	if s := p.meters[id]; s != nil {
		return s.meter
	}
	return nil
}

// Lookup returns the flow entry of a table that a packet with those fields gets, nil if there is none. Of several with the same
// priority it is any [5.3].
func (p *Pipeline) Lookup(table openflow.TableID, packet *match.Key) *Entry {
	t := &p.tables[table]
	for _, s := range t.order {
		if c := t.find(s.priority, s.match(packet)); c != nil {
			return c.entry
		}
	}
	return nil
}

// Change is what a message has made of a pipeline: what the kernel must be told, and controllers hear of. Of an entry, group or
// meter there is one mention at most. In the kernel, what is set comes first and what is removed last: groups and meters before
// the entries that use them, entries before the groups and meters that they used.
type Change struct {
	Set           []Set
	Removed       []Removed
	SetGroups     []*Group
	RemovedGroups []*Group
	SetMeters     []*Meter
	RemovedMeters []*Meter

	before before
}

// Set is a flow entry that is new or has changed.
type Set struct {
	Entry *Entry
	// Old is what it replaces, of the same ID; nil if it is new.
	Old *Entry
	// KeepCounts tells that the counters of Old go on [6.4]. Without it they begin at zero.
	KeepCounts bool
}

// Removed is a flow entry that is gone.
type Removed struct {
	Entry  *Entry
	Reason openflow.FlowRemovedReason
	// Report asks for a flow-removed message: the entry has the flag for it [5.5].
	Report bool
}

// Empty reports whether nothing has changed.
func (c *Change) Empty() bool {
	return len(c.Set)+len(c.Removed)+len(c.SetGroups)+len(c.RemovedGroups)+len(c.SetMeters)+len(c.RemovedMeters) == 0
}

func (c *Change) remove(e *Entry, why openflow.FlowRemovedReason) {
	c.Removed = append(c.Removed, Removed{e, why, e.Flags&openflow.FlowSendFlowRem != 0})
}

// since is how long something has been there.
func since(created, now time.Time) openflow.Duration {
	d := max(now.Sub(created), 0)
	return openflow.Duration{Sec: uint32(d / time.Second), Nsec: uint32(d % time.Second)}
}

func refuse(code openflow.Code, section, format string, args ...any) *openflow.Fault {
	return &openflow.Fault{Code: code, Section: section, Text: fmt.Sprintf(format, args...)}
}

// result makes an error of a fault: an interface that holds a nil *Fault is not nil.
func result(c Change, f *openflow.Fault) (Change, error) {
	if f != nil {
		return Change{}, f
	}
	return c, nil
}
