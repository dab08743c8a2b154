package relay

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
)

// TrunkKind selects the sockets of a record.
type TrunkKind uint16

// The kinds of trunks.
const (
	TrunkTo   = TrunkKind(relayTrunkKindTRUNK_TO)   // connected to Address
	TrunkAt   = TrunkKind(relayTrunkKindTRUNK_AT)   // accepted at Address; unspecified, of either family: any
	TrunkFrom = TrunkKind(relayTrunkKindTRUNK_FROM) // those of them from Address, whose port is 0
)

// TrunkKey identifies a record of settings and counters.
type TrunkKey struct {
	Kind    TrunkKind
	Address netip.AddrPort
}

func (k TrunkKey) check() error {
	if !k.Address.IsValid() || (k.Address.Port() == 0) != (k.Kind == TrunkFrom) || k.Kind < TrunkTo || k.Kind > TrunkFrom {
		return fmt.Errorf("invalid trunk key: kind %d, %v", k.Kind, k.Address)
	}
	return nil
}

func (k TrunkKey) key() relayTrunkKey {
	addr := k.Address.Addr().As16()
	if k.Kind == TrunkAt && k.Address.Addr().Unmap().IsUnspecified() {
		addr = netip.IPv6Unspecified().As16()
	}
	return relayTrunkKey{Addr: addr, Port: datapath.BigEndian(k.Address.Port()), Kind: uint16(k.Kind)}
}

// TrunkStart is the initial settings of a trunk. 0 or empty: the system's.
type TrunkStart struct {
	Window     int    // initial congestion window, segments
	Clamp      int    // largest congestion window, segments
	Receive    int    // initial receive window, segments; for TrunkTo limited by the buffer (SO_RCVBUF)
	Pace       uint64 // bytes per second at most
	Congestion string // name of an algorithm
}

func (s TrunkStart) record(generation uint32) (relayTrunk, error) {
	k := relayTrunk{Generation: generation}
	for _, n := range []int{s.Window, s.Clamp, s.Receive} {
		if n < 0 || n > math.MaxInt32 {
			return k, fmt.Errorf("invalid window of %d segments", n)
		}
	}
	k.Window, k.Clamp, k.Receive = uint32(s.Window), uint32(s.Clamp), uint32(s.Receive)
	k.Pace = uint32(min(s.Pace, math.MaxUint32-1)) // the maximum means no limit
	if copy(k.Congestion[:len(k.Congestion)-1], s.Congestion) < len(s.Congestion) {
		return k, fmt.Errorf("algorithm %q is longer than %d bytes", s.Congestion, len(k.Congestion)-1)
	}
	return k, nil
}

// TrunkCounts are the counters of a record's trunks.
type TrunkCounts struct {
	Established   uint64
	Flights       uint64 // completed first flights: acknowledged, or the connection ended
	Sent          uint64 // their segments, at most a window each
	Retransmitted uint64 // segments of first flights, completed or not; includes tail loss probes (RFC 8985, section 7)
	Refused       uint64 // settings that the kernel rejected, such as an unknown algorithm
}

// MaxTrunks is the limit of records.
const MaxTrunks = int(relayBoundMAX_TRUNKS)

// trunkPlaces allocates records to keys.
type trunkPlaces struct {
	mu         sync.Mutex
	of         map[relayTrunkKey]uint32
	free       []uint32 // longest unused first: sockets of earlier keys may still exist
	generation uint32
}

func (p *trunkPlaces) init() {
	p.of = make(map[relayTrunkKey]uint32)
	for place := range uint32(MaxTrunks) {
		p.free = append(p.free, place)
	}
}

// SetTrunks sets which sockets are trunks. Records that remain keep their counters. It applies to sockets that connect, or are accepted,
// from now on.
func (r *Relay) SetTrunks(trunks map[TrunkKey]TrunkStart) error {
	if len(trunks) > MaxTrunks {
		return fmt.Errorf("set trunks: %d (at most %d)", len(trunks), MaxTrunks)
	}
	stay := make(map[relayTrunkKey]bool)
	for key, start := range trunks {
		if err := key.check(); err != nil {
			return fmt.Errorf("set trunks: %w", err)
		}
		if _, err := start.record(0); err != nil {
			return fmt.Errorf("set trunks: %v: %w", key.Address, err)
		}
		if stay[key.key()] {
			return fmt.Errorf("set trunks: %v: twice", key.Address)
		}
		stay[key.key()] = true
	}
	p := &r.trunks
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, place := range p.of {
		if stay[key] {
			continue
		}
		if err := r.objects.TrunkPlaces.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("set trunks: remove %v: %w", datapath.AddrPort(key.Addr, key.Port), err)
		}
		delete(p.of, key)
		p.free = append(p.free, place)
	}
	for key, start := range trunks {
		if err := r.putTrunk(key.key(), start); err != nil {
			return fmt.Errorf("set trunks: %v: %w", key.Address, err)
		}
	}
	return nil
}

// SetStart changes the initial settings of one record's trunks from now on.
func (r *Relay) SetStart(key TrunkKey, start TrunkStart) error {
	r.trunks.mu.Lock()
	defer r.trunks.mu.Unlock()
	if _, ok := r.trunks.of[key.key()]; !ok {
		return fmt.Errorf("set a trunk's initial window: %v: no such trunk", key.Address)
	}
	if err := r.putTrunk(key.key(), start); err != nil {
		return fmt.Errorf("set a trunk's initial window: %v: %w", key.Address, err)
	}
	return nil
}

func (r *Relay) putTrunk(key relayTrunkKey, start TrunkStart) error {
	p := &r.trunks
	place, known := p.of[key]
	if !known {
		place = p.free[0]
		p.generation++
		if err := r.objects.Counts.Put(place, relayTrunkCounts{}); err != nil {
			return err
		}
	}
	var before relayTrunk
	if err := r.objects.Trunks.Lookup(place, &before); err != nil {
		return err
	}
	generation := before.Generation
	if !known {
		generation = p.generation
	}
	record, err := start.record(generation)
	if err != nil {
		return err
	}
	if err := r.objects.Trunks.Put(place, record); err != nil {
		return err
	}
	if known {
		return nil
	}
	if err := r.objects.TrunkPlaces.Put(key, place); err != nil {
		return err
	}
	p.free = p.free[1:]
	p.of[key] = place
	return nil
}

// TrunkCounts returns the counters of a record.
func (r *Relay) TrunkCounts(key TrunkKey) (TrunkCounts, error) {
	r.trunks.mu.Lock()
	defer r.trunks.mu.Unlock()
	place, ok := r.trunks.of[key.key()]
	if !ok {
		return TrunkCounts{}, fmt.Errorf("read a trunk's counters: %v: no such trunk", key.Address)
	}
	var k relayTrunkCounts
	if err := r.objects.Counts.Lookup(place, &k); err != nil {
		return TrunkCounts{}, fmt.Errorf("read a trunk's counters: %w", err)
	}
	return TrunkCounts{
		Established: k.Established, Flights: k.Flights, Sent: k.Sent, Retransmitted: k.Retransmitted, Refused: k.Refused,
	}, nil
}

// AttachCgroup attaches to a cgroup (version 2), given its directory. It covers sockets that its processes create from now on, and those
// that their listeners accept. Other sockets, and those of other network namespaces, are not affected.
func (r *Relay) AttachCgroup(dir string) error {
	if r.cgroup != nil {
		return errors.New("attach to the cgroup: already attached")
	}
	l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupSockOps, Program: r.objects.RelayTrunk})
	if err != nil {
		return fmt.Errorf("attach to the cgroup %s: %w", dir, err)
	}
	r.cgroup = l
	return nil
}
