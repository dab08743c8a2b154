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

// Watch decides when a link's connections must be ended so that applications reconnect over another link: idle ones would not notice for
// hours. It is pure, and remembers the links' addresses.
type Watch struct {
	// Grace is how long a link may be without its address or gateway before its connections are ended: after a renewed lease or a restarted
	// network service the same address returns.
	Grace time.Duration

	links []watched
}

// Grace is longer than a lease renewal or a service restart, and shorter than users wait.
const Grace = 3 * time.Second

// watched is a link, by IP version.
type watched [2]struct {
	address netip.Addr // of its connections; not valid: there are none
	down    bool
	since   time.Duration // when it went down
}

// End is a port whose connections of some IP versions must be ended.
type End struct {
	Port   uint32 // OpenFlow
	V4, V6 bool
}

// Step returns which connections must be ended after a decision, and when to call it again if nothing changes; 0: not needed. The clock is
// monotonic.
//
// If a link has another address than before, its connections of that IP version end at once: nobody accepts their packets any more. If a
// link is not usable, its connections end at once or, if only an address or gateway is missing, after Grace. If no other link is usable
// none are ended, because waiting is better.
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

// mayReturn reports whether a link only lacks its previous address or its gateway.
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

// Flow is a binding of the switch.
type Flow struct {
	Protocol         uint8
	Internal, Remote netip.AddrPort
	Port             uint32 // OpenFlow
	Closing          bool
}

// Select returns the TCP connections that must be ended, for sockdiag. Other flows need no end: they move to another link with their next
// packet.
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
