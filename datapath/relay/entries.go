package relay

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// Early is the handling of a SYN to an entry.
type Early uint8

// The kinds of early SYN.
const (
	EarlyOff          = Early(relayEarlyKindEARLY_OFF)
	EarlyOptimistic   = Early(relayEarlyKindEARLY_OPTIMISTIC)    // reported, and answered at once
	EarlyConnectFirst = Early(relayEarlyKindEARLY_CONNECT_FIRST) // reported, and held until Release or Refuse
)

// Ports is a range of port numbers.
type Ports struct{ First, Last uint16 }

// Entry selects the packets for a group of listeners.
type Entry struct {
	ID     uint32         // reported in events
	Listen netip.AddrPort // address of the listeners; 0.0.0.0, or :: for both families, is any
	// Destinations are the addresses that clients send to. An entry that does not intercept has this host's, and comes before those that
	// do. Otherwise the first matching entry wins.
	Destinations []netip.Prefix
	Except       []netip.Prefix // exceptions from Destinations, such as this host's addresses; of any family
	Ports        []Ports        // empty: all
	// Intercept steers packets to Destinations to the listeners (IP_TRANSPARENT, IPV6_TRANSPARENT) and their connections. Other connections
	// are forwarded as before.
	Intercept bool
	Early     Early
}

const (
	// MaxEntries is the limit of SetEntries.
	MaxEntries = int(relayBoundMAX_ENTRIES)
	// maxPrefixes is the limit of one generation.
	maxPrefixes = 32768
)

// SetEntries replaces all entries at once. Reported SYNs stay.
func (r *Relay) SetEntries(entries []Entry) error {
	tables, err := compileEntries(entries)
	if err != nil {
		return fmt.Errorf("set entries: %w", err)
	}
	if r.steering == nil && slices.ContainsFunc(entries, func(e Entry) bool { return e.Intercept }) {
		return errors.New("set entries: intercepting needs a mark")
	}
	if err := r.writeTables(tables); err != nil {
		return fmt.Errorf("set entries: %w", err)
	}
	return nil
}

// writeTables fills the inactive generation and activates it. The other one is emptied the next time, when no packet uses it any more.
func (r *Relay) writeTables(t tables) error {
	next := 1 - r.generation
	if err := r.emptyTables(next, r.stale); err != nil {
		return err
	}
	r.stale = t
	places := make([]uint32, len(t.ports))
	for port := range places {
		places[port] = next<<16 | uint32(port)
	}
	if _, err := r.objects.Ports.BatchUpdate(places, t.ports[:], nil); err != nil {
		return fmt.Errorf("write the ports: %w", err)
	}
	for bit, e := range t.entries {
		place := next*uint32(MaxEntries) + uint32(bit)
		if err := r.objects.Entries.Put(place, e); err != nil {
			return fmt.Errorf("write an entry: %w", err)
		}
	}
	for prefix, set := range t.destinations {
		if err := r.objects.Destinations.Put(destinationKey(next, prefix), set); err != nil {
			return fmt.Errorf("write %v: %w", prefix, err)
		}
	}
	if err := r.objects.Generation.Set(next); err != nil {
		return fmt.Errorf("switch the generation: %w", err)
	}
	r.generation, r.tables, r.stale = next, t, r.tables
	return nil
}

func (r *Relay) emptyTables(generation uint32, t tables) error {
	for prefix := range t.destinations {
		err := r.objects.Destinations.Delete(destinationKey(generation, prefix))
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove %v: %w", prefix, err)
		}
	}
	return nil
}

func destinationKey(generation uint32, p netip.Prefix) relayPrefixKey {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return relayPrefixKey{Prefixlen: uint32(32 + bits), Generation: generation, Addr: p.Addr().As16()}
}

// tables is the compiled form of entries: bit i of a set is entry i.
type tables struct {
	ports        []uint64 // by port
	destinations map[netip.Prefix]uint64
	entries      []relayEntry
}

func compileEntries(entries []Entry) (tables, error) {
	if len(entries) > MaxEntries {
		return tables{}, fmt.Errorf("%d entries (at most %d)", len(entries), MaxEntries)
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(number(a.Intercept), number(b.Intercept)) })
	t := tables{ports: make([]uint64, 1<<16)}
	var rules []datapath.PrefixRule
	for i, e := range entries {
		bit := uint64(1) << i
		more, err := prefixRules(e, bit)
		if err != nil {
			return tables{}, fmt.Errorf("entry %d: %w", e.ID, err)
		}
		rules = append(rules, more...)
		for _, r := range portsOf(e) {
			for port := int(r.First); port <= int(r.Last); port++ {
				t.ports[port] |= bit
			}
		}
		t.entries = append(t.entries, relayEntry{
			Listen: e.Listen.Addr().As16(), Port: datapath.BigEndian(e.Listen.Port()), Early: uint8(e.Early), Intercept: uint8(number(e.Intercept)), Id: e.ID,
		})
	}
	t.destinations = datapath.PrefixSets(rules)
	if len(t.destinations) > maxPrefixes {
		return tables{}, fmt.Errorf("%d prefixes (at most %d)", len(t.destinations), maxPrefixes)
	}
	return t, nil
}

// ListenersFD is the descriptor that SetListener needs. The Relay owns it.
func (r *Relay) ListenersFD() int { return r.objects.Listeners.FD() }

// SetListener tells the kernel of a listener of entries that intercept, for clients that use a port again. Of a reuseport group one is
// enough. A closed listener is forgotten. A thread with its own table of descriptors may call it if the table has ListenersFD.
func (r *Relay) SetListener(fd int, at netip.AddrPort) error {
	key := relayListenKey{Addr: at.Addr().As16(), Port: datapath.BigEndian(at.Port())}
	if err := r.objects.Listeners.Put(key, uint64(fd)); err != nil {
		return fmt.Errorf("tell the kernel of the listener at %v: %w", at, err)
	}
	return nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func prefixRules(e Entry, bit uint64) ([]datapath.PrefixRule, error) {
	if !e.Listen.IsValid() || e.Listen.Port() == 0 || e.Listen.Addr().Is4In6() {
		return nil, fmt.Errorf("invalid listen address %v", e.Listen)
	}
	if e.Early > EarlyConnectFirst {
		return nil, fmt.Errorf("invalid kind of early SYN %d", e.Early)
	}
	for _, r := range e.Ports {
		if r.First > r.Last {
			return nil, fmt.Errorf("ports %d-%d", r.First, r.Last)
		}
	}
	both := e.Listen.Addr() == netip.IPv6Unspecified()
	var all []datapath.PrefixRule
	for _, p := range e.Destinations {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("destination %v", p)
		}
		if p.Addr().Is4() != e.Listen.Addr().Is4() && (!both || !p.Addr().Is4()) {
			return nil, fmt.Errorf("destination %v and listen address %v are of different families", p, e.Listen)
		}
		all = append(all, datapath.PrefixRule{Prefix: p.Masked(), Member: bit})
	}
	for _, p := range e.Except {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("exception %v", p)
		}
		all = append(all, datapath.PrefixRule{Prefix: p.Masked(), Without: bit})
	}
	return all, nil
}

func portsOf(e Entry) []Ports {
	if len(e.Ports) == 0 {
		return []Ports{{0, 65535}}
	}
	return e.Ports
}
