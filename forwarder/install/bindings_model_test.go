package install

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	kernel "baton/datapath/forwarder"
	"baton/forwarder/model"
	"baton/forwarder/pipeline"
	"baton/openflow"
	"baton/packet"
)

// roundTime is less than a flow without packets stays active, so that it does not matter what the kernel's clock says that the model's does not.
const roundTime = time.Second

// TestBindingsAreTheModel has flows begin, go on, be answered, refused and end at random, while links come and go and groups change, and wants of the
// kernel's programs what the model says of each packet.
func TestBindingsAreTheModel(t *testing.T) {
	for n := range times(2) {
		paths := []int{0, 1024}[n%2]
		t.Run(fmt.Sprintf("%d cached paths", paths), func(t *testing.T) {
			o := small
			o.Megaflows, o.Bindings = paths, 1024
			p := binder{rig: newRig(t, o), Rand: newRand(t)}
			p.install()
			for until := time.Now().Add(roundTime); time.Now().Before(until); {
				p.step()
			}
			p.wantFlows()
			p.wantActive()
			if n := p.verdicts()["microflows_hit"]; n == 0 {
				t.Error("no packet took a microflow")
			} else {
				t.Logf("%d packets took microflows", n)
			}
		})
	}
}

// binder compares what becomes of flows. Port 1 is the host's, the others are links.
type binder struct {
	*rig
	*rand.Rand
	sent  []leftFrame // that have left by a link, of late
	begun []byte      // by the host: the last frame that left
}

type leftFrame struct {
	port  openflow.PortNo
	bytes []byte
}

func (p *binder) link(six bool, no openflow.PortNo) netip.Addr {
	if six {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(no)})
	}
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(no)})
}

func (p *binder) install() {
	p.t.Helper()
	p.rig.pipeline = pipeline.New(pipeline.Limits{Tables: 8, Bindings: true})
	p.model.Pipeline, p.model.Bindings = p.rig.pipeline, model.NewBindings(1024)
	p.want(&openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeIndirect, Group: 1, Buckets: []openflow.Bucket{{
		WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny,
		Actions: []openflow.Action{openflow.ActionSetField{Field: openflow.Match{}.MAC(openflow.FieldEthSrc, packet.MAC{2, 1})}, out(1)},
	}}})
	for id := openflow.GroupID(2); id < 6; id++ {
		p.want(p.group(openflow.GroupAdd, id))
	}
	// What is in the action set, and in the last table, is for packets alone that no flow is bound for and that answer none.
	p.flow(0, 1, openflow.Match{}.Port(1), openflow.InstructionWriteActions{Actions: []openflow.Action{out(4)}}, openflow.InstructionGotoTable{Table: 1})
	p.flow(0, 0, nil, apply(openflow.ActionUnbind{Group: 1}, out(openflow.PortController)), openflow.InstructionGotoTable{Table: 2})
	p.flow(2, 0, nil, apply(out(1)))
	for i, etherType := range []uint64{0x0800, 0x86dd} {
		ip := openflow.Match{}.Uint(openflow.FieldEthType, etherType)
		turns := openflow.ActionBind{Method: openflow.BindRoundRobin, Group: openflow.GroupID(2 + 2*i)}
		least := openflow.ActionBind{Method: openflow.BindLeast, Group: openflow.GroupID(3 + 2*i), Affinity: 60}
		p.flow(1, 1, ip, apply(turns))
		p.flow(1, 2, ip.Uint(openflow.FieldIPProto, 17), apply(out(openflow.PortController), least))
	}
}

func (p *binder) want(m openflow.Message) {
	p.t.Helper()
	if !p.do(m) {
		p.t.Fatalf("refused: %+v", m)
	}
}

// group is a group to bind from: some of the links, in any order, with any weights.
func (p *binder) group(c openflow.GroupCommand, id openflow.GroupID) *openflow.GroupMod {
	m := &openflow.GroupMod{Command: c, Kind: openflow.GroupTypeSelect, Group: id}
	field := openflow.FieldIPv4Src
	if id >= 4 {
		field = openflow.FieldIPv6Src
	}
	for _, i := range p.Perm(3)[:1+p.IntN(3)] {
		no := openflow.PortNo(2 + i)
		m.Buckets = append(m.Buckets, openflow.Bucket{Weight: uint16(p.IntN(4)), WatchPort: no, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{
			openflow.ActionSetField{Field: openflow.Match{}.Addr(field, p.link(id >= 4, no))}, out(no),
		}})
	}
	m.Buckets[0].Weight++ // not all may be standbys
	return m
}

func (p *binder) step() {
	p.t.Helper()
	switch n := p.IntN(40); {
	case n == 0:
		p.want(p.group(openflow.GroupModify, openflow.GroupID(2+p.IntN(4))))
	case n == 1:
		p.setPort(model.Port{No: openflow.PortNo(2 + p.IntN(3)), There: true, Live: p.IntN(3) > 0})
	case n == 2:
		p.wantActive()
	case n < 8:
		p.compare(1, p.fresh())
	case n < 20 && p.begun != nil: // the same flow goes on
		p.compare(1, p.again(p.begun))
	case n < 35 && len(p.sent) > 0:
		f := p.sent[p.IntN(len(p.sent))]
		if n < 30 {
			f = p.sent[len(p.sent)-1]
		}
		in := f.port
		if p.IntN(10) == 0 {
			in = openflow.PortNo(2 + p.IntN(3))
		}
		p.compare(in, p.answer(f.bytes))
	default:
		p.compare(openflow.PortNo(2+p.IntN(3)), p.fresh())
	}
}

// compare has the kernel and the model take a frame.
func (p *binder) compare(in openflow.PortNo, b []byte) {
	p.t.Helper()
	var now unix.Timespec
	p.must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	p.model.Bindings.Now = time.Duration(now.Nano())
	want := p.model.Receive(in, b)
	p.send(in, b)
	_, ok, got := p.becomes([]model.Result{want})
	if !ok {
		p.t.Fatalf("port %d: %x\ngot:\n%swant:\n%s", in, b, describe(got), describe(want))
	}
	for _, s := range want.Sent {
		if s.Port > 1 && in == 1 {
			p.sent = append(p.sent, leftFrame{s.Port, s.Frame})
			p.begun = b
		}
	}
	p.sent = p.sent[max(0, len(p.sent)-100):]
}

// again is the next packet of a frame's flow.
func (p *binder) again(before []byte) []byte {
	b := bytes.Clone(before)
	switch {
	case b[12] == 8 && b[14+9] == 6:
		b[14+20+13] = byte(p.flags()) // its checksum is wrong, and must stay so
	case b[12] == 0x86 && b[14+6] == 6:
		b[14+40+13] = byte(p.flags())
	}
	return b
}

// wantFlows compares what is remembered.
func (p *binder) wantFlows() {
	p.t.Helper()
	text := func(protocol uint8, internal, remote netip.AddrPort, port uint32, closing bool) string {
		return fmt.Sprint(protocol, " ", internal, " ", remote, " ", port, " ", closing)
	}
	var want, got []string
	for _, f := range p.model.Bindings.All() {
		want = append(want, text(f.Protocol, f.Internal, f.Remote, uint32(f.Port), f.Closing))
	}
	p.must(kernel.ReadBindings(rigState, func(f kernel.Binding) bool {
		got = append(got, text(f.Protocol, f.Internal, f.Remote, f.Port, f.Closing))
		return true
	}))
	slices.Sort(want)
	slices.Sort(got)
	if d := gocmp.Diff(want, got); d != "" {
		p.t.Fatalf("flows (-want +got):\n%s", d)
	}
}

// wantActive compares how many flows of each link are active.
func (p *binder) wantActive() {
	p.t.Helper()
	want, got := map[uint32]uint64{2: 0, 3: 0, 4: 0}, map[uint32]uint64{2: 0, 3: 0, 4: 0} // a port that no group has had is not listed
	for _, f := range p.model.Bindings.All() {
		if f.Active(f.Used) { // the kernel's flows are not swept
			want[uint32(f.Port)]++
		}
	}
	ports, err := kernel.ReadBindingPorts(rigState)
	p.must(err)
	for _, port := range ports {
		if _, link := want[port.Port]; link {
			got[port.Port] = port.Active
		}
	}
	if d := gocmp.Diff(want, got); d != "" {
		p.t.Fatalf("active flows by port (-want +got):\n%s", d)
	}
}

// ends are few, so that flows meet.
func (p *binder) ends(six bool) (src, dst netip.AddrPort) {
	port := func() uint16 { return uint16(1 + p.IntN(3)) }
	internal, remote := netip.AddrFrom4([4]byte{192, 0, 0, byte(2 + p.IntN(3))}), netip.AddrFrom4([4]byte{203, 0, 113, byte(p.IntN(4))})
	if six {
		internal, remote = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(2 + p.IntN(3))}), netip.AddrFrom16([16]byte{0: 0xfd, 7: 1, 15: byte(p.IntN(4))})
	}
	return netip.AddrPortFrom(internal, port()), netip.AddrPortFrom(remote, port())
}

// flags are those of the segments that TCP sends.
func (p *binder) flags() packet.Flags {
	return []packet.Flags{
		packet.SYN, packet.SYN | packet.ACK, packet.FIN | packet.ACK, packet.FIN | packet.ACK, packet.RST, packet.RST | packet.ACK, packet.ACK,
	}[min(p.IntN(17), 6)]
}

// fresh is a packet of any flow, as the host sends it.
func (p *binder) fresh() []byte {
	six := p.IntN(2) == 0
	src, dst := p.ends(six)
	if p.IntN(2) == 0 {
		s := packet.Spec{Src: src, Dst: dst, Flags: p.flags(), Options: make(packet.Options, 4*p.IntN(4)), Padding: 20}
		if p.IntN(2) == 0 {
			s.Payload = []byte("tcp")
		}
		return packet.Build(s)
	}
	head := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, src.Port()), dst.Port())
	switch p.IntN(8) {
	case 0, 1, 2: // SCTP's checksum covers no address
		return network(src.Addr(), dst.Addr(), 132, append(head, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 4), p.fragment())
	case 3:
		return network(src.Addr(), dst.Addr(), 47, []byte{0, 0, 8, 0, 1, 2, 3, 4}, 0)
	case 4:
		protocol, kinds := byte(1), []byte{0, 8}
		if six {
			protocol, kinds = 58, []byte{128, 129}
		}
		return network(src.Addr(), dst.Addr(), protocol, []byte{kinds[p.IntN(2)], 0, 0, 0, 0, byte(src.Port()), 0, 1}, 0)
	case 5:
		return slices.Concat(make([]byte, 12), []byte{0x88, 0xb5}, make([]byte, 46))
	}
	return network(src.Addr(), dst.Addr(), 17, append(head, 0, 12, 0, 0, 'u', 'd', 'p', '!'), p.fragment())
}

// fragment is the field of IPv4 that says what part of a packet this is: mostly all of it.
func (p *binder) fragment() uint16 { return []uint16{0, 0, 0, 0, 0x2000, 0x2002, 2}[p.IntN(7)] }

// network is a frame of IP with a transport, whose checksum is filled in. IPv6 is not fragmented.
func network(src, dst netip.Addr, protocol byte, l4 []byte, fragment uint16) []byte {
	field, sum := map[byte]int{1: 2, 17: 6, 58: 2}[protocol], packet.PseudoHeader(src, dst, packet.Protocol(protocol), len(l4))
	if protocol == 1 {
		sum = 0
	}
	if field != 0 {
		binary.BigEndian.PutUint16(l4[field:], packet.Checksum(l4, sum))
	}
	mac := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8}
	if src.Is6() {
		head := []byte{0x60, 0, 0, 0, 0, byte(len(l4)), protocol, 64}
		return slices.Concat(mac, []byte{0x86, 0xdd}, head, src.AsSlice(), dst.AsSlice(), l4)
	}
	head := slices.Concat([]byte{0x45, 0, 0, byte(20 + len(l4)), 0, src.AsSlice()[3], byte(fragment >> 8), byte(fragment), 64, protocol, 0, 0}, src.AsSlice(), dst.AsSlice())
	binary.BigEndian.PutUint16(head[10:], packet.Checksum(head, 0))
	return slices.Concat(mac, []byte{8, 0}, head, l4, make([]byte, 40))
}

// answer is what may come back to a frame that has left by a link: mostly the same packet the other way round, or an error about it.
func (p *binder) answer(left []byte) []byte {
	b := bytes.Clone(left)
	six := b[12] == 0x86
	at, n := 14+12, 4
	if six {
		at, n = 14+8, 16
	}
	src, _ := netip.AddrFromSlice(b[at : at+n])
	l4 := at + 2*n
	protocol := b[14+9]
	if six {
		protocol = b[14+6]
	}
	if protocol != 1 && protocol != 58 && p.IntN(3) == 0 {
		kinds := []byte{3, 11, 12, 5}
		if six {
			kinds = []byte{1, 2, 3, 4}
		}
		quote := left[14:]
		if p.IntN(2) == 0 {
			quote = quote[:min(len(quote), l4-14+p.IntN(21))]
		}
		to := src
		if p.IntN(10) == 0 {
			to = p.link(six, 9)
		}
		return packet.BuildICMP(packet.ICMPSpec{Src: p.link(six, 77), Dst: to, Type: kinds[p.IntN(4)], Quote: quote[:min(len(quote), 100)]})
	}
	copy(b[at:], left[at+n:at+2*n])
	copy(b[at+n:], left[at:at+n])
	switch protocol {
	case 6, 17, 132:
		copy(b[l4:], left[l4+2:l4+4])
		copy(b[l4+2:], left[l4:l4+2])
	case 1:
		b[l4] ^= 8
	case 58:
		b[l4] ^= 1
	}
	if protocol == 6 { // its checksum may be wrong: it must stay so
		b[l4+13] = byte(p.flags())
	}
	return b
}
