package router

import (
	"net/netip"
	"testing"

	"baton/packet"
)

// TestFieldsFromNowOn: a session that began before its pool had fields holds its requests once one has them, so that none follows unseen and
// without.
func TestFieldsFromNowOn(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.tap()
		k.vip(f, func(v *VIP) { v.OnePool, v.Pool = true, 1 })
		pool := Pool{Policy: RoundRobin, Table: []uint16{1}}
		k.must(k.SetPool(1, pool))
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictHANDOFF, actRedirect))
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))

		pool.Edit.Fields = forwardedFor
		k.must(k.SetPool(1, pool))
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {ID: 3, MSS: 1400, OnePool: true, Pool: 1, Hold: true}}))
		got := s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictTO_SERVER, actRedirect))
		if want := inserted(plainRequest, "X-Forwarded-For: "+f.client.Addr().String()+"\r\n"); string(got.Payload()) != want {
			t.Fatalf("the surrogate gets %q\nwant %q", got.Payload(), want)
		}
		k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
		early := packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest)) // ahead of the response
		k.want(early, routerVerdictDROP_EARLY, actShot)
		c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		says(c, s, plainRequest, plainResponse, routerVerdictTO_SERVER)
	})
}
