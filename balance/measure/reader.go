package measure

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/balance/tables"
	"baton/sockdiag"
)

// Bindings visits a switch's bindings with the OpenFlow port of each, until visit returns false.
type Bindings func(visit func(protocol uint8, internal, remote netip.AddrPort, port uint32) bool) error

const (
	// listEvery is how often connections are listed, as long as that takes no more than one part in listShare of a CPU's time. 100,000
	// connections take 0.14 s without the join, so they are listed at most every 3 s.
	listEvery = time.Second
	listShare = 20
)

// Reader reads the connections of the internal addresses with their links. It is for one goroutine at a time.
type Reader struct {
	internal []netip.Prefix
	bindings Bindings
	conn     *sockdiag.Conn
	due      time.Duration
	flows    []Flow         // of the last listing, for reuse
	places   map[uint64]int // of connections, by cookie: a flow never changes its link; nowhere: none
	spare    map[uint64]int
}

const nowhere = -1

// NewReader returns a Reader in the caller's network namespace, for connections of these addresses. If bindings is nil, the links of
// connections are unknown, and none are listed. The caller closes it.
func NewReader(internal []netip.Prefix, bindings Bindings) (*Reader, error) {
	c, err := sockdiag.Open()
	if err != nil {
		return nil, err
	}
	return &Reader{internal: internal, bindings: bindings, conn: c, places: map[uint64]int{}, spare: map[uint64]int{}}, nil
}

// Close closes the Reader.
func (r *Reader) Close() error { return r.conn.Close() }

// Flows lists connections if that is due on the clock of Sample.At, and reports whether it was. The result is valid until the next call.
func (r *Reader) Flows(now time.Duration) (_ []Flow, listed bool, err error) {
	if now < r.due {
		return nil, false, nil
	}
	if r.bindings == nil || len(r.internal) == 0 {
		r.due = now + listEvery
		return nil, true, nil
	}
	began := time.Now()
	defer func() { r.due = now + max(listEvery, listShare*time.Since(began)) }()
	clear(r.spare)
	flows := r.flows[:0]
	unknown := map[tuple]int{} // indexes of flows
	err = r.conn.ListTCP(sockdiag.Filter{Local: r.internal}, func(s *sockdiag.TCP) {
		place, known := r.places[s.Cookie]
		if !known {
			place = nowhere
			unknown[tuple{s.Local, s.Remote}] = len(flows)
		}
		flows = append(flows, Flow{Link: place, TCP: *s})
	})
	r.flows = flows
	if err != nil {
		return nil, false, err
	}
	if len(unknown) > 0 {
		if err := r.find(unknown, flows); err != nil {
			return nil, false, fmt.Errorf("look up the links of connections: %w", err)
		}
	}
	for i := range flows {
		r.spare[flows[i].Cookie] = flows[i].Link
	}
	r.places, r.spare = r.spare, r.places
	return flows, true, nil
}

// tuple identifies a connection.
type tuple struct{ local, remote netip.AddrPort }

// find looks up the links of flows in the switch.
func (r *Reader) find(unknown map[tuple]int, flows []Flow) error {
	return r.bindings(func(protocol uint8, internal, remote netip.AddrPort, port uint32) bool {
		if protocol != unix.IPPROTO_TCP || port < tables.FirstLink {
			return true
		}
		t := tuple{internal, remote}
		if at, is := unknown[t]; is {
			flows[at].Link = int(port - tables.FirstLink)
			delete(unknown, t)
		}
		return len(unknown) > 0
	})
}

// ReadCounters reads all traffic of an interface: traffic that bypasses the switch also counts, for the capacity and for caps.
func ReadCounters(ifindex int) (Counters, error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return Counters{}, fmt.Errorf("read counters of interface %d: %w", ifindex, err)
	}
	s := l.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("read counters of interface %d: %w", ifindex, errors.ErrUnsupported)
	}
	return Counters{Sent: s.TxBytes, Received: s.RxBytes}, nil
}
