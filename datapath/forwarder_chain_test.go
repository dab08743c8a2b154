package datapath

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// TestForwarderChain: programs behind the forwarder's on the same interface get what it leaves to the host, and nothing that is its own.
func TestForwarderChain(t *testing.T) {
	for _, side := range []struct {
		name   string
		flags  uint32
		attach ebpf.AttachType
		from   string // the interface that the packets are sent by
	}{
		{"network", 0, ebpf.AttachTCXIngress, "chainpeer"},
		{"host", PortHost, ebpf.AttachTCXEgress, "chain"},
	} {
		t.Run(side.name, func(t *testing.T) {
			r := newForwarderRig(t)
			ip(t, "link", "add", "chain", "type", "veth", "peer", "name", "chainpeer")
			t.Cleanup(func() { ip(t, "link", "del", "chain") })
			for _, name := range []string{"chainpeer", "chain"} {
				if err := setUp(name); err != nil {
					t.Fatal(err)
				}
			}
			near := interfaceNamed(t, "chain")
			r.Ports[1] = ForwarderPort{Number: 1 << 24, Ifindex: uint32(near.Index), Flags: PortThere | PortLive | side.flags}
			if err := r.Attach(near.Index, 1); err != nil {
				t.Fatal(err)
			}
			behind := countBehind(t, near.Index, side.attach, localType)
			r.whole.Stack = 1
			for _, tt := range []struct {
				verdict string
				set     func()
				passes  bool
			}{
				{"to_stack", func() { r.does(ForwarderOp{Kind: OpNormal}) }, true},
				{"dropped", func() { r.does() }, false},
				{"forwarded", func() { r.does(ForwarderOp{Kind: OpOutput, Arg: 2}) }, false},
				{"not_a_port", func() {
					if err := r.objects.PortOf.Delete(uint32(near.Index)); err != nil {
						t.Fatal(err)
					}
				}, true},
			} {
				tt.set()
				const frames = 5
				was, before := r.verdictCount(tt.verdict), behind()
				sendLocal(t, interfaceNamed(t, side.from).Index, frames)
				want := uint64(0)
				if tt.passes {
					want = frames
				}
				for until := time.Now().Add(2 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
					if r.verdictCount(tt.verdict) >= was+frames && behind() == before+want {
						break
					}
				}
				if n := r.verdictCount(tt.verdict) - was; n < frames { // others may send, too
					t.Errorf("%s: %d frames of %d", tt.verdict, n, frames)
				}
				if n := behind() - before; n != want {
					t.Errorf("%s: the program behind got %d frames of %d, want %d", tt.verdict, n, frames, want)
				}
			}
		})
	}
}

func (r *forwarderRig) verdictCount(name string) uint64 {
	r.t.Helper()
	counts, err := r.Verdicts()
	if err != nil {
		r.t.Fatal(err)
	}
	return counts[name]
}

func interfaceNamed(t testing.TB, name string) *net.Interface {
	t.Helper()
	dev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

// localType is an EtherType that nobody but the test sends: IEEE 802, local experimental.
const localType = 0x88b5

// countBehind attaches a program behind those that are there, which counts the frames of an EtherType that it gets.
func countBehind(t testing.TB, ifindex int, at ebpf.AttachType, etherType int32) func() uint64 {
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

// sendLocal sends frames of localType.
func sendLocal(t testing.TB, ifindex, frames int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, localType >> 8, localType & 0xff}, make([]byte, 46))
	for range frames {
		err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: ifindex})
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // which a program at egress that drops makes of it
			t.Fatalf("send: %v", err)
		}
	}
}
