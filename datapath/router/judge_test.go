package router

import (
	"net/netip"
	"testing"

	"baton/packet"
)

// Judge says what the program makes of requests, for tests outside of the package, which may import what decides in
// user space.
type Judge struct {
	k       *rig
	clients map[netip.AddrPort]*client
	left    map[netip.AddrPort]int // requests until the client connects again: its cookie is valid for a minute
	legs    map[uint16]uint32      // by surrogate
}

// NewJudge puts the tables in force, and a leg to each of the surrogates.
func NewJudge(t testing.TB, tables Tables, surrogates []uint16) *Judge {
	k := newRig(t)
	k.tap()
	k.must(k.SetTables(tables))
	j := &Judge{
		k: k, clients: make(map[netip.AddrPort]*client), left: make(map[netip.AddrPort]int), legs: make(map[uint16]uint32),
	}
	for i, s := range surrogates {
		j.legs[s] = uint32(i + 1)
		j.idle(s)
	}
	return j
}

// idle makes the leg to a surrogate idle.
func (j *Judge) idle(surrogate uint16) {
	f := families[0]
	j.k.idle(j.legs[surrogate], f, func(s *routerSplice) { s.Surrogate = surrogate })
}

// Decide sends a client's first request to a VIP. It returns the surrogate that gets it; false: it is an upcall.
func (j *Judge) Decide(vip netip.AddrPort, request []byte) (surrogate uint16, decided bool) {
	j.k.t.Helper()
	c := j.clientOf(vip)
	r := j.k.run(packet.Build(c.packet(packet.ACK|packet.PSH, string(request))))
	switch r.verdict {
	case Verdict(routerVerdictUPCALL):
		j.k.ForgetUpcall(c.f.client, c.f.vip, c.seq)
		return 0, false
	case Verdict(routerVerdictHANDOFF):
	default:
		j.k.t.Fatalf("got verdict %v for %q", r.verdict, request)
	}
	fl, ok := j.k.flow(c.f.client, c.f.vip)
	if !ok {
		j.k.t.Fatal("no flow")
	}
	surrogate = j.k.splice(fl.Splice).Surrogate
	j.k.must(j.k.maps.Flows.Delete(tuple(c.f.client, c.f.vip)))
	j.idle(surrogate)
	return surrogate, true
}

// clientOf is a client that has connected to a VIP, and never gets further than its request.
func (j *Judge) clientOf(vip netip.AddrPort) *client {
	j.k.t.Helper()
	if j.left[vip]--; j.left[vip] < 0 {
		f := families[0]
		f.vip = vip
		c := newClient(j.k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		j.clients[vip], j.left[vip] = c, 1000
	}
	return j.clients[vip]
}
