package router

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// State is the state of a splice.
type State uint8

// The states of a splice.
const (
	Free     = State(routerSpliceStateSPLICE_FREE)
	Opening  = State(routerSpliceStateSPLICE_OPENING)
	Answered = State(routerSpliceStateSPLICE_ANSWERED)
	Idle     = State(routerSpliceStateSPLICE_IDLE)
	Active   = State(routerSpliceStateSPLICE_ACTIVE)
	Closing  = State(routerSpliceStateSPLICE_CLOSING)
	Dead     = State(routerSpliceStateSPLICE_DEAD)
)

func (s State) String() string {
	names := [...]string{"free", "opening", "answered", "idle", "active", "closing", "dead"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Splice is a copy of a splice: a server leg and, when active, its client.
type Splice struct {
	Number          uint32
	State           State
	Class           uint8 // bit 0: timestamps; above: index into Config.MSS
	Band            uint8 // of the clients that it has served
	Surrogate, Pool uint16
	Server          netip.AddrPort // the surrogate
	Router          netip.AddrPort // our end of the server leg
	Client, VIP     netip.AddrPort
	Ifindex         int    // towards the surrogate
	SndNxt, RcvNxt  uint32 // of the server leg, host order
	SndUna          uint32 // acknowledged by the surrogate
	RcvBase         uint32 // RcvNxt when the client joined
	SndBase         uint32 // SndNxt when the client joined: while SndUna equals it, the client still holds all it sent
	ToServerSeq     uint32
	ToServerAck     uint32
	TSSent          uint32 // newest TSval sent to the surrogate
	TSServer        uint32 // newest TSval received from it
	TSClient        uint32 // newest TSval sent to the client
	TSFromClient    uint32 // newest TSval received from it
	Unanswered      bool   // a request was sent, and no response received
	Timestamps      bool
	WScale          bool   // the surrogate uses window scale
	Keep            bool   // Router is the client's own address and port
	Opaque          bool   // its messages are not tracked
	Requests        uint32 // served on the server leg
	ClientRequests  uint32
	ServerMSS       uint16
	BytesToServer   uint64
	BytesToClient   uint64
	Age             time.Duration // in this state
	Quiet           time.Duration // since the last packet
}

// IdleWindow is the scaled window advertised to the surrogate of an idle leg, as in the kernel program.
func (s Splice) IdleWindow() uint16 {
	window := max(uint32(routerSessionBoundIDLE_WINDOW), 2*uint32(s.ServerMSS))
	if s.WScale {
		return uint16((window + 1<<OurWscale - 1) >> OurWscale)
	}
	return uint16(min(window, 65535))
}

func tuple(src, dst netip.AddrPort) routerTuple {
	return routerTuple{
		Src:   src.Addr().As16(),
		Dst:   dst.Addr().As16(),
		Sport: datapath.BigEndian(src.Port()),
		Dport: datapath.BigEndian(dst.Port()),
	}
}

func (r *Router) splice(number uint32, k *routerSplice) Splice {
	now := datapath.Clock()
	s := Splice{
		Number: number, State: State(k.State), Class: k.LegClass, Band: k.Band, Surrogate: k.Surrogate, Pool: k.Pool,
		Server: datapath.AddrPort(k.Server.Src, k.Server.Sport), Router: datapath.AddrPort(k.Server.Dst, k.Server.Dport),
		Client: datapath.AddrPort(k.Client.Src, k.Client.Sport), VIP: datapath.AddrPort(k.Client.Dst, k.Client.Dport),
		Ifindex: int(k.ToServer.Ifindex),
		SndNxt:  k.SndNxt, RcvNxt: k.RcvNxt, SndUna: k.SndUna, RcvBase: k.RcvBase, SndBase: k.SndBase,
		ToServerSeq: k.ToServerSeq, ToServerAck: k.ToServerAck,
		TSSent: k.TsSent, TSServer: k.TsServer, TSClient: k.TsClient, TSFromClient: k.TsSent - k.TsToServer,
		Unanswered: routerFraming(k.Response) == routerFramingFRAMING_HEAD,
		Timestamps: k.Flags&uint32(routerSpliceFlagSPLICE_TS) != 0,
		WScale:     k.Flags&uint32(routerSpliceFlagSPLICE_SERVER_WSCALE) != 0,
		Keep:       k.Flags&uint32(routerSpliceFlagSPLICE_KEEP) != 0,
		Opaque:     routerFraming(k.Request) == routerFramingFRAMING_OPAQUE,
		Requests:   k.Requests, ClientRequests: k.ClientRequests, ServerMSS: k.ServerMss,
		BytesToServer: k.BytesToServer, BytesToClient: k.BytesToClient,
	}
	s.Age = time.Duration(max(0, int32(now-k.Since))) * time.Millisecond
	s.Quiet = time.Duration(max(0, int32(now-k.Seen))) * time.Millisecond
	return s
}

// Splice reads one splice.
func (r *Router) Splice(number uint32) (Splice, error) {
	var k routerSplice
	if err := r.maps.Splices.LookupWithFlags(number, &k, ebpf.LookupLock); err != nil {
		return Splice{}, fmt.Errorf("read splice %d: %w", number, err)
	}
	return r.splice(number, &k), nil
}

// EachSplice calls f for every splice that is not free.
func (r *Router) EachSplice(f func(Splice) error) error {
	const batch = 1024
	var (
		cursor ebpf.MapBatchCursor
		keys   = make([]uint32, batch)
		values = make([]routerSplice, batch)
	)
	for {
		n, err := r.maps.Splices.BatchLookup(&cursor, keys, values, &ebpf.BatchOptions{ElemFlags: uint64(ebpf.LookupLock)})
		for i := range n {
			if State(values[i].State) == Free {
				continue
			}
			if err := f(r.splice(keys[i], &values[i])); err != nil {
				return err
			}
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read splices: %w", err)
		}
	}
}

// Leg is a server leg that is about to be opened.
type Leg struct {
	Number    uint32 // of a free splice
	Surrogate uint16
	Class     uint8
	Server    netip.AddrPort
	Router    netip.AddrPort
	ISS       uint32 // initial send sequence number
	Ifindex   int    // towards the surrogate
	TSval     uint32 // in the SYN
	// Late delays the ACK of the SYN-ACK, which the caller then sends after CompleteLegs. 0: the kernel sends it at once.
	Late time.Duration
	Keep bool // Router is the address and port of a client, which alone gets the leg
}

// OpenLeg makes the kernel expect the SYN-ACK of a SYN with these numbers. The caller owns the splice and sends the SYN
// afterwards.
func (r *Router) OpenLeg(l Leg) error {
	k := routerSplice{
		State: uint8(Opening), LegClass: l.Class, Surrogate: l.Surrogate,
		Server: tuple(l.Server, l.Router),
		SndNxt: l.ISS + 1, SndUna: l.ISS, TsSent: l.TSval, TsEchoed: l.TSval,
		Late:  millis(l.Late),
		Since: datapath.Clock(), Seen: datapath.Clock(),
	}
	k.ToServer.Ifindex = uint32(l.Ifindex)
	if l.Keep {
		k.Flags = uint32(routerSpliceFlagSPLICE_KEEP)
	}
	if err := r.used(l.Number); err != nil {
		return fmt.Errorf("open leg %d: %w", l.Number, err)
	}
	if err := r.maps.Splices.Update(l.Number, &k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("open leg %d: %w", l.Number, err)
	}
	flow := routerFlow{Splice: l.Number, Side: uint32(routerSideSIDE_SERVER)}
	if err := r.maps.Flows.Update(tuple(l.Server, l.Router), flow, ebpf.UpdateNoExist); err != nil {
		k.State = uint8(Free)
		_ = r.maps.Splices.Update(l.Number, &k, ebpf.UpdateAny)
		return fmt.Errorf("open leg %d from %v to %v: %w", l.Number, l.Router, l.Server, err)
	}
	return nil
}

// FreeLeg frees a splice that is dead, or whose SYN was never answered.
func (r *Router) FreeLeg(number uint32, server, router netip.AddrPort) error {
	if err := r.maps.Flows.Delete(tuple(server, router)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("free leg %d: %w", number, err)
	}
	if err := r.maps.Splices.Update(number, &routerSplice{}, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("free leg %d: %w", number, err)
	}
	return nil
}

// FreeLegs is FreeLeg for several, by their numbers and addresses. After an error some are free.
func (r *Router) FreeLegs(legs []Leg) error {
	flows, numbers := make([]routerTuple, len(legs)), make([]uint32, len(legs))
	for i, l := range legs {
		flows[i], numbers[i] = tuple(l.Server, l.Router), l.Number
	}
	for len(flows) > 0 {
		n, err := r.maps.Flows.BatchDelete(flows, nil)
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			n++ // which it stopped at
		case err != nil:
			return fmt.Errorf("free legs: %w", err)
		}
		flows = flows[min(n, len(flows)):]
	}
	if _, err := r.maps.Splices.BatchUpdate(numbers, make([]routerSplice, len(numbers)), nil); err != nil {
		return fmt.Errorf("free legs: %w", err)
	}
	return nil
}

// Bands of legs: the clients they have served, and so the clients they fit.
const (
	BandFresh   = uint8(routerBandBAND_NONE)    // nobody yet
	BandNearest = uint8(routerBandBAND_NEAREST) // the first band of used legs
	BandFar     = uint8(routerBandBAND_FAR)     // from here on, legs are not reused
)

func queueKey(surrogate uint16, class, band uint8) uint32 {
	return (uint32(surrogate)*LegClasses+uint32(class))*uint32(routerBoundLEG_BANDS) + uint32(band)
}

// queue returns a surrogate's queue of idle legs of a class and band, or nil. The Router closes it.
func (r *Router) queue(surrogate uint16, class, band uint8) (*ebpf.Map, error) {
	key := queueKey(surrogate, class, band)
	r.queues.Lock()
	defer r.queues.Unlock()
	if q := r.queues.open[key]; q != nil {
		return q, nil
	}
	var q *ebpf.Map
	if err := r.maps.IdleLegs.Lookup(key, &q); errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	r.queues.keep(key, q)
	return q, nil
}

// queues caches open queues: opening one takes the kernel longer than all operations on it.
type queues struct {
	sync.Mutex
	open map[uint32]*ebpf.Map
}

func (q *queues) keep(key uint32, m *ebpf.Map) {
	if q.open == nil {
		q.open = make(map[uint32]*ebpf.Map)
	}
	q.open[key] = m
}

// LegQueue names a surrogate's queue of idle legs of a class and band.
type LegQueue struct {
	Surrogate   uint16
	Class, Band uint8
}

// MakeQueues creates those queues of idle legs that do not exist. The kernel waits for its running programs, some
// milliseconds, once for all of them. After an error some may exist.
func (r *Router) MakeQueues(queues []LegQueue) (err error) {
	var keys, files []uint32
	var made []*ebpf.Map
	defer func() {
		for _, q := range made { // not kept
			q.Close()
		}
	}()
	for _, name := range queues {
		if q, err := r.queue(name.Surrogate, name.Class, name.Band); err == nil && q != nil {
			continue
		}
		q, err := ebpf.NewMap(&ebpf.MapSpec{Name: "leg_queue", Type: ebpf.Queue, ValueSize: 4, MaxEntries: uint32(r.options.Legs)})
		if err != nil {
			return fmt.Errorf("make a queue of idle legs: %w", err)
		}
		made = append(made, q)
		keys, files = append(keys, queueKey(name.Surrogate, name.Class, name.Band)), append(files, uint32(q.FD()))
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := r.maps.IdleLegs.BatchUpdate(keys, files, nil); err != nil {
		return fmt.Errorf("make %d queues of idle legs: %w", len(keys), err)
	}
	r.queues.Lock()
	defer r.queues.Unlock()
	for i, q := range made {
		r.queues.keep(keys[i], q)
	}
	made = nil
	return nil
}

// HasQueue reports whether a surrogate has a queue of idle legs of a class and band.
func (r *Router) HasQueue(surrogate uint16, class, band uint8) bool {
	q, err := r.queue(surrogate, class, band)
	return err == nil && q != nil
}

// PopIdle removes the leg that has been idle longest from a queue. False: it is empty. The leg may be dead; Retire reports that.
func (r *Router) PopIdle(surrogate uint16, class, band uint8) (uint32, bool, error) {
	q, err := r.queue(surrogate, class, band)
	if err != nil {
		return 0, false, fmt.Errorf("pop an idle leg: %w", err)
	}
	if q == nil {
		return 0, false, nil
	}
	var number uint32
	if err := q.LookupAndDelete(nil, &number); errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	} else if err != nil {
		return 0, false, fmt.Errorf("pop an idle leg: %w", err)
	}
	return number, true, nil
}

// PushIdle puts a leg from PopIdle back into its queue.
func (r *Router) PushIdle(surrogate uint16, class, band uint8, number uint32) error {
	q, err := r.queue(surrogate, class, band)
	if err == nil && q == nil {
		err = ebpf.ErrKeyNotExist
	}
	if err == nil {
		err = q.Update(nil, number, ebpf.UpdateAny)
	}
	if err != nil {
		return fmt.Errorf("push an idle leg: %w", err)
	}
	return nil
}

// Surrogate is the kernel's counters of a surrogate.
type Surrogate struct {
	Active      int                // current sessions
	Idle        [LegClasses]int    // current idle legs
	Fresh       [LegClasses]int    // of those, legs that have served nobody
	Popped      [LegClasses]uint64 // legs popped from the queues
	PoppedFresh [LegClasses]uint64 // of those, legs that had served nobody
	Missed      [LegClasses]uint64 // requests that found no leg
	Recycled    uint64
	Handoffs    uint64
	Failed      uint64 // handoffs that ended before the first response byte
	BytesIn     uint64 // to the surrogate, in ended sessions
	BytesOut    uint64
}

// Surrogate reads a surrogate's counters, from memory.
func (r *Router) Surrogate(id uint16) (Surrogate, error) {
	var k routerSurrogate
	b := unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k))
	if _, err := r.counted.ReadAt(b, int64(id)*int64(len(b))); err != nil {
		return Surrogate{}, fmt.Errorf("read surrogate %d: %w", id, err)
	}
	s := Surrogate{
		Active: int(k.Active), Popped: k.Popped, PoppedFresh: k.PoppedFresh, Missed: k.Missed,
		Recycled: k.Recycled, Handoffs: k.Handoffs, Failed: k.Failed, BytesIn: k.BytesIn, BytesOut: k.BytesOut,
	}
	for i, n := range k.Idle {
		s.Idle[i], s.Fresh[i] = int(n), int(k.Fresh[i])
	}
	return s, nil
}

// LimitRequests limits the requests on a leg of the surrogate; 0: no limit.
func (r *Router) LimitRequests(id uint16, requests uint32) error {
	if err := r.maps.Limits.Update(uint32(id), routerLimit{Requests: requests}, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("limit requests of surrogate %d: %w", id, err)
	}
	return nil
}

// ForgetSurrogate zeroes the counters of a number that is reassigned.
func (r *Router) ForgetSurrogate(id uint16) error {
	if err := r.maps.Surrogates.Update(uint32(id), &routerSurrogate{}, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("forget surrogate %d: %w", id, err)
	}
	return nil
}
