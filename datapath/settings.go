package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
)

// Limits of the kernel's tables.
const (
	MaxVIPs       = int(routerBoundMAX_VIPS)
	MaxPools      = int(routerBoundMAX_POOLS)
	MaxTables     = int(routerBoundMAX_TABLES)
	MaxSurrogates = int(routerBoundMAX_SURROGATES)
	LegClasses    = uint32(routerBoundLEG_CLASSES)
	TableSlots    = int(routerBoundTABLE_SLOTS)
	PoolMembers   = int(routerBoundPOOL_MEMBERS)
	HostBytes     = int(routerBoundHOST_BYTES)
	RouteBytes    = int(routerBoundROUTE_BYTES)
	ToldWscale    = uint8(routerBoundTOLD_WSCALE)
	NoSurrogate   = uint16(routerBoundNO_SURROGATE)
	NoLength      = ^uint64(0)
)

// Config is what holds for the whole data path.
type Config struct {
	Tap      int      // ifindex of the way to user space, 0: none
	TSOffset uint32   // added to the clock that timestamps are taken from
	MSS      []uint16 // of the leg classes, ascending, at most 8
	Closed   bool     // no new sessions
}

// SetConfig takes effect with the next packet.
func (r *Router) SetConfig(c Config) error {
	k := routerConfig{Abi: ABI, Tap: uint32(c.Tap), TsOffset: c.TSOffset}
	if copy(k.Mss[:], c.MSS) < len(c.MSS) {
		return fmt.Errorf("set config: more than %d MSS classes", len(k.Mss))
	}
	if c.Closed {
		k.Closed = 1
	}
	if err := r.maps.Settings.Update(uint32(0), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set config: %w", err)
	}
	return nil
}

// Config reads back what SetConfig wrote, by this process or an earlier one.
func (r *Router) Config() (Config, error) {
	var k routerConfig
	if err := r.maps.Settings.Lookup(uint32(0), &k); err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	c := Config{Tap: int(k.Tap), TSOffset: k.TsOffset, Closed: k.Closed != 0}
	for _, mss := range k.Mss {
		if mss != 0 {
			c.MSS = append(c.MSS, mss)
		}
	}
	return c, nil
}

// VIP is how the kernel answers an address and port.
type VIP struct {
	ID      uint16
	Local   bool   // packets pass to this host's sockets
	MSS     uint16 // offered to clients
	OnePool bool   // every request goes to Pool
	Pool    uint16
	NoHosts bool // no route names a host
	NoTS    bool // timestamps are not offered
	Closed  bool // no new sessions
}

// SetVIPs replaces all VIPs. New ones come before old ones go.
func (r *Router) SetVIPs(vips map[netip.AddrPort]VIP) error {
	want := make(map[routerVipKey]routerVip)
	for at, v := range vips {
		k := routerVip{Id: v.ID, Mss: v.MSS, Pool: v.Pool}
		if v.Local {
			k.Mode = uint8(routerModeMODE_LOCAL)
		}
		for flag, on := range map[routerVipFlag]bool{
			routerVipFlagVIP_ONE_POOL: v.OnePool,
			routerVipFlagVIP_NO_HOSTS: v.NoHosts,
			routerVipFlagVIP_NO_TS:    v.NoTS,
			routerVipFlagVIP_CLOSED:   v.Closed,
		} {
			if on {
				k.Flags |= uint8(flag)
			}
		}
		addr := at.Addr().As16()
		want[routerVipKey{Addr: addr, Port: bigEndian(at.Port())}] = k
		if !v.Local {
			want[routerVipKey{Addr: addr}] = routerVip{}
		}
	}
	if err := replace(r.maps.Vips, want); err != nil {
		return fmt.Errorf("set VIPs: %w", err)
	}
	return nil
}

// Host is a name that routes mention, with its number.
type Host struct {
	VIP  uint16
	Name string // at most HostBytes
	ID   uint16
}

// Route is the answer for requests whose target has that prefix and no longer one.
type Route struct {
	VIP, Host uint16
	Method    uint8
	Prefix    string // at most RouteBytes
	Pool      uint16
	Ask       bool
}

// SetRoutes replaces all hosts and routes. Requests in between may be asked about.
func (r *Router) SetRoutes(hosts []Host, routes []Route) error {
	names := make(map[routerHostKey]uint32)
	for _, h := range hosts {
		if len(h.Name) > HostBytes-1 {
			return fmt.Errorf("set routes: host %q is longer than %d bytes", h.Name, HostBytes-1)
		}
		k := routerHostKey{Vip: h.VIP}
		for i := range h.Name {
			k.Name[i] = h.Name[i] | 0x20
		}
		names[k] = uint32(h.ID)
	}
	prefixes := make(map[routerRouteKey]routerRoute)
	for _, p := range routes {
		k := routerRouteKey{Prefixlen: uint32(8 * (5 + len(p.Prefix))), Vip: p.VIP, Host: p.Host, Method: p.Method}
		if copy(k.Target[:], p.Prefix) < len(p.Prefix) {
			return fmt.Errorf("set routes: prefix %q is longer than %d bytes", p.Prefix, RouteBytes)
		}
		v := routerRoute{Pool: p.Pool}
		if p.Ask {
			v.Ask = 1
		}
		prefixes[k] = v
	}
	if err := replace(r.maps.Routes, prefixes); err != nil {
		return fmt.Errorf("set routes: %w", err)
	}
	if err := replace(r.maps.Hosts, names); err != nil {
		return fmt.Errorf("set hosts: %w", err)
	}
	return nil
}

// Policy is how the kernel picks a surrogate of a pool.
type Policy uint16

// The policies that the kernel knows.
const (
	Turns   = Policy(routerPolicyPOLICY_TURNS)
	Hash    = Policy(routerPolicyPOLICY_HASH)
	Nearest = Policy(routerPolicyPOLICY_NEAREST)
	Least   = Policy(routerPolicyPOLICY_LEAST)
	Ask     = Policy(routerPolicyPOLICY_ASK)
)

// Pool is a pool with the surrogates that may be chosen now. Table i of the pool itself has its number.
type Pool struct {
	Policy  Policy
	Members []uint16 // for Least
	Table   []uint16 // for the others
}

// SetPool replaces a pool. The table comes first, so that no request meets a policy without its table.
func (r *Router) SetPool(id uint16, p Pool) error {
	if err := r.SetTable(id, p.Table); err != nil {
		return err
	}
	var k routerPool
	if err := r.maps.Pools.Lookup(uint32(id), &k); err != nil {
		return fmt.Errorf("set pool %d: %w", id, err)
	}
	k.Policy = uint16(p.Policy)
	if len(p.Members) > PoolMembers && p.Policy == Least {
		k.Policy = uint16(Ask)
	}
	k.Members = uint16(copy(k.Member[:], p.Members))
	if err := r.maps.Pools.Update(uint32(id), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set pool %d: %w", id, err)
	}
	return nil
}

// SetTable replaces a table of surrogates.
func (r *Router) SetTable(id uint16, surrogates []uint16) error {
	var k routerTable
	if copy(k.Surrogate[:], surrogates) < len(surrogates) {
		return fmt.Errorf("set table %d: more than %d slots", id, TableSlots)
	}
	k.Slots = uint32(len(surrogates))
	if err := r.maps.Tables.Update(uint32(id), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set table %d: %w", id, err)
	}
	return nil
}

// Zone gives clients of a prefix a table of their own.
type Zone struct {
	Pool   uint16
	Prefix netip.Prefix
	Table  uint16
}

// SetZones replaces all zones.
func (r *Router) SetZones(zones []Zone) error {
	want := make(map[routerZoneKey]uint32)
	for _, z := range zones {
		bits := z.Prefix.Bits()
		if z.Prefix.Addr().Is4() {
			bits += 96
		}
		k := routerZoneKey{Prefixlen: uint32(32 + bits), Pool: uint32(z.Pool), Addr: z.Prefix.Masked().Addr().As16()}
		want[k] = uint32(z.Table)
	}
	if err := replace(r.maps.Zones, want); err != nil {
		return fmt.Errorf("set zones: %w", err)
	}
	return nil
}

// replace makes a map hold just want: new and changed entries first, then the old ones go.
func replace[K comparable, V any](m *ebpf.Map, want map[K]V) error {
	for k, v := range want {
		if err := m.Update(k, v, ebpf.UpdateAny); err != nil {
			return err
		}
	}
	var (
		k    K
		v    V
		gone []K
	)
	for it := m.Iterate(); it.Next(&k, &v); {
		if _, keep := want[k]; !keep {
			gone = append(gone, k)
		}
	}
	for _, k := range gone {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// bigEndian gives the value whose bytes in memory are v's in network order.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
