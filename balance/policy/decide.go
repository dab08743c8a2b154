// Package policy decides which links are used: by their state, probes, caps and tiers, and which connections are ended because theirs
// cannot be any more. But for the file of [Meters] it is pure.
package policy

import (
	"baton/balance/config"
	"baton/balance/links"
	"baton/balance/tables"
)

// Verdict is what probes say of a link.
type Verdict uint8

// The verdicts.
const (
	Alive  Verdict = iota // or not asked
	Dead                  // nothing answers
	Portal                // somebody else answers: the user must log in
)

// Input is what is known of a link.
type Input struct {
	Config  config.Link
	Link    links.Link
	Verdict Verdict
	Over    bool   // its cap
	Weight  uint16 // as weighed
}

// Decision is how a link is used, and the word for it in the status.
type Decision struct {
	tables.Link
	State string
}

// Words for the state of a link (see api.BalanceLink).
const (
	Used        = "used"
	Standby     = "standby" // it could be, but others come first
	NoInterface = "no interface"
	NoCarrier   = "no carrier"
	NoAddress   = "no address"
	NoGateway   = "no gateway" // none, or one that does not answer ARP or neighbour solicitations
	IsDead      = "dead"
	IsPortal    = "portal"
	OverCap     = "over its cap"
)

// Decide says how links are used. The slices are by the links' places.
//
// Of those that are usable the ones of the lowest tier are used. A link that is over a cap which is not hard is of a tier behind all others.
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

// unusable says why a link is; "" if it is not. What the user would mend first comes first.
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
