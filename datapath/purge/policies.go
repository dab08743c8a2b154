package purge

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// Ports is a range of port numbers, inclusive.
type Ports struct{ First, Last uint16 }

// Policy says which connections it matches, and when one of them is dormant. Durations are whole milliseconds.
type Policy struct {
	ID        uint32         // reported in marks; not 0
	Addresses []netip.Prefix // of servers on this host
	Ports     []Ports
	Exempt    []netip.Prefix // of clients

	MaxRetries int           // timeouts that may expire before the one that counts
	Wait       int           // for a response to its retransmission, percent of that timeout
	Floor      time.Duration // least unresponsive time
	Ceiling    time.Duration // unresponsive time that is enough even after fewer timeouts, at least one
}

const (
	// MaxPolicies is the most that SetPolicies takes.
	MaxPolicies = int(purgeBoundMAX_POLICIES)
	// maxPrefixes is the capacity of a generation, for servers' addresses and for exempt ones.
	maxPrefixes = 32768
	// maxTime bounds sums of milliseconds in 32 bits, and maxWait the percentage.
	maxTime = 24 * time.Hour
	maxWait = 1000
)

// SetPolicies replaces all policies at once. The first that matches a connection applies. Marked connections stay marked.
func (p *Purge) SetPolicies(policies []Policy) error {
	t, err := compilePolicies(policies)
	if err == nil {
		err = p.writeTables(t)
	}
	if err != nil {
		return fmt.Errorf("set policies: %w", err)
	}
	return nil
}

// tables are the compiled policies: bit i of a set is policy i.
type tables struct {
	ports             []uint64 // by port
	addresses, exempt map[netip.Prefix]uint64
	policies          []purgePolicy
}

func compilePolicies(policies []Policy) (tables, error) {
	if len(policies) > MaxPolicies {
		return tables{}, fmt.Errorf("%d policies: at most %d", len(policies), MaxPolicies)
	}
	t := tables{ports: make([]uint64, 1<<16)}
	var addresses, exempt []datapath.PrefixRule
	for i, p := range policies {
		bit := uint64(1) << i
		k, err := p.kernel()
		if err != nil {
			return tables{}, fmt.Errorf("policy %d: %w", p.ID, err)
		}
		t.policies = append(t.policies, k)
		for _, r := range p.Ports {
			for port := int(r.First); port <= int(r.Last); port++ {
				t.ports[port] |= bit
			}
		}
		for _, a := range p.Addresses {
			addresses = append(addresses, datapath.PrefixRule{Prefix: a.Masked(), Member: bit})
		}
		for _, a := range p.Exempt {
			exempt = append(exempt, datapath.PrefixRule{Prefix: a.Masked(), Member: bit})
		}
	}
	t.addresses, t.exempt = datapath.PrefixSets(addresses), datapath.PrefixSets(exempt)
	if n := max(len(t.addresses), len(t.exempt)); n > maxPrefixes {
		return tables{}, fmt.Errorf("%d prefixes: at most %d", n, maxPrefixes)
	}
	return t, nil
}

// kernel converts the policy to the kernel's form, or returns what is wrong with it.
func (p *Policy) kernel() (purgePolicy, error) {
	switch {
	case p.ID == 0:
		return purgePolicy{}, errors.New("no ID")
	case len(p.Addresses) == 0 || len(p.Ports) == 0:
		return purgePolicy{}, errors.New("no address or no port")
	case p.MaxRetries < 0 || p.MaxRetries > 255:
		return purgePolicy{}, fmt.Errorf("%d retries", p.MaxRetries)
	case p.Wait < 0 || p.Wait > maxWait:
		return purgePolicy{}, fmt.Errorf("wait for %d percent of a timeout", p.Wait)
	case p.Floor < 0 || p.Floor > p.Ceiling || p.Ceiling > maxTime:
		return purgePolicy{}, fmt.Errorf("an unresponsive time from %v to %v", p.Floor, p.Ceiling)
	}
	for _, r := range p.Ports {
		if r.First > r.Last {
			return purgePolicy{}, fmt.Errorf("ports %d-%d", r.First, r.Last)
		}
	}
	for _, all := range [][]netip.Prefix{p.Addresses, p.Exempt} {
		for _, a := range all {
			if !a.IsValid() || a.Addr().Is4In6() {
				return purgePolicy{}, fmt.Errorf("prefix %v", a)
			}
		}
	}
	return purgePolicy{
		Id: p.ID, MaxRetries: uint32(p.MaxRetries), Wait: uint32(p.Wait),
		Floor: uint32(p.Floor.Milliseconds()), Ceiling: uint32(p.Ceiling.Milliseconds()),
	}, nil
}

// writeTables fills the unused generation and activates it. The other one is emptied next time, when no running program uses it any
// more.
func (p *Purge) writeTables(t tables) error {
	next := 1 - p.generation
	tables := []struct {
		m           *ebpf.Map
		want, stale map[netip.Prefix]uint64
	}{
		{p.objects.Addresses, t.addresses, p.stale.addresses},
		{p.objects.Exempt, t.exempt, p.stale.exempt},
	}
	for _, to := range tables {
		for prefix := range to.stale {
			if err := to.m.Delete(prefixKey(next, prefix)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("forget %v: %w", prefix, err)
			}
		}
	}
	p.stale = t
	places := make([]uint32, len(t.ports))
	for port := range places {
		places[port] = next<<16 | uint32(port)
	}
	if _, err := p.objects.Ports.BatchUpdate(places, t.ports, nil); err != nil {
		return fmt.Errorf("write the ports: %w", err)
	}
	for bit, k := range t.policies {
		if err := p.objects.Policies.Put(next*uint32(MaxPolicies)+uint32(bit), k); err != nil {
			return fmt.Errorf("write a policy: %w", err)
		}
	}
	for _, to := range tables {
		for prefix, set := range to.want {
			if err := to.m.Put(prefixKey(next, prefix), set); err != nil {
				return fmt.Errorf("write %v: %w", prefix, err)
			}
		}
	}
	if err := p.objects.Generation.Set(next); err != nil {
		return fmt.Errorf("switch over: %w", err)
	}
	p.generation, p.tables, p.stale = next, t, p.tables
	return nil
}

func prefixKey(generation uint32, p netip.Prefix) purgePrefixKey {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return purgePrefixKey{Prefixlen: uint32(32 + bits), Generation: generation, Addr: p.Addr().As16()}
}
