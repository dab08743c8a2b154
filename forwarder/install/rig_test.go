package install

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/frame"
	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// start is when the tests' pipelines begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rig is a switch with ports that a test holds the other ends of.
type rig struct {
	t         testing.TB
	kernel    *kernel.Forwarder
	installed *Kernel
	pipeline  *pipeline.Pipeline
	model     *model.Switch
	far       []far // by port, from 1 on
	upcalls   chan model.Upcall
}

// far is the other end of a port.
type far struct {
	fd  int
	low int // ifindex of the port itself
}

// Sizes of the tests' data path, which are small so that every allocator recycles its ranges.
var small = kernel.Options{
	Entries: 64, Ops: 256 + 1024, Lists: 256, Subtables: 256, Groups: 16, Buckets: 64, Slots: 4096, Meters: 8, Megaflows: 1024,
}

const rigPorts = 4

// rigState is where the data path has its pins.
const rigState = "/sys/fs/bpf/baton/test"

// newRig makes a switch with four ports.
func newRig(t testing.TB, o kernel.Options) *rig {
	t.Helper()
	needKernel(t)
	o.State, o.Name = rigState, "loop-test"
	f, err := kernel.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, kernel: f, installed: New(f), pipeline: pipeline.New(pipeline.Limits{Tables: 8, Entries: 1 << 20}),
		far: make([]far, rigPorts+1), upcalls: make(chan model.Upcall, 1<<12),
	}
	r.model = &model.Switch{Pipeline: r.pipeline}
	ended := make(chan struct{})
	t.Cleanup(func() {
		r.must(f.Close())
		<-ended
		r.must(kernel.Remove(o.State, o.Name))
	})
	go func() {
		defer close(ended)
		r.readUpcalls()
	}()
	for i := 1; i <= rigPorts; i++ {
		r.plug(i)
	}
	r.must(r.installed.Begin())
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) plug(n int) {
	r.t.Helper()
	name, peer := fmt.Sprintf("p%d", n), fmt.Sprintf("q%d", n)
	ip(r.t, "link", "add", name, "mtu", "9000", "type", "veth", "peer", "name", peer, "mtu", "9000")
	r.t.Cleanup(func() { ip(r.t, "link", "del", name) })
	ip(r.t, "link", "set", peer, "up")
	ip(r.t, "link", "set", name, "up")
	near, err := net.InterfaceByName(name)
	r.must(err)
	dev, err := net.InterfaceByName(peer)
	r.must(err)
	r.far[n] = far{r.listen(dev.Index), near.Index}
	r.setPort(model.Port{No: openflow.PortNo(n), There: true, Live: true})
}

// listen opens a socket for all that an interface gets.
func (r *rig) listen(ifindex int) int {
	r.t.Helper()
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	r.must(err)
	r.t.Cleanup(func() { unix.Close(fd) })
	r.must(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	r.must(unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	r.must(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20))
	r.must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: ifindex}))
	return fd
}

// setPort sets a port in the kernel and in the model.
func (r *rig) setPort(p model.Port) {
	r.t.Helper()
	ifindex := 0
	if p.There {
		ifindex = r.far[p.No].low
	}
	r.must(r.installed.SetPort(p.No, Port{Ifindex: ifindex, Config: p.Config, Live: p.Live, NoFlood: p.NoFlood}))
	r.model.Ports = slices.DeleteFunc(r.model.Ports, func(old model.Port) bool { return old.No == p.No })
	r.model.Ports = append(r.model.Ports, p)
}

// do has a message carried out, and reports whether it was accepted.
func (r *rig) do(m openflow.Message) bool {
	r.t.Helper()
	if err := openflow.Check(m); err != nil {
		r.t.Fatalf("%+v: %v", m, err)
	}
	c, err := r.pipeline.Apply(start, m)
	var fault *openflow.Fault
	if errors.As(err, &fault) {
		return false
	}
	r.must(err)
	r.must(r.installed.Apply(c, func(*pipeline.Removed, openflow.Counter) {}))
	return true
}

// flow adds a flow entry.
func (r *rig) flow(table openflow.TableID, priority uint16, m openflow.Match, list ...openflow.Instruction) {
	r.t.Helper()
	f := openflow.NewFlowMod(openflow.FlowAdd)
	f.Table, f.Priority, f.Match, f.Instructions = table, priority, m, list
	if !r.do(f) {
		r.t.Fatalf("refused: %+v", f)
	}
}

func (r *rig) deleteAll() {
	r.t.Helper()
	f := openflow.NewFlowMod(openflow.FlowDelete)
	f.Table = openflow.TableAll
	r.do(f)
	r.do(&openflow.GroupMod{Command: openflow.GroupDelete, Group: openflow.GroupAll})
	r.do(&openflow.MeterMod{Command: openflow.MeterDelete, Meter: openflow.MeterAll})
}

func apply(list ...openflow.Action) openflow.Instruction {
	return openflow.InstructionApplyActions{Actions: list}
}

func out(port openflow.PortNo) openflow.Action {
	return openflow.ActionOutput{Port: port, MaxLen: 0xffff}
}

func (r *rig) readUpcalls() {
	var p kernel.Upcall
	for r.kernel.Upcall(&p) == nil {
		h := p.Head
		b := bytes.Clone(p.Frame)
		if h.TagType != 0 {
			b = frame.InsertVLAN(b, packet.EtherType(h.TagType), h.Tag)
		}
		r.upcalls <- model.Upcall{
			Reason: openflow.PacketInReason(h.Reason), Table: openflow.TableID(h.Table), Cookie: bits.ReverseBytes64(h.Cookie),
			Metadata: bits.ReverseBytes64(h.Metadata), Tunnel: bits.ReverseBytes64(h.TunnelId),
			InPort: openflow.PortNo(bits.ReverseBytes32(h.InPort)), MaxLen: uint16(h.MaxLen), Frame: b,
		}
	}
}

// send puts a frame on the wire to a port.
func (r *rig) send(port openflow.PortNo, b []byte) {
	r.t.Helper()
	if _, err := unix.Write(r.far[port].fd, b); err != nil {
		r.t.Fatalf("send %d bytes to port %d: %v", len(b), port, err)
	}
}

// receive returns a frame that left by a port, if there is one.
func (r *rig) receive(port openflow.PortNo) ([]byte, bool) {
	r.t.Helper()
	var buffer [1 << 16]byte
	var control [128]byte
	n, more, _, _, err := unix.Recvmsg(r.far[port].fd, buffer[:], control[:], unix.MSG_DONTWAIT)
	if err == unix.EAGAIN {
		return nil, false
	}
	r.must(err)
	b := bytes.Clone(buffer[:n])
	messages, err := unix.ParseSocketControlMessage(control[:more])
	r.must(err)
	for _, m := range messages {
		if m.Header.Type != unix.PACKET_AUXDATA {
			continue
		}
		// struct tpacket_auxdata: status 0, vlan_tci 16, vlan_tpid 18
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			b = frame.InsertVLAN(b, packet.EtherType(binary.NativeEndian.Uint16(m.Data[18:])), binary.NativeEndian.Uint16(m.Data[16:]))
		}
	}
	return b, true
}

// gather adds what has come out of the switch to what has come before.
func (r *rig) gather(got *model.Result) {
	r.t.Helper()
	for port := openflow.PortNo(1); port <= rigPorts; port++ {
		for b, ok := r.receive(port); ok; b, ok = r.receive(port) {
			got.Sent = append(got.Sent, model.Sent{Port: port, Frame: b})
		}
	}
	for {
		select {
		case p := <-r.upcalls:
			got.Upcalls = append(got.Upcalls, p)
			continue
		default:
		}
		return
	}
}

// possible returns all that the model lets become of a packet: select groups may choose any bucket that lives.
func (r *rig) possible(do func() model.Result) []model.Result {
	var all []model.Result
	var chosen, sizes []int
	for {
		at := 0
		r.model.Choose = func(_ *pipeline.Group, live []int) int {
			if at == len(chosen) {
				chosen, sizes = append(chosen, 0), append(sizes, 0)
			}
			sizes[at] = len(live)
			at++
			return live[chosen[at-1]]
		}
		all = append(all, do())
		chosen, sizes = chosen[:at], sizes[:at]
		for at > 0 && chosen[at-1]+1 >= sizes[at-1] {
			at--
		}
		if at == 0 || len(all) > 500 {
			return all
		}
		chosen, sizes = chosen[:at], sizes[:at]
		chosen[at-1]++
	}
}

// settled is how long what is missing may take, where the machine is busy.
const settled = 2 * time.Second

// becomes waits until what comes out of the switch is one of the results, which it returns.
func (r *rig) becomes(want []model.Result) (model.Result, bool, model.Result) {
	r.t.Helper()
	var got model.Result
	if len(want) > 1 { // what has come so far may be one of them and not be all
		got.Upcalls = r.untilMark()
	}
	for until := time.Now().Add(settled); ; {
		r.gather(&got)
		for _, w := range want {
			if same(got, w) {
				return w, true, got
			}
		}
		if time.Now().After(until) {
			return model.Result{}, false, got
		}
		_, _ = unix.Poll(r.waits(), 1)
	}
}

// markPort is where a mark among the packets for the controllers is said to come from.
const markPort openflow.PortNo = 0xfeed

// untilMark returns all packets for the controllers until now.
func (r *rig) untilMark() (list []model.Upcall) {
	r.t.Helper()
	ops, err := r.installed.Actions([]openflow.Action{out(openflow.PortController)})
	r.must(err)
	r.must(r.kernel.Send(make([]byte, 60), bits.ReverseBytes32(uint32(markPort)), ops))
	for {
		select {
		case p := <-r.upcalls:
			if p.InPort == markPort {
				return list
			}
			list = append(list, p)
		case <-time.After(settled):
			r.t.Fatal("packets do not come up to the controllers")
		}
	}
}

func (r *rig) waits() []unix.PollFd {
	var list []unix.PollFd
	for _, f := range r.far[1:] {
		list = append(list, unix.PollFd{Fd: int32(f.fd), Events: unix.POLLIN})
	}
	return list
}

// same compares what became of a packet, without regard for the order.
func same(a, b model.Result) bool {
	if len(a.Sent) != len(b.Sent) || len(a.Upcalls) != len(b.Upcalls) {
		return false
	}
	sortResult(&a)
	sortResult(&b)
	return slices.EqualFunc(a.Sent, b.Sent, func(a, b model.Sent) bool { return a.Port == b.Port && alike(a.Frame, b.Frame) }) &&
		slices.EqualFunc(a.Upcalls, b.Upcalls, func(a, b model.Upcall) bool {
			alike := alike(a.Frame, b.Frame)
			a.Frame, b.Frame = nil, nil
			return alike && compareUpcall(a, b) == 0
		})
}

// alike compares frames. In one's complement, which checksums are in, 0 has two forms; both are the same wrong checksum after a change.
func alike(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if a[i] == b[i] {
			continue
		}
		if i%2 != 0 || i+1 == len(a) || a[i]^b[i] != 0xff || a[i+1]^b[i+1] != 0xff || a[i] != a[i+1] || a[i] != 0 && a[i] != 0xff {
			return false
		}
		i++
	}
	return true
}

func sortResult(r *model.Result) {
	r.Sent, r.Upcalls = slices.Clone(r.Sent), slices.Clone(r.Upcalls)
	slices.SortFunc(r.Sent, func(a, b model.Sent) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), bytes.Compare(a.Frame, b.Frame))
	})
	slices.SortFunc(r.Upcalls, compareUpcall)
}

func compareUpcall(a, b model.Upcall) int {
	return cmp.Or(bytes.Compare(a.Frame, b.Frame), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Cookie, b.Cookie),
		cmp.Compare(a.Metadata, b.Metadata), cmp.Compare(a.Tunnel, b.Tunnel), cmp.Compare(a.InPort, b.InPort), cmp.Compare(a.MaxLen, b.MaxLen))
}

// describe is for people.
func describe(r model.Result) string {
	var b bytes.Buffer
	sortResult(&r)
	for _, s := range r.Sent {
		fmt.Fprintf(&b, "  port %d: %x\n", s.Port, s.Frame)
	}
	for _, p := range r.Upcalls {
		fmt.Fprintf(&b, "  controller (%v, table %v, cookie %x, metadata %x, tunnel %x, in %v, %d): %x\n",
			p.Reason, p.Table, p.Cookie, p.Metadata, p.Tunnel, p.InPort, p.MaxLen, p.Frame)
	}
	if b.Len() == 0 {
		return "  nothing\n"
	}
	return b.String()
}
