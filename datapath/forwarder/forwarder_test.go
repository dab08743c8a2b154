package forwarder

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

// TestForwarderVerdictNames: each verdict has a name of its own.
func TestForwarderVerdictNames(t *testing.T) {
	seen := make(map[string]bool)
	for v, name := range verdictNames {
		if name == "" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("verdict %d is called %q", v, name)
		}
		seen[name] = true
	}
	if want := int(forwarderVerdictMICROFLOWS_HIT) + 1; len(verdictNames) != want {
		t.Errorf("%d names of %d verdicts", len(verdictNames), want)
	}
}

// rig is the forwarder's data path with one flow entry, which takes every packet.
type rig struct {
	*Forwarder
	t testing.TB
}

const (
	rigOps   = OutOps // of the entry
	rigPorts = 2
)

func newRig(t testing.TB) *rig {
	t.Helper()
	kerneltest.Need(t)
	o := Options{
		State: datapath.BPFFS + "/baton/forwarder-test", Name: "loop-datapath", Entries: 8, Ops: OutOps + 64, Lists: 8, Subtables: 8,
		Groups: 8, Buckets: 8, Slots: 8, Meters: 8, Megaflows: 1,
	}
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.Close(), Remove(o.State, o.Name)); err != nil {
			t.Error(err)
		}
	})
	r := &rig{f, t}
	for place := uint32(1); place <= rigPorts; place++ {
		// nobody is there, and the loop device takes what goes out
		f.Ports[place] = Port{Number: place << 24, Ifindex: uint32(f.loop.Ifindex), Flags: PortThere | PortLive}
	}
	f.SetPorts(rigPorts)
	if err := f.objects.PortOf.Put(uint32(1), uint32(1)); err != nil { // lo
		t.Fatal(err)
	}
	f.Lists[0] = Listed{Subtable: 1}
	f.SetList(0, 0, 1)
	var key Fields
	*(*uint32)(unsafe.Pointer(&key[120])) = 1
	if err := f.SetRule(&key, 0, 1); err != nil {
		t.Fatal(err)
	}
	return r
}

// does makes these ops the flow entry's.
func (r *rig) does(ops ...Op) {
	copy(r.Ops[rigOps:], ops)
	r.Entries[0] = Entry{Ops: uint32(rigOps), Apply: uint16(len(ops))}
	r.Changed()
}

// run runs a frame through the program and returns the verdict's name, the action and the frame.
func (r *rig) run(b []byte) (verdict string, action uint32, after []byte) {
	r.t.Helper()
	before, err := r.Verdicts()
	if err != nil {
		r.t.Fatal(err)
	}
	opts := &ebpf.RunOptions{Data: b, DataOut: make([]byte, len(b)+256), Context: kerneltest.SKBuff{Ifindex: 1, IngressIfindex: 1}}
	if action, err = r.objects.ForwarderIngress.Run(opts); err != nil {
		r.t.Fatalf("run: %v\n% x", err, b)
	}
	counts, err := r.Verdicts()
	if err != nil {
		r.t.Fatal(err)
	}
	beside := []string{"upcall_lost", "copy_lost", "megaflows_hit", "microflows_hit"}
	for name, n := range counts {
		switch {
		case n == before[name] || slices.Contains(beside, name):
		case n > before[name]+1 || verdict != "":
			r.t.Fatalf("one packet, several verdicts: %q and %q (%d)\n% x", verdict, name, n-before[name], b)
		default:
			verdict = name
		}
	}
	return verdict, action, opts.DataOut
}

// TestForwarderSurvivesAnything: whatever the bytes and the ops, each packet has one verdict. The kernel leaves tags in the bytes of a test
// run, which it never does for packets that come by an interface.
func TestForwarderSurvivesAnything(t *testing.T) {
	r, rnd := newRig(t), kerneltest.Rand(t)
	seen := make(map[string]int)
	for range kerneltest.Rounds(3000) {
		var ops []Op
		for range 1 + rnd.IntN(4) {
			ops = append(ops, anyOp(rnd))
		}
		ops = append(ops, Op{Kind: OpOutput, Arg: 2})
		r.does(ops...)
		b := anyFrame(rnd)
		verdict, action, _ := r.run(b)
		if verdict == "" || action != kerneltest.ActShot && action != kerneltest.ActRedirect {
			t.Fatalf("verdict %q, action %d of\n% x\n%+v", verdict, action, b, ops)
		}
		seen[verdict]++
	}
	t.Log(seen)
	if seen["forwarded"] == 0 || seen["drop_not_there"] == 0 {
		t.Errorf("verdicts: %v", seen)
	}
}

// anyOp is an op that no compiler would make, but for those that send copies.
func anyOp(r *rand.Rand) Op {
	kinds := []uint8{OpPatch, OpPatch, OpPatch, OpTunnel, OpDSCP, OpECN, OpProto, OpVLANVID, OpVLANPCP, OpPushVLAN, OpPopVLAN, OpPushMPLS, OpPopMPLS,
		OpPushPBB, OpPopPBB, OpMPLSTTL, OpDecMPLSTTL, OpNWTTL, OpDecNWTTL, OpCopyTTLOut, OpCopyTTLIn, OpIncSeq, OpIncAck, OpIncSACK, OpIncTSval,
		OpIncTSecr, OpRescaleWindow, OpClampMSS, OpStripOption, OpQueue, OpGroup}
	op := Op{Kind: kinds[r.IntN(len(kinds))], Arg: r.Uint32(), Base: uint8(r.IntN(20)), At: uint8(r.IntN(40)), Len: uint8(r.IntN(20)),
		FieldAt: uint8(r.Uint32()), FieldLen: uint8(r.Uint32()), Sums: uint8(r.IntN(8))}
	if r.IntN(2) == 0 {
		op.Arg = []uint32{0x8100, 0x88a8, 0x8847, 0x0800, 0x88e7, 0}[r.IntN(6)]
	}
	if r.IntN(2) == 0 {
		op.Mask = r.Uint32()
	}
	for i := range op.Value {
		op.Value[i] = byte(r.Uint32())
	}
	return op
}

// anyFrame is a frame of headers that follow each other as they may not, cut anywhere, with bytes that are wrong.
func anyFrame(r *rand.Rand) []byte {
	b := append(make([]byte, 12), 0, 0)
	next := func(t uint16) { binary.BigEndian.PutUint16(b[len(b)-2:], t) }
	for range r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			next(0x8100)
			b = append(b, byte(r.Uint32()), byte(r.Uint32()), 0, 0)
		case 1:
			next(0x88a8)
			b = append(b, byte(r.Uint32()), byte(r.Uint32()), 0, 0)
		case 2:
			next(0x88e7)
			b = append(b, make([]byte, 18)...)
		}
	}
	next([]uint16{0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8847, 0x8848, 0x0020, 0x8100}[r.IntN(9)])
	body := make([]byte, 60+r.IntN(80))
	for i := range body {
		if r.IntN(3) == 0 {
			body[i] = byte(r.Uint32())
		}
	}
	body[0] = []byte{0x45, 0x46, 0x4f, 0x60, 0x6f, 0, 0xff}[r.IntN(7)]
	body[6] = []byte{0, 6, 17, 44, 60, 58, 132}[r.IntN(7)]
	body[9] = []byte{6, 17, 1, 132, 58}[r.IntN(5)]
	b = append(b, body...)
	return b[:54+r.IntN(len(b)-53)] // a test run has no less than an IPv6 header
}

// TestForwarderInTheBytes: a tag that was left in the bytes is matched as any, and no action finds it.
func TestForwarderInTheBytes(t *testing.T) {
	r := newRig(t)
	b := slices.Concat(make([]byte, 12), []byte{0x81, 0, 0, 5, 0x88, 0xb5}, make([]byte, 44))
	r.does(Op{Kind: OpVLANPCP, Arg: 3}, Op{Kind: OpOutput, Arg: 2})
	if verdict, _, _ := r.run(b); verdict != "drop_not_there" {
		t.Errorf("written: %s", verdict)
	}
	for _, ops := range [][]Op{{}, {{Kind: OpPopVLAN}}} {
		r.does(append(ops, Op{Kind: OpOutput, Arg: 2})...)
		if verdict, action, after := r.run(b); verdict != "forwarded" || action != kerneltest.ActRedirect || !slices.Equal(after, b) {
			t.Errorf("%v: %s, action %d\n% x", ops, verdict, action, after)
		}
	}
}
