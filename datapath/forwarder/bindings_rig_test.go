package forwarder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// bindRig is the forwarder's data path with an internal port, some links, a group to bind from and one to give replies to.
type bindRig struct {
	*Forwarder
	t       testing.TB
	options Options
	version uint32 // of groups
	buckets uint32 // the next place
	slots   uint32
	at      uint32   // the port that packets come by
	counts  []uint64 // verdicts so far
}

// Where things are in the rig.
const (
	internalPlace = 1 // port 1; link i is port 2+i, a place of the same number
	linkPlace     = 2
	rigLinks      = 6

	replyHead, bindHead, otherHead = 1, 2, 3 // of groups, whose numbers are ten times that

	replyOps  = uint32(OutOps) // [output internal]
	bindOps   = uint32(OutOps) + 8
	unbindOps = uint32(OutOps) + 16
	bucketOps = uint32(OutOps) + 32 // eight a link
)

func bindOptions(bindings int) Options {
	return Options{
		State: datapath.BPFFS + "/baton/bindings-test", Name: "loop-bindings", Entries: 8, Ops: OutOps + 256, Lists: 8, Subtables: 8,
		Groups: 256, Buckets: 4096, Slots: 1 << 14, Meters: 8, Megaflows: 1, Bindings: bindings,
	}
}

func newBindRig(t testing.TB, bindings int) *bindRig {
	t.Helper()
	kerneltest.Need(t)
	r := openBindRig(t, bindOptions(bindings))
	t.Cleanup(func() { r.must(Remove(r.options.State, r.options.Name)) })
	t.Cleanup(func() { r.must(r.Close()) })
	return r
}

// openBindRig is for a test that closes it.
func openBindRig(t testing.TB, o Options) *bindRig {
	t.Helper()
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &bindRig{Forwarder: f, t: t, options: o, version: 16}
	for place := uint32(1); place < linkPlace+rigLinks; place++ {
		f.Ports[place] = Port{Number: bits.ReverseBytes32(place), Ifindex: uint32(f.loop.Ifindex), Flags: PortThere | PortLive}
		if place >= linkPlace {
			r.must(f.Seat(place))
		}
	}
	f.SetPorts(linkPlace + rigLinks - 1)
	f.Ops[replyOps] = Op{Kind: OpOutput, Arg: internalPlace}
	f.Groups[1] = Group{Kind: GroupAll, First: replyOps, Count: 1}
	f.GroupHeads[replyHead] = 1
	f.Lists[0] = Listed{Subtable: 1}
	f.SetList(0, 0, 1)
	var key Fields
	*(*uint32)(unsafe.Pointer(&key[120])) = 1
	r.must(f.SetRule(&key, 0, 1))
	f.Ops[unbindOps] = Op{Kind: OpUnbind, Arg: replyHead}
	return r
}

func (r *bindRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// Protocols that package packet has no name for.
const (
	udpProtocol  = packet.Protocol(17)
	sctpProtocol = packet.Protocol(132)
	greProtocol  = packet.Protocol(47)
)

// linkAddr is a link's address.
func linkAddr(link int, v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(link + 1)})
	}
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(link + 1)})
}

// group makes a new version of a group: a bucket for each link, of the same index, if its weight is not negative.
func (r *bindRig) group(head uint32, v6 bool, weights ...int) {
	r.t.Helper()
	r.version++
	g := Group{Kind: GroupSelect, First: r.buckets, Slots: r.slots}
	var slots []uint32
	for link, weight := range weights {
		if weight < 0 {
			continue
		}
		ops := bucketOps + 8*uint32(link)
		if v6 {
			ops += 4
		}
		addr := linkAddr(link, v6).AsSlice()
		src := Op{Kind: OpPatch, Base: BaseIPv4, At: 12, Len: 4, FieldAt: 56, FieldLen: 4, Sums: SumIP | SumPseudo}
		if v6 {
			src.Base, src.At, src.Len, src.FieldLen, src.Sums = BaseIPv6, 8, 16, 16, SumPseudo
		}
		copy(src.Value[:], addr)
		r.Ops[ops], r.Ops[ops+1] = src, Op{Kind: OpOutput, Arg: linkPlace + uint32(link)}
		r.Buckets[r.buckets+g.Count] = Bucket{Ops: ops, Count: 2, Watch: linkPlace + uint32(link), Weight: uint32(weight)}
		for range weight {
			slots = append(slots, g.Count)
		}
		g.Count++
	}
	if len(slots) > 0 {
		for i := range 64 {
			r.Slots[r.slots+uint32(i)] = uint64(slots[i%len(slots)])
		}
		g.SlotMask = 63
		r.slots += 64
	}
	r.buckets += g.Count
	r.Groups[r.version] = g
	r.GroupHeads[head] = uint64(head*10)<<32 | uint64(r.version)
	r.Changed()
}

// live says whether a link is.
func (r *bindRig) live(link int, is bool) {
	p := &r.Ports[linkPlace+link]
	p.Flags &^= PortLive
	if is {
		p.Flags |= PortLive
	}
}

// bindOp is the action.
func bindOp(head uint32, method uint8, together uint32) Op {
	op := Op{Kind: OpBind, At: method, Arg: head}
	binary.NativeEndian.PutUint32(op.Value[:], together)
	return op
}

// does makes an op the flow entry's.
func (r *bindRig) does(op Op) {
	entry := Entry{Ops: bindOps, Apply: 1}
	if r.Ops[bindOps] == op && r.Entries[0] == entry {
		return
	}
	r.Ops[bindOps], r.Entries[0] = op, entry
	r.Changed()
}

// send runs a frame that comes by the port at a place through an entry with one op.
func (r *bindRig) send(place uint32, op Op, b []byte) (verdict string, after []byte) {
	r.t.Helper()
	r.does(op)
	if r.at != place {
		r.must(r.objects.PortOf.Put(uint32(1), place)) // lo
		r.at = place
	}
	if r.counts == nil {
		r.counts = r.verdicts()
	}
	opts := &ebpf.RunOptions{Data: b, DataOut: make([]byte, len(b)+256), Context: kerneltest.SKBuff{Ifindex: 1, IngressIfindex: 1}}
	action, err := r.objects.ForwarderIngress.Run(opts)
	r.must(err)
	counts := r.verdicts()
	for v, n := range counts {
		if name := verdictNames[v]; n != r.counts[v] && name != "megaflows_hit" && name != "microflows_hit" {
			if verdict != "" {
				r.t.Fatalf("one packet, two verdicts: %s and %s", verdict, name)
			}
			verdict = name
		}
	}
	r.counts = counts
	if (verdict == "forwarded") != (action == kerneltest.ActRedirect) {
		r.t.Fatalf("verdict %s, action %d", verdict, action)
	}
	return verdict, opts.DataOut
}

// verdicts reads all at once.
func (r *bindRig) verdicts() []uint64 {
	r.t.Helper()
	n, cpus := len(verdictNames), kerneltest.PossibleCPUs()
	var cursor ebpf.MapBatchCursor
	keys, each := make([]uint32, n), make([]uint64, n*cpus)
	got, err := r.objects.Verdicts.BatchLookup(&cursor, keys, each, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) || got != n {
		r.t.Fatalf("read verdicts: %d of %d: %v", got, n, err)
	}
	counts := make([]uint64, n)
	for i, v := range each {
		counts[keys[i/cpus]] += v
	}
	return counts
}

// out sends a packet of a flow from the host, and returns the link that it went out of, -1 for none.
func (r *bindRig) out(op Op, p testPacket) (link int, verdict string) {
	r.t.Helper()
	verdict, after := r.send(internalPlace, op, p.frame())
	if verdict != "forwarded" {
		return -1, verdict
	}
	r.must(sums(after))
	src, dst := addresses(after)
	if dst != p.dst.Addr() {
		r.t.Fatalf("%v became a packet to %v", p, dst)
	}
	for link := range rigLinks {
		if src == linkAddr(link, src.Is6()) {
			want := p
			want.src = netip.AddrPortFrom(src, p.src.Port())
			if !equalFrames(after, want.frame()) {
				r.t.Fatalf("%v became\n%x, want\n%x", p, after, want.frame())
			}
			return link, verdict
		}
	}
	r.t.Fatalf("%v became a packet from %v", p, src)
	return
}

// equalFrames compares frames but for the two forms of a UDP checksum of zero, which do not come up in the tests' packets.
func equalFrames(a, b []byte) bool { return slices.Equal(a, b) }

// reply has the answer to a packet come in by a link, and reports whether it went to the host as it should.
func (r *bindRig) reply(link int, p testPacket, flags packet.Flags) (restored bool) {
	r.t.Helper()
	b := p.answer(flags)
	internal := b.dst
	b.dst = netip.AddrPortFrom(linkAddr(link, internal.Addr().Is6()), internal.Port())
	verdict, after := r.send(linkPlace+uint32(link), Op{Kind: OpUnbind, Arg: replyHead}, b.frame())
	if verdict == "dropped" { // no more actions
		if !slices.Equal(after, b.frame()) {
			r.t.Fatalf("what is no reply was changed:\n%x\n%x", b.frame(), after)
		}
		return false
	}
	if verdict != "forwarded" {
		r.t.Fatalf("reply: %s", verdict)
	}
	r.must(sums(after))
	b.dst = internal
	if !slices.Equal(after, b.frame()) {
		r.t.Fatalf("reply became\n%x, want\n%x", after, b.frame())
	}
	return true
}

// testPacket is one of a flow. Of ICMP echo the ports are the identifier, where the one who asks is.
type testPacket struct {
	protocol packet.Protocol
	src, dst netip.AddrPort
	flags    packet.Flags
	id       uint32 // of its fragments; 0: it has none
	offset   int    // of the fragment, in bytes; there are more
	size     int    // of what it carries
}

func (p testPacket) String() string {
	return fmt.Sprintf("%d %v -> %v %v", p.protocol, p.src, p.dst, p.flags)
}

// answer is what comes back.
func (p testPacket) answer(flags packet.Flags) testPacket {
	p.src, p.dst, p.flags = p.dst, p.src, flags
	return p
}

// body is the transport's bytes, with a checksum over the whole of the datagram.
func (p testPacket) body() []byte {
	var b []byte
	sum := 0
	switch p.protocol {
	case packet.ProtocolTCP:
		b = make([]byte, 20+p.size)
		b[12], b[13], sum = 5<<4, byte(p.flags), 16
		binary.BigEndian.PutUint16(b, p.src.Port())
		binary.BigEndian.PutUint16(b[2:], p.dst.Port())
	case udpProtocol:
		b = make([]byte, 8+p.size)
		binary.BigEndian.PutUint16(b, p.src.Port())
		binary.BigEndian.PutUint16(b[2:], p.dst.Port())
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
		sum = 6
	case packet.ProtocolICMP, packet.ProtocolICMPv6:
		b = make([]byte, 8+p.size)
		asks, answers := byte(8), byte(0)
		if p.protocol == packet.ProtocolICMPv6 {
			asks, answers = 128, 129
		}
		b[0], sum = asks, 2
		id := p.src.Port()
		if id == 0 {
			b[0], id = answers, p.dst.Port()
		}
		binary.BigEndian.PutUint16(b[4:], id)
	case sctpProtocol: // its checksum does not cover addresses
		b = make([]byte, 12+p.size)
		binary.BigEndian.PutUint16(b, p.src.Port())
		binary.BigEndian.PutUint16(b[2:], p.dst.Port())
		return b
	default:
		return make([]byte, 20+p.size)
	}
	for i := range p.size {
		b[len(b)-1-i] = byte(7 * i)
	}
	start := uint16(0)
	if p.protocol != packet.ProtocolICMP {
		start = packet.PseudoHeader(p.src.Addr(), p.dst.Addr(), p.protocol, len(b))
	}
	binary.BigEndian.PutUint16(b[sum:], packet.Checksum(b, start))
	return b
}

const fragmentSize = 64 // bytes that the first fragment carries

func (p testPacket) frame() []byte {
	body, more := p.body(), uint16(0)
	if p.id != 0 {
		if p.offset == 0 {
			body, more = body[:fragmentSize], 1
		} else {
			body = body[p.offset:]
		}
	}
	b := append(make([]byte, 12, 14), 8, 0)
	if p.src.Addr().Is4() {
		ip := append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, byte(p.protocol), 0, 0}, append(p.src.Addr().AsSlice(), p.dst.Addr().AsSlice()...)...)
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(body)))
		binary.BigEndian.PutUint16(ip[4:], uint16(p.id))
		binary.BigEndian.PutUint16(ip[6:], more<<13|uint16(p.offset/8))
		binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip, 0))
		return slices.Concat(b, ip, body)
	}
	b[12], b[13] = 0x86, 0xdd
	ip := append([]byte{0x60, 0, 0, 0, 0, 0, byte(p.protocol), 64}, append(p.src.Addr().AsSlice(), p.dst.Addr().AsSlice()...)...)
	var ext []byte
	if p.id != 0 {
		ip[6], ext = 44, []byte{byte(p.protocol), 0, 0, 0, 0, 0, 0, 0}
		binary.BigEndian.PutUint16(ext[2:], uint16(p.offset)|more)
		binary.BigEndian.PutUint32(ext[4:], p.id)
	}
	binary.BigEndian.PutUint16(ip[4:], uint16(len(ext)+len(body)))
	return slices.Concat(b, ip, ext, body)
}

// addresses are those of the frame.
func addresses(b []byte) (src, dst netip.Addr) {
	if b[12] == 8 {
		return netip.AddrFrom4([4]byte(b[26:])), netip.AddrFrom4([4]byte(b[30:]))
	}
	return netip.AddrFrom16([16]byte(b[22:])), netip.AddrFrom16([16]byte(b[38:]))
}

// sums checks the checksums of a frame that is no fragment, from its bytes alone.
func sums(b []byte) error {
	l4, protocol := 14+40, packet.Protocol(b[20])
	if b[12] == 8 {
		l4, protocol = 14+20, packet.Protocol(b[23])
		if packet.Checksum(b[14:34], 0) != 0 {
			return fmt.Errorf("IPv4's checksum is wrong: %x", b)
		}
		if binary.BigEndian.Uint16(b[20:])&0x3fff != 0 {
			return nil
		}
	}
	if protocol == 44 || protocol != packet.ProtocolTCP && protocol != udpProtocol && protocol != packet.ProtocolICMP && protocol != packet.ProtocolICMPv6 {
		return nil
	}
	start := uint16(0)
	if protocol != packet.ProtocolICMP {
		src, dst := addresses(b)
		start = packet.PseudoHeader(src, dst, protocol, len(b)-l4)
	}
	if packet.Checksum(b[l4:], start) != 0 {
		return fmt.Errorf("the checksum of protocol %d is wrong: %x", protocol, b)
	}
	return nil
}

// remembered is what the kernel remembers of a packet's flow.
func (r *bindRig) remembered(p testPacket) (k forwarderBindingKey, v forwarderBinding, ok bool) {
	r.t.Helper()
	k = forwarderBindingKey{
		Protocol: uint8(p.protocol), Family: 4, InternalPort: bits.ReverseBytes16(p.src.Port()), RemotePort: bits.ReverseBytes16(p.dst.Port()),
	}
	copy(k.Internal[:], p.src.Addr().AsSlice())
	copy(k.Remote[:], p.dst.Addr().AsSlice())
	if p.src.Addr().Is6() {
		k.Family = 6
	}
	err := r.objects.Bindings.Lookup(k, &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return k, v, false
	}
	r.must(err)
	return k, v, true
}

// ago has the last packet of a flow be so long ago.
func (r *bindRig) ago(p testPacket, ns uint64) {
	r.t.Helper()
	k, v, ok := r.remembered(p)
	if !ok {
		r.t.Fatalf("%v is not remembered", p)
	}
	v.Used -= ns
	r.must(r.objects.Bindings.Put(k, v))
}

func (r *bindRig) sweep() int {
	r.t.Helper()
	n, err := r.SweepBindings()
	r.must(err)
	return n
}

// port is what is counted of a link.
func (r *bindRig) port(link int) BindingPort {
	r.t.Helper()
	list, err := ReadBindingPorts(r.options.State)
	r.must(err)
	for _, p := range list {
		if p.Port == linkPlace+uint32(link) {
			return p
		}
	}
	r.t.Fatalf("link %d has no seat", link)
	return BindingPort{}
}

// list is all flows.
func (r *bindRig) list() (all []Binding) {
	r.t.Helper()
	r.must(ReadBindings(r.options.State, func(p Binding) bool { all = append(all, p); return true }))
	return all
}

// flowNumber makes the n-th flow: a SYN, or the first packet of the protocol.
func flowNumber(protocol packet.Protocol, n int, v6 bool) testPacket {
	p := testPacket{
		protocol: protocol, src: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 0, 2}), uint16(1024+n%60000)),
		dst: netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(113 + n/60000), 9}), 443),
	}
	if v6 {
		p.src = netip.AddrPortFrom(netip.MustParseAddr("64:ff9b:1::2"), p.src.Port())
		p.dst = netip.AddrPortFrom(netip.MustParseAddr("2001:db8:9::9"), 443)
	}
	switch protocol {
	case packet.ProtocolTCP:
		p.flags = packet.SYN
	case packet.ProtocolICMP, packet.ProtocolICMPv6:
		p.dst = netip.AddrPortFrom(p.dst.Addr(), 0)
	}
	return p
}
