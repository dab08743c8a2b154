package legs

import (
	"net/netip"
	"slices"
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// pool is the legs of one surrogate.
type pool struct {
	id      uint16
	name    string
	server  netip.AddrPort
	bounds  config.Legs
	reuse   config.Reuse
	usable  bool  // up and not draining
	left    bool  // no surrogate any more: goes with its last leg
	ifindex int   // 0: no route yet, see unrouted
	paths   []int // interfaces of the route; ascending
	local   bool  // on this host: cannot be spliced to

	unrouted error // why the last lookup has found no route, while there has been none

	configured []netip.Addr // legs.sources
	removed    []netip.Addr // from it by a reload
	sources    []netip.Addr // in use: configured, or the route's
	turn       int          // the last one of sources

	legs    int // splices in use
	opening map[uint32]*opening
	kept    []kept     // legs for clients that have not taken them yet, by age; some have been taken, or are dead
	held    []*opening // whose ACK is delayed, by the time of their SYN-ACK, and some that have ended since
	classes map[uint8]*class

	openings [kernel.LegClasses]int // by class
	urgent   [kernel.LegClasses]int // of those, legs that a request waits for

	early     early
	fresh     idleLimit // of fresh legs: servers may use another timeout before the first request
	used      idleLimit // of used legs
	requests  requestLimit
	serverMSS uint16 // advertised by the surrogate
	noTS      bool   // it does not support timestamps
	keptKnown bool   // a leg from a client's address has come up, or it is logged that none does
	unread    bool   // logged that its queues cannot be read
	portless  bool   // logged that all ports are in use

	due      time.Time     // time of the next tick
	repeatAt time.Time     // when to look for unanswered SYNs
	renewAt  time.Time     // when the next leg may have to be renewed
	backoff  time.Duration // between attempts while the surrogate refuses
	retryAt  time.Time
}

type opening struct {
	leg   kernel.Leg
	sent  time.Time
	tries int

	answered  time.Time // time of the SYN-ACK; zero: none yet
	completed bool      // SYN-ACK acknowledged

	waiters []chan error // of a leg for one client: each gets one result; nil: it is up
}

// class is the idle legs of one leg class.
type class struct {
	floor          int     // minimum of idle legs
	sizer          sizer   // for all idle legs; with reuse safe or never, for used ones
	fresh          sizer   // for legs that have served nobody and so fit every client
	rate           float64 // legs used up per second, on average over rateOver
	spentAt        time.Time
	popped, missed uint64
	poppedFresh    uint64
	recycled       uint64
	waiters        []chan error // each gets one result; nil: a leg is idle
	granted        int          // on demand: requests given a leg since the count of legs taken was grantedAt
	grantedAt      uint64
	lastUsed       time.Time // last demand
	bands          uint32    // bit n: band n has a queue; not for fresh legs
	looked         bool      // searched for queues of an earlier process
}

// Limits of opening legs.
const (
	synTimeout   = time.Second // to the first retransmission; then doubled
	synTries     = 3
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
	openBatch    = 64 // SYNs per tick and surrogate
)

// rareClassLife is how long a class for unusual clients stays ready after the last such client.
const rareClassLife = time.Minute

// idleLimitOf is the idle limit of a leg that has served so many requests.
func (p *pool) idleLimitOf(requests uint32) *idleLimit {
	if requests == 0 {
		return &p.fresh
	}
	return &p.used
}

// mayServe reports whether clients of the class may get legs of the surrogate.
func (p *pool) mayServe(classID uint8) bool {
	return p.usable && !p.local && (!p.noTS || classID&1 == 0)
}

// setSources changes the configured sources. Idle legs of removed ones are retired: the addresses may go, too.
func (p *pool) setSources(sources []netip.Addr) {
	p.removed = slices.DeleteFunc(append(p.removed, p.configured...), func(a netip.Addr) bool {
		return slices.Contains(sources, a)
	})
	p.configured = sources
	if len(sources) > 0 {
		p.sources = sources // even if there is no route at the moment
	}
}

// retiresSource reports whether legs from the address are to be retired.
func (p *pool) retiresSource(source netip.Addr) bool {
	if len(p.configured) > 0 {
		return !slices.Contains(p.configured, source)
	}
	return slices.Contains(p.removed, source) && !slices.Contains(p.sources, source)
}

func (p *pool) ensureClass(id uint8) *class {
	c := p.classes[id]
	if c == nil {
		c = &class{}
		p.classes[id] = c
	}
	return c
}

// addOpening adds a leg whose SYN has been sent.
func (p *pool) addOpening(o *opening) {
	p.opening[o.leg.Number] = o
	p.openings[o.leg.Class]++
	if o.leg.Late == 0 {
		p.urgent[o.leg.Class]++
	}
}

// removeOpening removes a leg that is up or has ended.
func (p *pool) removeOpening(number uint32) {
	o := p.opening[number]
	if o == nil {
		return
	}
	delete(p.opening, number)
	p.openings[o.leg.Class]--
	if o.leg.Late == 0 {
		p.urgent[o.leg.Class]--
	}
}

// grantLife is how long a leg is another request's: the next packet of that takes it, if its client is still there.
const grantLife = 100 * time.Millisecond

// countUnclaimed is the number of fresh legs that no request has been given and not taken yet.
func (c *class) countUnclaimed(fresh int, taken uint64, now time.Time) int {
	if fresh == 0 || taken-c.grantedAt >= uint64(c.granted) || now.Sub(c.lastUsed) > grantLife {
		c.granted, c.grantedAt = 0, taken
	}
	return fresh - (c.granted - int(taken-c.grantedAt))
}

func (p *pool) backOffOpening(now time.Time) {
	p.backoff = min(max(2*p.backoff, firstBackoff), maxBackoff)
	p.retryAt = now.Add(p.backoff)
}
