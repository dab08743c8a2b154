package router

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/packet"
)

// A session that the VIP's listener accepted before the program was attached goes on at its socket, without having been told of; one that no socket has
// does not.
func TestSessionsFromBeforeTheProgram(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		from, _ := acceptedAt(k, f)
		for _, tt := range []struct {
			name    string
			from    netip.AddrPort
			flags   packet.Flags
			data    string
			verdict routerVerdict
		}{
			{"bytes", from, packet.ACK | packet.PSH, "GET / HTTP/1.1\r\n", routerVerdictPASS_LOCAL},
			{"an acknowledgement", from, packet.ACK, "", routerVerdictPASS_LOCAL},
			{"a reset", from, packet.RST, "", routerVerdictPASS_LOCAL},
			{"nobody's", f.client, packet.ACK, "", routerVerdictRESET_SENT},
		} {
			k.must(replace(k.maps.Flows, map[routerTuple]routerFlow{}, all))
			want := uint32(actPass)
			if tt.verdict == routerVerdictRESET_SENT {
				want = actRedirect
			}
			k.want(packet.Build(packet.Spec{Src: tt.from, Dst: f.vip, Flags: tt.flags, Seq: 1, Ack: 1, Payload: []byte(tt.data)}), tt.verdict, want)
			flow, known := k.flow(tt.from, f.vip)
			if local := known && flow.Side == uint32(routerSideSIDE_LOCAL); local != (tt.verdict == routerVerdictPASS_LOCAL) {
				t.Errorf("%s: the session is a socket's: %t", tt.name, local)
			}
		}
	})
}

// TestClosedSocketsHaveNoFlow: nobody would remove that of a socket which its process has closed, and whose client
// reads slowly.
func TestClosedSocketsHaveNoFlow(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		from, accepted := acceptedAt(k, f)
		k.must(accepted.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)))
		for err := error(nil); err == nil; {
			_, err = accepted.Write(make([]byte, 1<<20)) // until the client's buffer, and ours, are full
		}
		k.must(accepted.Close())
		ack := packet.Build(packet.Spec{Src: from, Dst: f.vip, Flags: packet.ACK, Seq: 1, Ack: 1})
		k.want(ack, routerVerdictPASS_LOCAL, actPass)
		if flow, known := k.flow(from, f.vip); known {
			t.Errorf("it has a flow: %+v", flow)
		}
	})
}

// TestAssignedWithoutASocket: a client that was assigned to a socket, and that the host's stack or firewall has dropped,
// leaves nothing.
func TestAssignedWithoutASocket(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		key := tuple(f.client, f.vip)
		k.must(k.maps.Flows.Update(key, &routerFlow{Side: uint32(routerSideSIDE_LOCAL)}, ebpf.UpdateAny))
		assigned := routerClient{State: uint8(routerClientStateCLIENT_LOCAL), Since: since(time.Minute)}
		k.must(k.maps.Clients.Update(key, &assigned, ebpf.UpdateAny))
		for range 2 {
			k.must(k.SweepClients(testTimeouts))
		}
		if n := count(k, k.maps.Clients) + count(k, k.maps.Flows); n != 0 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// acceptedAt is a connection that a listener at the VIP has accepted, and its client. The test's end closes it.
func acceptedAt(k *rig, f family) (client netip.AddrPort, accepted net.Conn) {
	k.t.Helper()
	onLoopback(k, f.vip.Addr())
	l, err := net.Listen("tcp", f.vip.String())
	k.must(err)
	k.t.Cleanup(func() { l.Close() })
	dialled, err := net.Dial("tcp", f.vip.String())
	// the kernel adds the address's route a moment later
	for end := time.Now().Add(5 * time.Second); errors.Is(err, unix.ENETUNREACH) && time.Now().Before(end); {
		dialled, err = net.Dial("tcp", f.vip.String())
	}
	k.must(err)
	k.t.Cleanup(func() { dialled.Close() })
	accepted, err = l.Accept()
	k.must(err)
	k.t.Cleanup(func() { accepted.Close() })
	at := dialled.LocalAddr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), accepted
}

// onLoopback gives the test's host an address.
func onLoopback(k *rig, a netip.Addr) {
	k.t.Helper()
	lo, err := netlink.LinkByName("lo")
	k.must(err)
	on := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: unix.IFA_F_NODAD}
	k.must(netlink.AddrAdd(lo, on))
	k.t.Cleanup(func() { k.must(netlink.AddrDel(lo, on)) })
}

// A client whose first bytes come when its cookie is too old is reset, and may connect again; one whose start is lost
// repeats it.
func TestFirstBytesWithAnOldCookie(t *testing.T) {
	for _, ts := range []bool{true, false} {
		eachFamily(t, func(t *testing.T, f family) {
			k := newRig(t)
			k.vip(f)
			c := newClient(k, f, f.usual())
			c.ts = ts
			c.connect(routerVerdictSYN_ANSWERED)
			c.seq += 10 // no cookie fits, as when it is too old
			k.want(packet.Build(c.packet(packet.ACK, plainRequest)), routerVerdictDROP_EARLY, actShot)
			cookie := c.ack - 1
			k.must(k.maps.Handshakes.Update(uint32(cookie)*2654435761>>16, routerHandshake{
				Timed: uint64(cookie), Sent: since(61 * time.Second),
			}, ebpf.UpdateAny))
			c.tsecr -= 61_000
			k.want(packet.Build(c.packet(packet.ACK, plainRequest)), routerVerdictRESET_SENT, actRedirect)
		})
	}
}

// A duplicate of our SYN-ACK makes a client acknowledge it again, behind its first bytes. Where that overtakes them, it
// must not end the connection.
func TestAcknowledgementBeforeTheFirstBytes(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		again := c.packet(packet.ACK, "")
		again.Seq += packet.Seq(len(plainRequest))
		k.want(packet.Build(again), routerVerdictDROP_EARLY, actShot)
		again.Options = nil
		k.want(packet.Build(again), routerVerdictDROP_EARLY, actShot)
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		nobodys := again
		nobodys.Src = f.nth(1).client
		nobodys.Ack += 100 // of a connection that has received something, and is not known here
		k.want(packet.Build(nobodys), routerVerdictRESET_SENT, actRedirect)
	})
}
