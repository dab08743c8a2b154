package forwarder

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// second in the kernel's unit.
const second = uint64(time.Second)

// TestBindTurns: in each run of as many flows as the weights are together, each link has as many as its weight.
func TestBindTurns(t *testing.T) {
	for _, weights := range [][]int{{1, 1}, {1, 2}, {3, 1, 2}, {5, 1, 1, 7}, {10}, {65535, 65535}} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			r := newBindRig(t, 4096)
			r.group(bindHead, false, weights...)
			total := 0
			for _, w := range weights {
				total += w
			}
			op := bindOp(bindHead, BindRoundRobin, 0)
			if total > 1000 { // of equals
				total = len(weights)
				weights = []int{1, 1}
			}
			n := 0
			for run := range 12 {
				got := make([]int, len(weights))
				for range total {
					link, _ := r.out(op, flowNumber(udpProtocol, n, false))
					got[link]++
					n++
				}
				if !slices.Equal(got, weights) {
					t.Fatalf("run %d: %v, want %v", run, got, weights)
				}
			}
		})
	}
}

// TestBindTurnsSkip: the links that live share by their weights, whatever was before.
func TestBindTurnsSkip(t *testing.T) {
	r := newBindRig(t, 4096)
	r.group(bindHead, false, 4, 1, 2)
	op := bindOp(bindHead, BindRoundRobin, 0)
	n := 0
	shares := func(flows int) []int {
		got := make([]int, 3)
		for range flows {
			link, verdict := r.out(op, flowNumber(udpProtocol, n, false))
			if link < 0 {
				t.Fatal(verdict)
			}
			got[link]++
			n++
		}
		return got
	}
	shares(5)
	r.live(0, false)
	shares(3) // what was owed is paid
	if got := shares(30); !slices.Equal(got, []int{0, 10, 20}) {
		t.Errorf("without the first: %v", got)
	}
	r.live(0, true)
	shares(14)
	if got := shares(70); !slices.Equal(got, []int{40, 10, 20}) {
		t.Errorf("with all: %v", got)
	}
	r.group(bindHead, false, 1, 1, 0) // large debts of large weights do not last
	shares(4)
	if got := shares(20); !slices.Equal(got, []int{10, 10, 0}) {
		t.Errorf("with other weights: %v", got)
	}
}

// TestBindRemembers: all packets of a flow go by its link, whichever that is, and however often the group is another.
func TestBindRemembers(t *testing.T) {
	for _, method := range []uint8{BindRoundRobin, BindLeast, BindFastest, BindHash, BindEven} {
		t.Run(fmt.Sprint("method ", method), func(t *testing.T) {
			r := newBindRig(t, 1024)
			for _, v6 := range []bool{false, true} {
				for _, protocol := range []packet.Protocol{packet.ProtocolTCP, udpProtocol, packet.ProtocolICMP, sctpProtocol, greProtocol} {
					if v6 && protocol == packet.ProtocolICMP {
						protocol = packet.ProtocolICMPv6
					}
					r.keeps(bindOp(bindHead, method, 0), protocol, v6)
				}
			}
		})
	}
}

// keeps has flows of a protocol begin, and then go on while their group changes.
func (r *bindRig) keeps(op Op, protocol packet.Protocol, v6 bool) {
	r.t.Helper()
	r.group(bindHead, v6, 1, 2, 1)
	went := make(map[int]int)
	flows, before := 30, len(r.list())
	if protocol == greProtocol {
		flows = 1 // without ports there is one
	}
	for n := range flows {
		link, verdict := r.out(op, flowNumber(protocol, n, v6))
		if link < 0 {
			r.t.Fatal(verdict)
		}
		went[n] = link
	}
	for i := range 3 {
		r.group(bindHead, v6, []int{1, 2, 1, i}...)
		for n, link := range went {
			p := flowNumber(protocol, n, v6)
			p.flags = packet.ACK
			if got, verdict := r.out(op, p); got != link {
				r.t.Fatalf("%v went by link %d, then by %d (%s)", p, link, got, verdict)
			}
			if !r.reply(link, p, packet.ACK) {
				r.t.Fatalf("%v got no reply by link %d", p, link)
			}
			if r.reply((link+1)%3, p, packet.ACK) {
				r.t.Fatalf("%v got a reply by another link than %d", p, link)
			}
		}
	}
	if n := len(r.list()) - before; n != flows {
		r.t.Errorf("protocol %d: %d flows are remembered of %d", protocol, n, flows)
	}
}

// TestBindGone: a flow whose link is gone gets another, but for a TCP connection, which cannot have one until it begins anew.
func TestBindGone(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1, 1)
	op := bindOp(bindHead, BindRoundRobin, 0)
	syn, datagram := flowNumber(packet.ProtocolTCP, 0, false), flowNumber(udpProtocol, 1, false)
	data := syn
	data.flags = packet.ACK
	tcp, _ := r.out(op, syn)
	udp, _ := r.out(op, datagram)
	r.live(tcp, false)
	if _, verdict := r.out(op, data); verdict != "drop_bind_gone" {
		t.Errorf("data of TCP: %s", verdict)
	}
	if link, _ := r.out(op, datagram); link != udp {
		t.Errorf("UDP went from link %d to %d, which lived", udp, link)
	}
	if link, verdict := r.out(op, syn); link != 1-tcp {
		t.Errorf("a new connection: link %d, %s", link, verdict)
	}
	if link, verdict := r.out(op, data); link != 1-tcp {
		t.Errorf("its data: link %d, %s", link, verdict)
	}
	if r.reply(tcp, syn, packet.ACK) {
		t.Error("a reply by the link that is gone is one")
	}
	if !r.reply(1-tcp, syn, packet.ACK) {
		t.Error("a reply by the other link is none")
	}
	r.live(tcp, true)
	r.live(1-tcp, false)
	r.live(udp, false)
	r.live(1-udp, true)
	if link, verdict := r.out(op, datagram); link != 1-udp {
		t.Errorf("UDP: link %d, %s", link, verdict)
	}
	// not in the group any more
	r.live(0, true)
	r.live(1, true)
	r.group(bindHead, false, -1, -1, 1)
	if link, verdict := r.out(op, datagram); link != 2 {
		t.Errorf("UDP: link %d, %s", link, verdict)
	}
	if _, verdict := r.out(op, data); verdict != "drop_bind_gone" {
		t.Errorf("data of TCP: %s", verdict)
	}
	r.live(2, false)
	if _, verdict := r.out(op, flowNumber(udpProtocol, 9, false)); verdict != "drop_bind_none" {
		t.Errorf("without a link: %s", verdict)
	}
	for link, want := range []uint64{0, 0, 1} {
		if got := r.port(link).Flows; link < 2 && tcp != link && got != 1 && got != want {
			t.Errorf("link %d: %d flows, want %d", link, got, want)
		}
	}
}

// TestBindStandby: a bucket of weight 0 is for when no other lives, the first that lives of several.
func TestBindStandby(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 0, 1, 0)
	for _, method := range []uint8{BindRoundRobin, BindLeast, BindFastest, BindHash, BindEven} {
		op := bindOp(bindHead, method, 0)
		for step, want := range []int{1, 0, 2} {
			for n := range 5 {
				if link, verdict := r.out(op, flowNumber(udpProtocol, int(method)*100+step*10+n, false)); link != want {
					t.Fatalf("method %d, step %d: link %d (%s), want %d", method, step, link, verdict, want)
				}
			}
			r.live(want, false)
		}
		for link := range 3 {
			r.live(link, true)
		}
	}
}

// TestBindAffinity: flows to one address go by one link for the time, those to others do not mind.
func TestBindAffinity(t *testing.T) {
	r := newBindRig(t, 4096)
	r.group(bindHead, false, 1, 1, 1)
	r.group(otherHead, false, 1, 1, 1)
	op := bindOp(bindHead, BindRoundRobin, 60)
	to := func(n, remote int) testPacket {
		p := flowNumber(udpProtocol, n, false)
		p.dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(remote)}), uint16(n))
		return p
	}
	first := make(map[int]int)
	for n := range 30 {
		link, _ := r.out(op, to(100+n, n%3))
		if before, ok := first[n%3]; ok && before != link {
			t.Fatalf("address %d: link %d, then %d", n%3, before, link)
		}
		first[n%3] = link
	}
	if first[0] == first[1] || first[1] == first[2] {
		t.Errorf("all by one: %v", first)
	}
	// another group has its own
	other := make(map[int]bool)
	for n := range 6 {
		link, _ := r.out(bindOp(otherHead, BindRoundRobin, 0), to(200+n, 0))
		other[link] = true
	}
	if len(other) != 3 {
		t.Errorf("a group without it: %v", other)
	}
	r.live(first[0], false)
	link, _ := r.out(op, to(300, 0))
	if link < 0 || link == first[0] {
		t.Errorf("with its link gone: %d", link)
	}
	// when the time is over
	key := forwarderBindingRemoteKey{Group: bindHead * 10, Family: 4, Remote: [16]uint8{203, 0, 113, 1}}
	var last forwarderBindingRemote
	r.must(r.objects.BindingRemotes.Lookup(key, &last))
	last.Used -= 61 * second
	r.must(r.objects.BindingRemotes.Put(key, last))
	r.live(first[1], true)
	links := make(map[int]bool)
	for n := range 6 {
		link, _ := r.out(op, to(400+n, 1))
		links[link] = true
		r.must(r.objects.BindingRemotes.Put(key, last))
	}
	if len(links) < 2 {
		t.Errorf("after the time: %v", links)
	}
	// a packet of a flow that goes on makes it longer
	p := to(101, 1)
	k, v, _ := r.remembered(p)
	v.Refreshed -= 2 * second
	r.must(r.objects.Bindings.Put(k, v))
	r.out(op, p)
	var now forwarderBindingRemote
	r.must(r.objects.BindingRemotes.Lookup(key, &now))
	if now.Used < last.Used+60*second {
		t.Errorf("a packet of a flow does not keep the others with it: %d s", (now.Used-last.Used)/second)
	}
}

// TestBindClash: replies cannot be told apart by one link, so the flow of another internal address gets another link, or none.
func TestBindClash(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1, 1, 1)
	for _, method := range []uint8{BindRoundRobin, BindHash, BindLeast} {
		op := bindOp(bindHead, method, 0)
		used := make(map[int]netip.Addr)
		p := flowNumber(udpProtocol, int(method), false)
		for host := range byte(4) {
			p.src = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 0, 2 + host}), p.src.Port())
			link, verdict := r.out(op, p)
			if host == 3 {
				if verdict != "drop_bind_clash" {
					t.Errorf("method %d: a fourth flow of the same replies: %d, %s", method, link, verdict)
				}
				continue
			}
			if _, ok := used[link]; link < 0 || ok {
				t.Fatalf("method %d: link %d (%s), used are %v", method, link, verdict, used)
			}
			used[link] = p.src.Addr()
		}
		for link, internal := range used {
			q := p
			q.src = netip.AddrPortFrom(internal, p.src.Port())
			if !r.reply(link, q, 0) {
				t.Errorf("method %d: no reply to %v by link %d", method, internal, link)
			}
		}
	}
	total := uint64(0)
	for link := range 3 {
		total += r.port(link).Active
	}
	if total != 9 {
		t.Errorf("%d flows are active of 9", total)
	}
}

// TestBindFull: flows that cannot be remembered are dropped, those that are go on; and without room for any, all are.
func TestBindFull(t *testing.T) {
	r := newBindRig(t, 64)
	r.group(bindHead, false, 1, 1)
	op := bindOp(bindHead, BindLeast, 0)
	full := 0
	for n := range 500 {
		switch _, verdict := r.out(op, flowNumber(udpProtocol, n, false)); verdict {
		case "forwarded":
		case "drop_bindings_full":
			full++
		default:
			t.Fatal(verdict)
		}
	}
	kept := r.list()
	if len(kept)+full != 500 || len(kept) < 64 {
		t.Errorf("%d are remembered, %d were dropped", len(kept), full)
	}
	if got := r.port(0).Active + r.port(1).Active; got != uint64(len(kept)) {
		t.Errorf("%d are active of %d", got, len(kept))
	}
	if _, verdict := r.out(op, flowNumber(udpProtocol, 0, false)); verdict != "forwarded" {
		t.Errorf("one that is remembered: %s", verdict)
	}
}

// TestBindWithoutMemory: no flow can be bound.
func TestBindWithoutMemory(t *testing.T) {
	r := newBindRig(t, 0)
	r.group(bindHead, false, 1)
	if _, verdict := r.out(bindOp(bindHead, BindRoundRobin, 0), flowNumber(udpProtocol, 0, false)); verdict != "drop_bindings_full" {
		t.Errorf("bound: %s", verdict)
	}
	if err := ReadBindings(r.options.State, nil); !errors.Is(err, ErrNoBindings) {
		t.Errorf("read: %v", err)
	}
	if _, err := ReadBindingPorts(r.options.State); !errors.Is(err, ErrNoBindings) {
		t.Errorf("read ports: %v", err)
	}
}

// TestBindNothingToPickFrom: what is no group of that kind, and what is no IP.
func TestBindNothingToPickFrom(t *testing.T) {
	r := newBindRig(t, 64)
	r.group(bindHead, false, 1)
	p := flowNumber(udpProtocol, 0, false)
	if _, verdict := r.out(bindOp(replyHead, BindRoundRobin, 0), p); verdict != "drop_group" {
		t.Errorf("a group of another kind: %s", verdict)
	}
	if _, verdict := r.out(bindOp(200, BindRoundRobin, 0), p); verdict != "drop_group" {
		t.Errorf("no group: %s", verdict)
	}
	arp := append(make([]byte, 12), 8, 6)
	if verdict, _ := r.send(internalPlace, bindOp(bindHead, BindRoundRobin, 0), append(arp, make([]byte, 46)...)); verdict != "drop_not_there" {
		t.Errorf("ARP: %s", verdict)
	}
	r.Ports[linkPlace].Seat = 0 // there were too many ports
	if _, verdict := r.out(bindOp(bindHead, BindRoundRobin, 0), p); verdict != "drop_bind_none" {
		t.Errorf("a port without a seat: %s", verdict)
	}
}

// TestBindSurvivesAnything: whatever the bytes, each packet has one verdict, and what is counted stays right.
func TestBindSurvivesAnything(t *testing.T) {
	r, rnd := newBindRig(t, 512), kerneltest.Rand(t)
	r.group(bindHead, false, 1, 2, 1)
	r.group(otherHead, true, 1, 2, 1)
	seen := make(map[string]int)
	for range kerneltest.Rounds(4000) {
		op, place := Op{Kind: OpUnbind, Arg: uint32(rnd.IntN(4))}, linkPlace+uint32(rnd.IntN(3))
		if rnd.IntN(2) == 0 {
			op, place = bindOp(bindHead+uint32(rnd.IntN(2)), uint8(rnd.IntN(6)), uint32(rnd.IntN(2))), internalPlace
		}
		verdict, _ := r.send(place, op, anyFrame(rnd))
		seen[verdict]++
	}
	t.Log(seen)
	if seen["forwarded"] == 0 || seen["drop_not_there"] == 0 || seen[""] > 0 {
		t.Errorf("verdicts: %v", seen)
	}
	flows := uint64(0)
	for link := range 3 {
		flows += r.port(link).Flows
	}
	if n := len(r.list()); uint64(n) != flows {
		t.Errorf("%d flows are remembered, %d counted", n, flows)
	}
}
