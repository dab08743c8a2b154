package install

import (
	"encoding/binary"
	"errors"
	"maps"
	"testing"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// freeCounts counts the free and deferred indices of each allocator.
func (k *Kernel) freeCounts() map[string]int {
	free := make(map[string]int)
	for name, r := range map[string]*allocator{
		"entries": k.entryAlloc, "counts": k.countAlloc, "ops": k.opAlloc, "lists": k.listAlloc, "subtables": k.subtableAlloc,
		"groups": k.groupAlloc, "heads": k.headAlloc, "buckets": k.bucketAlloc, "slots": k.slotAlloc, "meters": k.meterAlloc,
	} {
		free[name] = int(r.end - r.next)
		for c := range r.avail {
			free[name] += (len(r.avail[c]) + len(r.deferred[c])) << c
		}
	}
	return free
}

// wantFree compares the free counts with earlier ones.
func (r *rig) wantFree(want map[string]int) {
	r.t.Helper()
	if got := r.installed.freeCounts(); !maps.Equal(got, want) {
		r.t.Errorf("free places: %v, want %v", got, want)
	}
	for n, t := range r.installed.tables {
		for _, s := range t.subtables {
			if len(s.ranks) == 0 && !s.listed {
				r.t.Errorf("table %d has a subtable that nothing leads to", n)
			}
		}
	}
}

// TestFullLeavesAllAsItWas: a flow entry or group that does not fit changes nothing, whichever allocator is exhausted.
func TestFullLeavesAllAsItWas(t *testing.T) {
	tests := map[string]func(o *kernel.Options){
		"entries":   func(o *kernel.Options) { o.Entries = 12 },
		"ops":       func(o *kernel.Options) { o.Ops = kernel.OutOps + 24 },
		"lists":     func(o *kernel.Options) { o.Lists = 20 },
		"subtables": func(o *kernel.Options) { o.Subtables = 9 },
		"buckets":   func(o *kernel.Options) { o.Buckets = 6 },
		"slots":     func(o *kernel.Options) { o.Slots = 600 },
		"groups":    func(o *kernel.Options) { o.Groups = 4 },
	}
	for name, limit := range tests {
		t.Run(name, func(t *testing.T) {
			o := small
			limit(&o)
			d := differ{rig: newRig(t, o), world: &world{Rand: newRand(t)}, met: make(map[uint64]uint64)}
			empty := d.installed.freeCounts()
			refused := 0
			for range times(300) {
				var m openflow.Message = d.fresh()
				if d.often(20) {
					m = d.groupMod()
				}
				before := d.installed.freeCounts()
				if err := d.try(m); err != nil {
					refused++
					d.wantFree(before)
				}
				d.compare(1, d.frame(d.kind()))
				if t.Failed() {
					t.FailNow()
				}
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
			d.deleteAll()
			d.wantFree(empty)
		})
	}
}

// fresh makes a flow mod that adds an entry, or deletes some, and replaces none.
func (d *differ) fresh() *openflow.FlowMod {
	m := d.flowMod()
	switch m.Command {
	case openflow.FlowModify, openflow.FlowModifyStrict, openflow.FlowAdd:
		m.Command = openflow.FlowAdd
		d.last += 40503 // odd: none comes twice in 65,536
		m.Priority = d.last
	}
	return m
}

// try applies a message, and undoes it in the pipeline if the kernel has no space for it.
func (d *differ) try(m openflow.Message) error {
	d.t.Helper()
	if g, ok := m.(*openflow.GroupMod); ok && g.Command == openflow.GroupModify {
		g.Command = openflow.GroupAdd // what is there stays as it is
	}
	c, err := d.pipeline.Apply(start, m)
	if err != nil {
		return nil // refused by the specification
	}
	err = d.installed.Apply(c, func(*pipeline.Removed, openflow.Counter) {})
	if err != nil && !errors.Is(err, ErrFull) {
		d.t.Fatal(err)
	}
	if err == nil {
		return nil
	}
	switch m := m.(type) {
	case *openflow.FlowMod:
		back := *m
		back.Command, back.Flags, back.Cookie, back.CookieMask = openflow.FlowDeleteStrict, 0, 0, 0
		back.OutPort, back.OutGroup = openflow.PortAny, openflow.GroupAny
		_, fault := d.pipeline.FlowMod(start, &back)
		d.must(fault)
	case *openflow.GroupMod:
		_, fault := d.pipeline.GroupMod(start, &openflow.GroupMod{Command: openflow.GroupDelete, Group: m.Group})
		d.must(fault)
	}
	return err
}

// large are sizes for many flow entries.
var large = kernel.Options{
	Entries: 1 << 17, Ops: 1 << 19, Lists: 1 << 16, Subtables: 1 << 12, Groups: 16, Buckets: 64, Slots: 4096, Meters: 8, Megaflows: 1024,
}

const many = 100_000

// manyMods are flow mods for as many connections, of one priority or of many.
func manyMods(c openflow.FlowModCommand, priorities int) []*openflow.FlowMod {
	list := make([]*openflow.FlowMod, many)
	set := openflow.ActionSetField{Field: openflow.Match{}.Uint(openflow.FieldTCPDst, 8080)}
	for i := range list {
		m := openflow.NewFlowMod(c)
		m.Match = openflow.Match{}.Uint(openflow.FieldEthType, 0x0800).Uint(openflow.FieldIPProto, 6).
			Bytes(openflow.FieldIPv4Src, binary.BigEndian.AppendUint32(nil, uint32(i)), nil).Uint(openflow.FieldTCPDst, 80)
		m.Priority = uint16(i % priorities)
		m.Instructions = []openflow.Instruction{apply(set, out(nowhere))}
		list[i] = m
	}
	return list
}

// TestManyEntriesLeaveNothing: 100,000 flow entries of 65,536 priorities go in and out.
func TestManyEntriesLeaveNothing(t *testing.T) {
	r := newRig(t, large)
	empty := r.installed.freeCounts()
	for _, m := range manyMods(openflow.FlowAdd, 1<<16) {
		r.do(m)
	}
	if got := len(r.installed.entries); got != many {
		t.Fatalf("%d entries are installed", got)
	}
	r.deleteAll()
	r.wantFree(empty)
	n := 0
	for range r.pipeline.Entries() {
		n++
	}
	if n != 0 || len(r.installed.entries) != 0 {
		t.Errorf("%d entries are left, %d installed", n, len(r.installed.entries))
	}
}

// BenchmarkFlowMods is from a flow mod to its being in force, for entries of one priority and of 65,536.
func BenchmarkFlowMods(b *testing.B) {
	tests := []struct {
		name       string
		command    openflow.FlowModCommand
		priorities int
	}{
		{"add", openflow.FlowAdd, 1}, {"add priorities", openflow.FlowAdd, 1 << 16}, {"modify", openflow.FlowModifyStrict, 1},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			r := newRig(b, large)
			list := manyMods(openflow.FlowAdd, tt.priorities)
			if tt.command != openflow.FlowAdd {
				for _, m := range list {
					r.do(m)
				}
				list = manyMods(tt.command, tt.priorities)
			}
			n := 0
			for b.Loop() {
				if n == many {
					n = 0
					b.StopTimer()
					if tt.command == openflow.FlowAdd {
						r.deleteAll()
					}
					b.StartTimer()
				}
				r.do(list[n])
				n++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "flowmods/s")
		})
	}
}

// BenchmarkSubtables is what a packet costs that is looked up under as many masks; without a cached path, and with one.
func BenchmarkSubtables(b *testing.B) {
	for _, paths := range []int{0, 1024} {
		for _, masks := range []int{1, 10, 100} {
			b.Run(map[int]string{0: "looked up", 1024: "cached"}[paths]+"/"+map[int]string{1: "1", 10: "10", 100: "100"}[masks], func(b *testing.B) {
				o := small
				o.Megaflows, o.Entries = paths, 256
				r := newRig(b, o)
				for i := range masks {
					m := openflow.Match{}.UintMasked(openflow.FieldMetadata, uint64(i+1), uint64(i+1))
					r.flow(0, uint16(1000+i), m, apply(out(nowhere)))
				}
				r.flow(0, 1, nil, apply(out(nowhere)))
				p := udp(1, 53)
				for b.Loop() {
					r.send(1, p)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
			})
		}
	}
}
