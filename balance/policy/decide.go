// Package policy decides how links are used, from their state, probes, caps and tiers, and which connections are ended because they have
// lost their link. It is pure, except for the file of [Meters].
package policy

import (
	"baton/balance/config"
	"baton/balance/links"
	"baton/balance/tables"
)

// Verdict is the result of a link's probes.
type Verdict uint8

// The verdicts.
const (
	Alive  Verdict = iota // also if not probed
	Dead                  // nothing answers
	Portal                // something else answers: the user must sign in
)

// Input is the state of a link.
type Input struct {
	Config  config.Link
	Link    links.Link
	Verdict Verdict
	Over    bool   // over its cap
	Weight  uint16 // computed from measurements
}

// Decision is how a link is used, with the status's word for it.
type Decision struct {
	tables.Link
	State string
}

// The states of a link (see api.BalanceLink).
const (
	Used        = "used"
	Standby     = "standby" // usable, but others come first
	NoInterface = "no interface"
	NoCarrier   = "no carrier"
	NoAddress   = "no address"
	NoGateway   = "no gateway" // none, or it does not answer ARP or neighbour solicitations
	IsDead      = "dead"
	IsPortal    = "portal"
	OverCap     = "over its cap"
)

// Decide decides how links are used. The slices are indexed by place.
//
// Of the usable links those of the lowest tier are used. A link beyond a soft cap is in a tier after all others.
func Decide(in []Input) []Decision {
	last := 0
	for _, l := range in {
		last = max(last, l.Config.Tier+1)
	}
	out := make([]Decision, len(in))
	first := last + 1
	for i, l := range in {
		why := unusable(l)
		d := Decision{Link: tables.Link{Link: l.Link, Usable: why == "", Weight: max(l.Weight, 1), Tier: l.Config.Tier}, State: why}
		if l.Over {
			d.Tier = last
		}
		if d.Usable {
			first = min(first, d.Tier)
		}
		out[i] = d
	}
	for i := range out {
		switch d := &out[i]; {
		case !d.Usable:
		case d.Tier == first:
			d.State = Used
		case in[i].Over:
			d.State = OverCap
		default:
			d.State = Standby
		}
	}
	return out
}

// unusable returns why a link is not usable, or "". The cause to fix first comes first.
func unusable(l Input) string {
	switch v4, v6 := l.Link.V4, l.Link.V6; {
	case l.Link.Index == 0:
		return NoInterface
	case !l.Link.Carrier:
		return NoCarrier
	case !v4.Address.IsValid() && !v6.Address.IsValid():
		return NoAddress
	case !v4.Complete() && !v6.Complete():
		return NoGateway
	case l.Verdict == Dead:
		return IsDead
	case l.Verdict == Portal:
		return IsPortal
	case l.Over && l.Config.Cap != nil && l.Config.Cap.Hard:
		return OverCap
	}
	return ""
}
