package install

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/model"
	"baton/openflow"
	"baton/packet"
)

// binding are a rig's sizes with a memory of flows.
func binding() kernel.Options {
	o := small
	o.Bindings, o.NormalStack = 1024, true
	return o
}

// turn makes a port the host's side of its interface.
func (r *rig) turn(port openflow.PortNo) (internal int) {
	r.t.Helper()
	r.must(r.installed.SetPort(port, Port{}))
	r.must(r.installed.SetPort(port, Port{Ifindex: r.far[port].low, Live: true, Host: true}))
	return r.listen(r.far[port].low)
}

// hand installs an entry of these ops, whose records nothing compiles from actions here.
func (r *rig) hand(priority uint16, m openflow.Match, ops ...kernel.Op) {
	r.t.Helper()
	r.flow(0, priority, m, apply(slices.Repeat([]openflow.Action{out(nowhere)}, len(ops))...))
	for _, e := range r.installed.entries {
		if e.priority == priority {
			copy(r.kernel.Ops[e.ops:], ops)
		}
	}
}

// hostSends has the host send a frame by the interface of a port.
func (r *rig) hostSends(fd int, b []byte) {
	r.t.Helper()
	if _, err := unix.Write(fd, b); err != nil {
		r.t.Fatalf("send %d bytes: %v", len(b), err)
	}
}

// hostGets waits for the next frame that the host receives.
func (r *rig) hostGets(fd int) []byte {
	r.t.Helper()
	var b [1 << 16]byte
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(settled.Milliseconds()))
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
	if err != nil {
		r.t.Fatalf("the host gets nothing: %v", err)
	}
	return bytes.Clone(b[:n])
}

// leaves waits until a frame has left by a port, and returns which.
func (r *rig) leaves() (openflow.PortNo, []byte) {
	r.t.Helper()
	_, _ = unix.Poll(r.waits(), int(settled.Milliseconds()))
	for port := openflow.PortNo(1); port <= rigPorts; port++ {
		if b, ok := r.receive(port); ok {
			return port, b
		}
	}
	return 0, nil
}

// TestHostSide: what the host sends by the interface comes in by the port, what goes out is received by the host, and the wire is no part of it.
func TestHostSide(t *testing.T) {
	r := newRig(t, binding())
	host := r.turn(1)
	r.flow(0, 1, openflow.Match{}.Port(1), apply(out(2)))
	r.flow(0, 1, openflow.Match{}.Port(2), apply(out(1), out(3)))
	r.flow(0, 0, nil, apply(out(openflow.PortNormal)))
	sent := udp(1, 2)
	r.hostSends(host, sent)
	if port, b := r.leaves(); port != 2 || !bytes.Equal(b, sent) {
		t.Errorf("what the host sends leaves by port %d: %x", port, b)
	}
	back := udp(2, 1)
	r.send(2, back)
	if b := r.hostGets(host); !bytes.Equal(b, back) {
		t.Errorf("the host gets %x", b)
	}
	if port, b := r.leaves(); port != 3 || !bytes.Equal(b, back) {
		t.Errorf("the copy leaves by port %d: %x", port, b)
	}
	// what comes in by the wire of the host's side matches no entry
	before := r.verdicts()
	wire := udp(7, 7)
	r.send(1, wire)
	if b := r.hostGets(host); !bytes.Equal(b, wire) {
		t.Errorf("by the wire the host gets %x", b)
	}
	if after := r.verdicts(); after["forwarded"] != before["forwarded"] || after["to_stack"] != before["to_stack"] {
		t.Errorf("what comes by the wire is the switch's: %v, %v", before, after)
	}
	// NORMAL leaves to the host what comes by a link
	link := r.listen(r.far[4].low)
	r.send(4, wire)
	if b := r.hostGets(link); !bytes.Equal(b, wire) {
		t.Errorf("NORMAL gives the host %x", b)
	}
	if after := r.verdicts(); after["to_stack"] != before["to_stack"]+1 {
		t.Errorf("verdicts %v", after)
	}
	// and lets go out what the host sends
	r.deleteAll()
	r.flow(0, 0, nil, apply(out(openflow.PortNormal)))
	r.hostSends(host, sent)
	if port, b := r.leaves(); port != 1 || !bytes.Equal(b, sent) {
		t.Errorf("NORMAL on the way out: port %d: %x", port, b)
	}
}

func (r *rig) verdicts() map[string]uint64 {
	r.t.Helper()
	all, err := r.kernel.Verdicts()
	r.must(err)
	return all
}

// linksOf is a select group's buckets: ports and weights.
func linksOf(pairs ...int) (list []openflow.Bucket) {
	for i := 0; i < len(pairs); i += 2 {
		port := openflow.PortNo(pairs[i])
		mac := packet.MAC{2, 0, 0, 0, 9, byte(port)}
		list = append(list, openflow.Bucket{
			Weight: uint16(pairs[i+1]), WatchPort: port, WatchGroup: openflow.GroupAny,
			Actions: []openflow.Action{openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthSrc, mac)}, out(port)},
		})
	}
	return list
}

func (r *rig) links(command openflow.GroupCommand, pairs ...int) {
	r.t.Helper()
	if g := (&openflow.GroupMod{Command: command, Kind: openflow.GroupTypeSelect, Group: 16, Buckets: linksOf(pairs...)}); !r.do(g) {
		r.t.Fatalf("refused: %+v", g)
	}
}

// TestBindOverGroupMods: flows go on by their links while their group changes, and turns go on where they were.
func TestBindOverGroupMods(t *testing.T) {
	r := newRig(t, binding())
	host := r.turn(1)
	r.links(openflow.GroupAdd, 2, 1, 3, 1)
	r.hand(1, openflow.Match{}.Port(1), kernel.Op{Kind: kernel.OpBind, At: kernel.BindRoundRobin, Arg: r.installed.groups[16].head})
	goes := func(flow int) openflow.PortNo {
		t.Helper()
		r.hostSends(host, udp(uint16(flow), 53))
		port, b := r.leaves()
		if port != 0 && packet.MAC(b[6:12]) != (packet.MAC{2, 0, 0, 0, 9, byte(port)}) {
			t.Fatalf("flow %d leaves by port %d: %x", flow, port, b)
		}
		return port
	}
	went := make(map[int]openflow.PortNo)
	counts := make(map[openflow.PortNo]int)
	for flow := 1; flow <= 40; flow++ { // each is the first of a version of the group
		went[flow] = goes(flow)
		counts[went[flow]]++
		if counts[2]-counts[3] > 1 || counts[3]-counts[2] > 1 {
			t.Fatalf("flow %d: %v", flow, counts)
		}
		switch flow % 3 { // never the same order, weights or company
		case 0:
			r.links(openflow.GroupModify, 2, 1, 3, 1)
		case 1:
			r.links(openflow.GroupModify, 4, 0, 3, 7, 2, 7)
		case 2:
			r.links(openflow.GroupModify, 3, 2, 4, 0, 2, 2)
		}
	}
	for flow, port := range went {
		if got := goes(flow); got != port {
			t.Errorf("flow %d went by port %d, now by %d", flow, port, got)
		}
	}
	// a link that is not part of it any more, nor lives
	r.links(openflow.GroupModify, 3, 1, 4, 1)
	r.setPort(model.Port{No: 3, There: true})
	for flow := range went {
		if got := goes(flow); got != 4 {
			t.Errorf("flow %d goes by port %d", flow, got)
		}
	}
	var listed int
	r.must(kernel.ReadBindings("/sys/fs/bpf/baton/test", func(p kernel.Binding) bool {
		if p.Port != 4 || p.Protocol != 17 || p.Internal.Addr().String() != "10.0.0.1" || p.Remote.String() != "10.0.0.2:53" {
			t.Errorf("remembered: %+v", p)
		}
		listed++
		return true
	}))
	if listed != len(went) {
		t.Errorf("%d flows are remembered of %d", listed, len(went))
	}
	r.deleteAll() // the host is told that its packet was dropped
	if _, err := unix.Write(host, udp(99, 53)); err != unix.ENOBUFS || r.verdicts()["drop_miss"] != 1 {
		t.Errorf("error %v, verdicts %v", err, r.verdicts())
	}
}

// TestUnbindComesHome: a reply by the flow's link goes to the host's side, super packets of many segments, too; all else goes on to NORMAL.
func TestUnbindComesHome(t *testing.T) {
	r := newRig(t, binding())
	host := r.turn(1)
	r.links(openflow.GroupAdd, 2, 1, 3, 1)
	in := &openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeIndirect, Group: 1, Buckets: []openflow.Bucket{{
		WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{out(1)},
	}}}
	if !r.do(in) {
		t.Fatal("refused")
	}
	r.hand(2, openflow.Match{}.Port(1), kernel.Op{Kind: kernel.OpBind, At: kernel.BindLeast, Arg: r.installed.groups[16].head})
	r.hand(1, nil, kernel.Op{Kind: kernel.OpUnbind, Arg: r.installed.groups[1].head}, kernel.Op{Kind: kernel.OpNormal})
	before := r.verdicts()["to_stack"]
	for flow := range 20 {
		r.hostSends(host, udp(uint16(1000+flow), 53))
		port, _ := r.leaves()
		if port != 2 && port != 3 {
			t.Fatalf("flow %d leaves by port %d", flow, port)
		}
		reply := udp(53, uint16(1000+flow))
		copy(reply[26:], []byte{10, 0, 0, 2, 198, 51, 100, 1}) // from the remote, to the link's address
		binary.BigEndian.PutUint16(reply[24:], 0)
		binary.BigEndian.PutUint16(reply[24:], packet.Checksum(reply[14:34], 0))
		r.send(port, reply)
		got := r.hostGets(host)
		want := bytes.Clone(reply)
		copy(want[30:], []byte{10, 0, 0, 1})
		binary.BigEndian.PutUint16(want[24:], 0)
		binary.BigEndian.PutUint16(want[24:], packet.Checksum(want[14:34], 0))
		if !bytes.Equal(got, want) {
			t.Fatalf("flow %d: the host gets\n%x, want\n%x", flow, got, want)
		}
		r.send(5-port, reply) // by the other link it is none
	}
	if n := r.verdicts()["to_stack"] - before; n != 20 {
		t.Errorf("%d are left to the host", n)
	}
}
