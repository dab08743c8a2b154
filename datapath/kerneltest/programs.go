package kerneltest

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// The actions of a tc program.
const (
	ActPass     = 0xffffffff // TCX_NEXT
	ActShot     = 2
	ActRedirect = 7
)

// SKBuff is the start of struct __sk_buff, up to what the tests set.
type SKBuff struct {
	_              [9]uint32
	IngressIfindex uint32
	Ifindex        uint32
	_              [30]uint32
	GSOSegs        uint32
	_              [2]uint32
	GSOSize        uint32 // bytes of payload in each segment; 0: the packet is one
	_              uint32
}

// PossibleCPUs is how many values an entry of a map by processor has.
var PossibleCPUs = sync.OnceValue(ebpf.MustPossibleCPU)

// CountBehind attaches a program behind those that are there, which counts the frames of an EtherType that it gets.
func CountBehind(t testing.TB, ifindex int, at ebpf.AttachType, etherType int32) func() uint64 {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	const protocol = 16 // in struct __sk_buff; in network byte order
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word),
		asm.JNE.Imm(asm.R2, etherType>>8|etherType&0xff<<8, "out"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), // TC_ACT_OK
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: p, Attach: at, Anchor: link.Tail()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return func() (n uint64) {
		if err := m.Lookup(uint32(0), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

// Programs counts those of a name that the kernel has.
func Programs(t testing.TB, name string) (n int) {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone since
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := p.Info()
		if err := errors.Join(err, p.Close()); err != nil {
			t.Fatal(err)
		}
		if info.Name == name {
			n++
		}
	}
}

// Entries counts those of a map.
func Entries(t testing.TB, m *ebpf.Map) (n int) {
	t.Helper()
	var key, value []byte
	it := m.Iterate()
	for it.Next(&key, &value) {
		n++
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return n
}

// Empty takes all entries out of a map.
func Empty(t testing.TB, m *ebpf.Map) {
	t.Helper()
	var key, value []byte
	var all [][]byte
	it := m.Iterate()
	for it.Next(&key, &value) {
		all = append(all, slices.Clone(key))
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	for _, key := range all {
		if err := m.Delete(key); err != nil {
			t.Fatal(err)
		}
	}
}
