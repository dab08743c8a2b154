package pipeline

import (
	"fmt"
	"iter"
	"time"

	"baton/forwarder/match"
	"baton/openflow"
)

// Limits are the capacity of a pipeline. Zero fields have defaults.
type Limits struct {
	Tables  int // 254
	Entries int // flow entries of all tables: 131,072
	Groups  int // 4,096
	Buckets int // per group: 256
	Meters  int // 4,096
	Bands   int // per meter: 8
	// Actions of all flow entries and buckets, which bounds the memory that controllers can use: 1,048,576.
	Actions int
	// Bindings: there is a binding table. Without one bind and unbind are refused.
	Bindings bool
}

// maxTables is the number of table numbers, 0 to [openflow.TableMax] [7.3.4.1]. The default is one less, as in Open vSwitch.
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
	lastID  uint64 // of entries
	timed   schedule
	groups  map[openflow.GroupID]*groupSlot
	meters  map[openflow.MeterID]*meterSlot
}

// New returns an empty pipeline: all tables exist and, without entries, drop all packets.
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

// Limits returns the limits, with defaults filled in.
func (p *Pipeline) Limits() Limits { return p.limits }

// Entries yields the flow entries by ascending table, then by descending priority. The pipeline must not change meanwhile.
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

// Lookup returns the flow entry that a packet with those fields matches in a table, nil if none. Among several with the same priority any may
// be returned [5.3].
func (p *Pipeline) Lookup(table openflow.TableID, packet *match.Key) *Entry {
	t := &p.tables[table]
	for _, s := range t.order {
		if c := t.find(s.priority, s.match(packet)); c != nil {
			return c.entry
		}
	}
	return nil
}

// Change is the effect of a message on a pipeline, for the kernel and for notifications. It mentions each entry, group or meter at most once.
// The kernel must set first and remove last: groups and meters before the entries that use them, entries before the groups and meters that
// they used.
type Change struct {
	Set           []Set
	Removed       []Removed
	SetGroups     []*Group
	RemovedGroups []*Group
	SetMeters     []*Meter
	RemovedMeters []*Meter

	before before
}

// Set is a new or modified flow entry.
type Set struct {
	Entry *Entry
	// Old is the replaced entry with the same ID; nil if it is new.
	Old *Entry
	// KeepCounts: the counters of Old are kept [6.4]. Otherwise they start at zero.
	KeepCounts bool
}

// Removed is a removed flow entry.
type Removed struct {
	Entry  *Entry
	Reason openflow.FlowRemovedReason
	// Report: the entry asks for a flow-removed message [5.5].
	Report bool
}

// Empty reports whether nothing changed.
func (c *Change) Empty() bool {
	return len(c.Set)+len(c.Removed)+len(c.SetGroups)+len(c.RemovedGroups)+len(c.SetMeters)+len(c.RemovedMeters) == 0
}

func (c *Change) remove(e *Entry, why openflow.FlowRemovedReason) {
	c.Removed = append(c.Removed, Removed{e, why, e.Flags&openflow.FlowSendFlowRem != 0})
}

// since is the duration since something was created.
func since(created, now time.Time) openflow.Duration {
	d := max(now.Sub(created), 0)
	return openflow.Duration{Sec: uint32(d / time.Second), Nsec: uint32(d % time.Second)}
}

func refuse(code openflow.Code, section, format string, args ...any) *openflow.Fault {
	return &openflow.Fault{Code: code, Section: section, Text: fmt.Sprintf(format, args...)}
}

// result converts a fault to an error: an interface that holds a nil *Fault is not nil.
func result(c Change, f *openflow.Fault) (Change, error) {
	if f != nil {
		return Change{}, f
	}
	return c, nil
}
