package forwarder

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"baton/datapath"
	"baton/datapath/kerneltest"
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
			r := newRig(t)
			kerneltest.IP(t, "link", "add", "chain", "type", "veth", "peer", "name", "chainpeer")
			t.Cleanup(func() { kerneltest.IP(t, "link", "del", "chain") })
			for _, name := range []string{"chainpeer", "chain"} {
				if err := datapath.SetUp(name); err != nil {
					t.Fatal(err)
				}
			}
			near := interfaceNamed(t, "chain")
			r.Ports[1] = Port{Number: 1 << 24, Ifindex: uint32(near.Index), Flags: PortThere | PortLive | side.flags}
			if err := r.Attach(near.Index, 1); err != nil {
				t.Fatal(err)
			}
			behind := kerneltest.CountBehind(t, near.Index, side.attach, localType)
			r.whole.Stack = 1
			for _, tt := range []struct {
				verdict string
				set     func()
				passes  bool
			}{
				{"to_stack", func() { r.does(Op{Kind: OpNormal}) }, true},
				{"dropped", func() { r.does() }, false},
				{"forwarded", func() { r.does(Op{Kind: OpOutput, Arg: 2}) }, false},
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

func (r *rig) verdictCount(name string) uint64 {
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
