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

// TrunkKind says which sockets a Trunk is of.
type TrunkKind uint16

// The kinds of trunks.
const (
	TrunkTo   = TrunkKind(relayTrunkKindTRUNK_TO)   // connections to Address
	TrunkAt   = TrunkKind(relayTrunkKindTRUNK_AT)   // connections accepted at Address; an unspecified one, of either family, is any
	TrunkFrom = TrunkKind(relayTrunkKindTRUNK_FROM) // those of them that come from Address, whose port is 0
)

// TrunkKey names a record of settings and counts.
type TrunkKey struct {
	Kind    TrunkKind
	Address netip.AddrPort
}

func (k TrunkKey) check() error {
	if !k.Address.IsValid() || (k.Address.Port() == 0) != (k.Kind == TrunkFrom) || k.Kind < TrunkTo || k.Kind > TrunkFrom {
		return fmt.Errorf("trunk of kind %d, %v", k.Kind, k.Address)
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

// TrunkStart is how a trunk begins. What is 0 or empty stays as the system has it.
type TrunkStart struct {
	Window     int    // first congestion window, segments
	Clamp      int    // largest congestion window, segments
	Receive    int    // first receive window, segments; of TrunkTo, no more than the buffer has room for (SO_RCVBUF)
	Pace       uint64 // bytes per second at most
	Congestion string // name of an algorithm
}

func (s TrunkStart) record(generation uint32) (relayTrunk, error) {
	k := relayTrunk{Generation: generation}
	for _, n := range []int{s.Window, s.Clamp, s.Receive} {
		if n < 0 || n > math.MaxInt32 {
			return k, fmt.Errorf("a window of %d segments", n)
		}
	}
	k.Window, k.Clamp, k.Receive = uint32(s.Window), uint32(s.Clamp), uint32(s.Receive)
	k.Pace = uint32(min(s.Pace, math.MaxUint32-1)) // the largest number is no bound
	if copy(k.Congestion[:len(k.Congestion)-1], s.Congestion) < len(s.Congestion) {
		return k, fmt.Errorf("algorithm %q: more than %d bytes", s.Congestion, len(k.Congestion)-1)
	}
	return k, nil
}

// TrunkCounts is what has become of the trunks of a record.
type TrunkCounts struct {
	Established   uint64
	Flights       uint64 // first flights, of a window's segments at most, that were acknowledged or given up
	Sent          uint64 // segments of them
	Retransmitted uint64 // segments of first flights, finished or not; probes for a lost tail (RFC 8985, 7) are among them
	Refused       uint64 // settings that the kernel did not take: an algorithm that it does not have
}

// MaxTrunks is how many records there may be.
const MaxTrunks = int(relayBoundMAX_TRUNKS)

// trunkPlaces is which record is whose.
type trunkPlaces struct {
	mu         sync.Mutex
	of         map[relayTrunkKey]uint32
	free       []uint32 // longest unused first: sockets of earlier keys may still be about
	generation uint32
}

func (p *trunkPlaces) init() {
	p.of = make(map[relayTrunkKey]uint32)
	for place := range uint32(MaxTrunks) {
		p.free = append(p.free, place)
	}
}

// SetTrunks says which sockets are trunks. Records whose keys stay keep their counts. It has effect on sockets that connect, or are
// accepted, from now on.
func (r *Relay) SetTrunks(trunks map[TrunkKey]TrunkStart) error {
	if len(trunks) > MaxTrunks {
		return fmt.Errorf("set trunks: %d, where there is room for %d", len(trunks), MaxTrunks)
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
			return fmt.Errorf("set trunks: forget %v: %w", datapath.AddrPort(key.Addr, key.Port), err)
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

// SetStart changes how the trunks of one record begin from now on.
func (r *Relay) SetStart(key TrunkKey, start TrunkStart) error {
	r.trunks.mu.Lock()
	defer r.trunks.mu.Unlock()
	if _, ok := r.trunks.of[key.key()]; !ok {
		return fmt.Errorf("set how trunks begin: %v: no such trunk", key.Address)
	}
	if err := r.putTrunk(key.key(), start); err != nil {
		return fmt.Errorf("set how trunks begin: %v: %w", key.Address, err)
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

// TrunkCounts reads the counts of a record.
func (r *Relay) TrunkCounts(key TrunkKey) (TrunkCounts, error) {
	r.trunks.mu.Lock()
	defer r.trunks.mu.Unlock()
	place, ok := r.trunks.of[key.key()]
	if !ok {
		return TrunkCounts{}, fmt.Errorf("read the counts of trunks: %v: no such trunk", key.Address)
	}
	var k relayTrunkCounts
	if err := r.objects.Counts.Lookup(place, &k); err != nil {
		return TrunkCounts{}, fmt.Errorf("read the counts of trunks: %w", err)
	}
	return TrunkCounts{
		Established: k.Established, Flights: k.Flights, Sent: k.Sent, Retransmitted: k.Retransmitted, Refused: k.Refused,
	}, nil
}

// AttachCgroup has the sockets of a control group (version 2) looked at, whose directory is given: those that its processes make from now
// on, and those that its listeners accept. Sockets that are no trunks, or of another network namespace, are left alone.
func (r *Relay) AttachCgroup(dir string) error {
	if r.cgroup != nil {
		return errors.New("attach to the control group: done before")
	}
	l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupSockOps, Program: r.objects.RelayTrunk})
	if err != nil {
		return fmt.Errorf("attach to the control group %s: %w", dir, err)
	}
	r.cgroup = l
	return nil
}
