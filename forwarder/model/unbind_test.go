package model

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"baton/openflow"
	"baton/packet"
)

// TestUnbind: what answers a flow gets the host's address, and what does not is the host's.
func TestUnbind(t *testing.T) {
	for six := range 2 {
		h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1, 0)
		us, them, here := internal[six], server[six], linkOf(six, 2)
		gre := func(src, dst netip.Addr) []byte { return ip(src, dst, 47, []byte{0, 0, 8, 0}) }
		flows := []struct{ out, in, other []byte }{
			{tcp(at(us, 1), at(them, 2), packet.SYN), tcp(at(them, 2), at(here, 1), packet.ACK), tcp(at(them, 2), at(here, 3), packet.ACK)},
			{udp(at(us, 1), at(them, 2)), udp(at(them, 2), at(here, 1)), udp(at(them, 3), at(here, 1))},
			{echo(us, them, false, 5), echo(them, here, true, 5), echo(them, here, false, 5)},
			{gre(us, them), gre(them, here), gre(netip.MustParseAddr([]string{"203.0.113.9", "2001:db8:9::9"}[six]), here)},
		}
		for i, f := range flows {
			t.Run(fmt.Sprint(six, " ", i), func(t *testing.T) {
				h.t = t
				if got := h.out(f.out); got != 2 {
					t.Fatalf("by port %v", got)
				}
				got := h.in(2, f.in)
				if got == nil {
					t.Fatal("not known")
				}
				if src, dst := ipAddresses(got, look(got).l3, six == 1); src != them || dst != us || !bytes.Equal(got[6:12], gatewayMAC[:]) {
					t.Errorf("from %v to %v: %x", src, dst, got)
				}
				if got := h.in(3, f.in); got != nil {
					t.Errorf("by another link: %x", got)
				}
				if got := h.in(2, f.other); got != nil {
					t.Errorf("what answers nothing: %x", got)
				}
			})
		}
		if got := h.in(2, unhex(t, addresses+"88b5 01")); got != nil {
			t.Errorf("no IP: %x", got)
		}
		if got := h.out(unhex(t, addresses+"88b5 01")); got != 0 {
			t.Errorf("no IP by port %v", got)
		}
	}
}

// TestUnbindErrors: an ICMP error about a packet of a flow is told the host in the host's own addresses, with right checksums.
func TestUnbindErrors(t *testing.T) {
	for six := range 2 {
		us, them := internal[six], server[six]
		router := netip.MustParseAddr([]string{"198.18.0.1", "2001:db8:18::1"}[six])
		kinds := [][]byte{{3, 11, 12}, {1, 2, 3, 4}}[six]
		noSum := udp(at(us, 3), at(them, 4))
		clear(noSum[len(noSum)-5 : len(noSum)-3])
		for i, sent := range [][]byte{
			tcp(at(us, 1), at(them, 2), packet.SYN), udp(at(us, 1), at(them, 2)), noSum, echo(us, them, false, 9),
			ip(us, them, protocolSCTP, make([]byte, 12)), ip(us, them, 47, make([]byte, 12)),
		} {
			t.Run(fmt.Sprint(six, " ", i), func(t *testing.T) {
				h := newHost(t, openflow.ActionBind{Method: openflow.BindRoundRobin}, 1)
				r := h.Receive(1, sent)
				if len(r.Sent) != 1 {
					t.Fatalf("%+v", r)
				}
				left := r.Sent[0].Frame[ethernetSize:]
				for _, kind := range kinds {
					for _, n := range []int{len(left), max(len(left)-5, 28+20*six), 28 + 20*six} { // 8 bytes behind the network header at least (RFC 792)
						message := func(dst netip.Addr) []byte {
							return packet.BuildICMP(packet.ICMPSpec{Src: router, Dst: dst, Type: kind, Quote: left[:min(n, len(left))]})
						}
						got := h.in(2, message(linkOf(six, 2)))
						if got == nil {
							t.Fatalf("type %d, %d bytes: not known", kind, n)
						}
						v := look(got)
						src, dst := ipAddresses(got, v.l3, six == 1)
						if quote := got[v.l4+packet.ICMPSize:]; src != router || dst != us || !bytes.Equal(quote, sent[ethernetSize:][:len(quote)]) {
							t.Errorf("type %d, %d bytes, from %v to %v:\n got %x\nwant %x", kind, n, src, dst, quote, sent[ethernetSize:])
						}
						if other := linkOf(six, 3); h.in(2, message(other)) != nil {
							t.Errorf("an error to another than the sender")
						}
					}
					if got := h.in(2, packet.BuildICMP(packet.ICMPSpec{Src: router, Dst: linkOf(six, 2), Type: kind, Quote: left[:12]})); got != nil {
						t.Errorf("without addresses in the quote: %x", got)
					}
				}
			})
		}
	}
}
