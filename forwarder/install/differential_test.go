package install

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"baton/forwarder/model"
	"baton/openflow"
)

// times is how often a random test goes round, which BATON_TIMES multiplies.
func times(n int) int {
	if more, err := strconv.Atoi(os.Getenv("BATON_TIMES")); err == nil {
		return n * more
	}
	return n
}

// TestKernelIsTheModel sends random packets through random tables, again after each change of these, and wants of the kernel's programs
// what the model says: byte for byte, port for port, and the counters too.
func TestKernelIsTheModel(t *testing.T) {
	for _, paths := range []int{0, 1, 4096} {
		t.Run(fmt.Sprintf("%d cached paths", paths), func(t *testing.T) {
			o := small
			o.Megaflows = paths
			o.Entries, o.Ops = 1024, 256+8192
			d := differ{rig: newRig(t, o), world: &world{Rand: newRand(t)}}
			for range times(6) {
				d.round(40)
			}
		})
	}
}

// differ compares the kernel with the model.
type differ struct {
	*rig
	*world
	met  map[uint64]uint64 // packets by entry
	sure bool              // that met is right
	last uint16            // priority given by fresh
}

func (d *differ) round(packets int) {
	d.t.Helper()
	empty := d.installed.freeCounts()
	d.tiny = d.often(30)
	d.met, d.sure = make(map[uint64]uint64), true
	for range 12 {
		d.change(d.groupMod())
	}
	for table := range openflow.TableID(rigTables) {
		if d.often(60) && table < rigTables-1 {
			m := openflow.NewFlowMod(openflow.FlowAdd)
			m.Table, m.Priority, m.Cookie = table, 0, d.Uint64()
			m.Instructions = []openflow.Instruction{openflow.InstructionGotoTable{Table: table + 1}}
			d.change(m)
		}
	}
	for range 40 {
		d.change(d.flowMod())
	}
	for range packets {
		b := d.frame(d.kind())
		in := openflow.PortNo(1 + d.IntN(rigPorts))
		for range 2 { // the second has its path cached
			d.compare(in, b)
		}
		switch d.IntN(7) {
		case 0:
			d.change(d.groupMod())
		case 1:
			no := openflow.PortNo(1 + d.IntN(rigPorts))
			config := one(d.world, 0, 0, 0, 0, 0, 0, 0, 0, openflow.PortConfigNoFwd, openflow.PortConfigNoRecv, openflow.PortConfigNoPacketIn, openflow.PortConfigPortDown)
			p := model.Port{No: no, There: true, Live: d.often(70), NoFlood: d.often(20), Config: config}
			d.setPort(p)
		case 2:
			d.model.DropFragments = d.often(20)
			d.kernel.SetFragments(d.model.DropFragments)
		case 3:
			d.compareOut(d.frame(d.kind()))
		default:
			d.change(d.flowMod())
		}
		d.compare(in, b)
	}
	d.wantCounts()
	d.deleteAll()
	d.wantFree(empty)
}

func (d *differ) change(m openflow.Message) {
	d.t.Helper()
	if !d.do(m) {
		return
	}
	if f, ok := m.(*openflow.FlowMod); ok && f.Flags&openflow.FlowResetCounts != 0 {
		d.sure = false
	}
}

func (d *differ) compare(in openflow.PortNo, b []byte) {
	d.t.Helper()
	want := d.possible(func() model.Result { return d.model.Receive(in, b) })
	d.send(in, b)
	d.expect(want, fmt.Sprintf("port %d: %x", in, b))
}

// compareOut compares a packet-out.
func (d *differ) compareOut(b []byte) {
	d.t.Helper()
	in := one(d.world, openflow.PortController, openflow.PortAny, 1, 2)
	var list []openflow.Action
	for _, a := range d.actions(d.kind(), 4) {
		if g, ok := a.(openflow.ActionGroup); !ok || d.pipeline.Group(g.Group) != nil {
			list = append(list, a)
		}
	}
	if d.often(50) {
		list = append(list, out(openflow.PortTable))
	}
	want := d.possible(func() model.Result { return d.model.PacketOut(in, b, list) })
	ops, err := d.installed.Actions(list)
	d.must(err)
	d.must(d.kernel.Send(b, be32(uint32(in)), ops))
	d.expect(want, fmt.Sprintf("packet-out, in port %v, %+v: %x", in, list, b))
}

func be32(n uint32) uint32 { return n>>24 | n>>8&0xff00 | n<<8&0xff0000 | n<<24 }

func (d *differ) expect(want []model.Result, what string) {
	d.t.Helper()
	is, ok, got := d.becomes(want)
	if !ok {
		for e := range d.pipeline.Entries() {
			d.t.Logf("table %v priority %d %v: %s", e.Table, e.Priority, e.Fields, named(e.Instructions))
		}
		for _, g := range d.pipeline.Groups() {
			d.t.Logf("group %v %v: %s", g.ID, g.Kind, named(g.Buckets))
		}
		verdicts, _ := d.kernel.Verdicts()
		d.t.Fatalf("%s\nbecame\n%swant\n%sor one of %d in all; verdicts %v", what, describe(got), describe(want[0]), len(want), verdicts)
	}
	for _, id := range is.Met {
		d.met[id]++
	}
	if len(want) > 1 {
		d.sure = false // two choices may look the same
	}
}

// named is a value with the names of its types, which tell actions apart.
func named(v any) string {
	return strings.NewReplacer("openflow.", "", "[]uint8", "").Replace(fmt.Sprintf("%#v", v))
}

// wantCounts holds the counters of the entries against the packets that met them.
func (d *differ) wantCounts() {
	d.t.Helper()
	if !d.sure {
		return
	}
	for e := range d.pipeline.Entries() {
		if got := d.installed.Entry(e.ID).Packets; got != d.met[e.ID] {
			d.t.Errorf("entry %v: %d packets, want %d", e.Fields, got, d.met[e.ID])
		}
	}
}
