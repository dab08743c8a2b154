package policy

import (
	"iter"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/balance/links"
	"baton/balance/tables"
	"baton/sockdiag"
)

// Watch says when the connections of a link must be ended, so that applications open others by another link: those that are idle would not
// notice for hours. It is pure, and remembers what addresses links had.
type Watch struct {
	// Grace is how long a link may be without its address or its gateway before its connections are given up: a lease that is renewed, a
	// network service that is restarted, bring the same address back.
	Grace time.Duration

	links []watched
}

// Grace is what a lease or a network service that is restarted takes, and less than users wait.
const Grace = 3 * time.Second

// watched is a link, by IP version.
type watched [2]struct {
	address netip.Addr // that its connections have; not valid: there are none
	down    bool
	since   time.Duration // when it went down
}

// End is a port whose connections of some IP versions must be ended.
type End struct {
	Port   uint32 // OpenFlow
	V4, V6 bool
}

// Step says which connections must be ended now that links are used as was decided, and when to ask again if nothing changes until then; 0:
// one need not. The clock is one that only goes forward.
//
//   - A link with another address than before: its connections of that IP version, at once. Nobody knows them any more.
//   - A link that cannot be used: all, at once; of one that lacks nothing but an address or a gateway: after Grace. Neither if no other link can be used:
//     then they are better off waiting.
func (w *Watch) Step(now time.Duration, decisions []Decision) (ends []End, again time.Duration) {
	if len(w.links) != len(decisions) {
		w.links = make([]watched, len(decisions))
	}
	for i := range decisions {
		e := End{Port: uint32(tables.FirstLink + i)}
		for version, end := range []*bool{&e.V4, &e.V6} {
			gone, ask := w.step(now, decisions, i, version)
			*end = gone
			if ask > 0 && (again == 0 || ask < again) {
				again = ask
			}
		}
		if e.V4 || e.V6 {
			ends = append(ends, e)
		}
	}
	return ends, again
}

func (w *Watch) step(now time.Duration, decisions []Decision, i, version int) (end bool, again time.Duration) {
	d, s := decisions[i], &w.links[i][version]
	has := family(d, version)
	if d.Usable && has.Complete() {
		end = s.address.IsValid() && s.address != has.Address
		s.address, s.down = has.Address, false
		return end, 0
	}
	if !s.address.IsValid() {
		return false, 0
	}
	if !s.down {
		s.down, s.since = true, now
	}
	if left := s.since + w.Grace - now; left > 0 && mayReturn(d, has, s.address) {
		return false, s.since + w.Grace
	}
	for k, o := range decisions {
		if k != i && o.Usable && family(o, version).Complete() {
			s.address = netip.Addr{}
			return true, 0
		}
	}
	return false, 0
}

// mayReturn says whether all that a link lacks is the address that it had, or its gateway.
func mayReturn(d Decision, has links.Family, had netip.Addr) bool {
	switch d.State {
	case Used, Standby, NoAddress, NoGateway:
		return !has.Address.IsValid() || has.Address == had
	}
	return false
}

func family(d Decision, version int) links.Family {
	if version == 0 {
		return d.V4
	}
	return d.V6
}

// Flow is a flow that is remembered.
type Flow struct {
	Protocol         uint8
	Internal, Remote netip.AddrPort
	Port             uint32 // OpenFlow
	Closing          bool
}

// Select are the TCP connections of flows that must be ended, for sockdiag to end. Others need no end: they get another link with their
// next packet.
func Select(ends []End, flows iter.Seq[Flow]) []sockdiag.Socket {
	by := map[uint32]End{}
	for _, e := range ends {
		by[e.Port] = e
	}
	var out []sockdiag.Socket
	for f := range flows {
		e, is := by[f.Port]
		v4 := f.Internal.Addr().Is4()
		if is && f.Protocol == unix.IPPROTO_TCP && !f.Closing && (v4 && e.V4 || !v4 && e.V6) {
			out = append(out, sockdiag.Socket{Local: f.Internal, Remote: f.Remote, Cookie: sockdiag.AnyCookie})
		}
	}
	return out
}
