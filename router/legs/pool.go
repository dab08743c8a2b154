package legs

import (
	"net/netip"
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
	usable  bool // up and not draining
	router  netip.Addr
	ifindex int
	paths   []int // interfaces of the route; ascending
	local   bool  // on this host: cannot be spliced to

	ports   *ports
	legs    int // splices in use
	opening map[uint32]*opening
	classes map[uint8]*class

	fresh     idleLimit // of fresh legs: servers may use another timeout before the first request
	used      idleLimit // of used legs
	requests  requestLimit
	serverMSS uint16 // advertised by the surrogate
	noTS      bool   // it does not support timestamps
	unread    bool   // logged that its queues cannot be read

	due     time.Time     // time of the next tick
	renewAt time.Time     // when the next leg may have to be renewed
	backoff time.Duration // between attempts while the surrogate refuses
	retryAt time.Time
}

type opening struct {
	leg   kernel.Leg
	sent  time.Time
	tries int

	answered  time.Time // time of the SYN-ACK; zero: none yet
	completed bool      // SYN-ACK acknowledged
}

// class is the idle legs of one leg class.
type class struct {
	floor          int   // minimum of idle legs
	sizer          sizer // for all idle legs; with reuse safe or never, for used ones
	fresh          sizer // for legs that have served nobody and so fit every client
	popped, missed uint64
	poppedFresh    uint64
	recycled       uint64
	waiters        []chan error // each gets one result; nil: a leg is idle
	lastUsed       time.Time    // last demand
	bands          uint32       // bit n: band n has a queue; not for fresh legs
	looked         bool         // searched for queues of an earlier process
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

// idle is the idle limit of a leg that has served so many requests.
func (p *pool) idle(requests uint32) *idleLimit {
	if requests == 0 {
		return &p.fresh
	}
	return &p.used
}

func (p *pool) class(id uint8) *class {
	c := p.classes[id]
	if c == nil {
		c = &class{}
		p.classes[id] = c
	}
	return c
}

func (p *pool) failed(now time.Time) {
	p.backoff = min(max(2*p.backoff, firstBackoff), maxBackoff)
	p.retryAt = now.Add(p.backoff)
}
