package router

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"

	"baton/datapath"
)

// End is the reason for which a leg has ended.
type End uint8

// The ends of a leg.
const (
	Refused     = End(routerLegEndLEG_REFUSED)
	ClosedIdle  = End(routerLegEndLEG_CLOSED_IDLE)
	ResetIdle   = End(routerLegEndLEG_RESET_IDLE)
	ClientReset = End(routerLegEndLEG_CLIENT_RESET)
	ServerReset = End(routerLegEndLEG_SERVER_RESET)
	Closed      = End(routerLegEndLEG_CLOSED)
	Expired     = End(routerLegEndLEG_EXPIRED)
	Retired     = End(routerLegEndLEG_RETIRED)
	Replaced    = End(routerLegEndLEG_REPLACED)
	Failed      = End(routerLegEndLEG_FAILED)
	Abandoned   = End(routerLegEndLEG_ABANDONED)
	Cut         = End(routerLegEndLEG_CUT)
	Malformed   = End(routerLegEndLEG_MALFORMED)
)

func (e End) String() string {
	names := [...]string{"", "refused", "closed idle", "reset idle", "client reset", "server reset", "closed", "expired",
		"retired", "replaced", "failed", "abandoned", "cut", "malformed"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("end %d", uint8(e))
}

// Event reports a change of a server leg.
type Event struct {
	Answered  bool // received a SYN-ACK, which waits for CompleteLegs
	Up        bool // established
	Stale     bool // met a connection on the same ports, which has been reset: the SYN must be repeated. Otherwise it has ended
	End       End
	Band      uint8
	Class     uint8
	Surrogate uint16
	Splice    uint32
	Announced bool          // the surrogate had announced that it would close
	Requests  uint32        // served on the leg
	Age       time.Duration // since it was established
	Idle      time.Duration // since it was last used
	Ago       time.Duration // since the event
	TooBig    TooBig        // if its MTU is not 0 there is nothing else
}

// TooBig is a packet of a session that was dropped because it was longer than the MTU of its way out.
type TooBig struct {
	From, To netip.AddrPort
	Seq      uint32
	MTU      uint32
}

// Events reads the kernel's events. The caller closes the reader.
type Events struct {
	reader *ringbuf.Reader
	record ringbuf.Record // reused
}

// Events starts reading.
func (r *Router) Events() (*Events, error) {
	reader, err := ringbuf.NewReader(r.maps.Events)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return &Events{reader: reader}, nil
}

// Next waits for an event until then; the error is os.ErrDeadlineExceeded. The kernel wakes the reader only for legs that come up
// or may be waited for, and for many other events: those are read at the deadline.
func (e *Events) Next(until time.Time) (Event, error) {
	e.reader.SetDeadline(until)
	return e.next()
}

func (e *Events) next() (Event, error) {
	err := e.reader.ReadInto(&e.record)
	if errors.Is(err, ringbuf.ErrClosed) {
		return Event{}, datapath.ErrClosed
	}
	if err != nil {
		return Event{}, fmt.Errorf("read events: %w", err) // at the deadline, after all events
	}
	b := e.record.RawSample
	if len(b) >= int(unsafe.Sizeof(routerTooBigEvent{})) && routerEventKind(b[0]) == routerEventKindEVENT_TOO_BIG {
		return Event{TooBig: readTooBig((*routerTooBigEvent)(unsafe.Pointer(&b[0])))}, nil
	}
	if len(e.record.RawSample) < int(unsafe.Sizeof(routerLegEvent{})) {
		return Event{}, fmt.Errorf("read events: one of %d bytes", len(e.record.RawSample)) // of an earlier version
	}
	k := (*routerLegEvent)(unsafe.Pointer(&e.record.RawSample[0]))
	return Event{
		Answered: routerEventKind(k.Kind) == routerEventKindEVENT_LEG_ANSWERED,
		Up:       routerEventKind(k.Kind) == routerEventKindEVENT_LEG_UP,
		Stale:    routerEventKind(k.Kind) == routerEventKindEVENT_LEG_STALE, End: End(k.End), Class: k.LegClass, Band: uint8(k.Band),
		Surrogate: k.Surrogate, Splice: k.Splice, Requests: k.Requests, Announced: k.Announced != 0,
		Age: time.Duration(k.Age) * time.Millisecond, Idle: time.Duration(k.Idle) * time.Millisecond,
		Ago: time.Duration(max(0, int32(datapath.Clock()-k.At))) * time.Millisecond,
	}, nil
}

func readTooBig(k *routerTooBigEvent) TooBig {
	return TooBig{
		From: datapath.AddrPort(k.Key.Src, k.Key.Sport), To: datapath.AddrPort(k.Key.Dst, k.Key.Dport),
		Seq: k.Seq, MTU: k.Mtu,
	}
}

// Close makes a blocked Next return.
func (e *Events) Close() error { return e.reader.Close() }

// Verdict is the kernel program's verdict on a packet.
type Verdict routerVerdict

// String is the verdict's name in metrics and documentation: its C name in lower case.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict_%d", uint32(v))
}

// Drop reports whether the packet was dropped by error or for lack of space.
func (v Verdict) Drop() bool { return strings.HasPrefix(v.String(), "drop_") }

// Verdicts counts packets by verdict since the state was created.
func (r *Router) Verdicts() (map[Verdict]uint64, error) {
	sums, err := datapath.Sums(r.maps.Verdicts, int(routerVerdictVERDICTS))
	if err != nil {
		return nil, err
	}
	counts := make(map[Verdict]uint64)
	for v, n := range sums {
		counts[Verdict(v)] = n
	}
	return counts, nil
}
