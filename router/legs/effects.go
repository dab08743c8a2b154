package legs

import (
	"net/netip"

	kernel "baton/datapath/router"
)

// Kernel is the data path: *kernel.Router. The Manager calls it with its lock held, since what it does depends on what
// it reads: a call is a system call on maps, of microseconds. Without the lock it calls Attach, which takes longer and
// is called by one goroutine at a time, MakeQueues, which takes milliseconds, and Surrogate for Count.
type Kernel interface {
	Sessions() int
	EachSplice(f func(kernel.Splice) error) error
	Splice(number uint32) (kernel.Splice, error)
	Surrogate(id uint16) (kernel.Surrogate, error)

	OpenLeg(l kernel.Leg) error
	FreeLeg(number uint32, server, router netip.AddrPort) error
	FreeLegs(legs []kernel.Leg) error
	CompleteLegs(surrogate uint16, legs []kernel.Leg) ([]kernel.Splice, error)
	Retire(number uint32, surrogate uint16) (bool, error)
	LimitRequests(id uint16, requests uint32) error

	MakeQueues(queues []kernel.LegQueue) error
	HasQueue(surrogate uint16, class, band uint8) bool
	PopIdle(surrogate uint16, class, band uint8) (number uint32, ok bool, err error)
	PushIdle(surrogate uint16, class, band uint8, number uint32) error

	Attach(ifindex int) error
	SetPaths(surrogate uint16, ifindexes []int) error
}

// Wire sends segments without a socket: a *RawWire. Sequence numbers are the splice's. The Manager calls it with its
// lock held, so one goroutine does at a time: no function may wait for room in a queue.
type Wire interface {
	// SYN opens a leg. It may wait for Flush if the leg is late; ACK, which completes the handshake of a leg, may
	// always.
	SYN(l kernel.Leg, mss uint16) error
	ACK(s kernel.Splice, tsval uint32) error
	// Flush sends what waits.
	Flush() error
	// Refuse answers the current request in place of the surrogate, and closes.
	Refuse(s kernel.Splice) error
	// Reset resets a connection at the peer.
	Reset(from, to netip.AddrPort, seq uint32) error
	// End resets a leg at its surrogate.
	End(s kernel.Splice) error
	// TooBig tells the sender of a packet which MTU it exceeds.
	TooBig(b kernel.TooBig) error
}

// Routes looks up routes to surrogates: Netlink. The Manager calls it without its lock, from one goroutine at a time.
type Routes interface {
	To(surrogate netip.Addr) (Route, error)
}

// Route is a route to a surrogate.
type Route struct {
	Source  netip.Addr
	Ifindex int
	Local   bool  // the surrogate is on this host
	Paths   []int // interfaces of all next hops; ascending
}
