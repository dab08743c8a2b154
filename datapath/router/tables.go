package router

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// Tables are the routing tables.
type Tables struct {
	VIPs   map[netip.AddrPort]VIP
	Hosts  []Host
	Routes []Route
	Pools  map[uint16]Pool
	Zones  []Zone
}

// tables is the generation in force and its contents.
type tables struct {
	sync.Mutex
	generation uint32
	inForce    Tables // as written by this process
	grace      *ebpf.Map
	nothing    *ebpf.Map // its only value
}

// Put replaces the configuration and all tables atomically: each packet sees either the old or the new ones.
func (r *Router) Put(c Config, t Tables) error {
	r.tables.Lock()
	defer r.tables.Unlock()
	k, err := c.kernel()
	if err == nil {
		err = r.setTables(t, k)
	}
	if err != nil {
		return fmt.Errorf("put tables: %w", err)
	}
	return nil
}

// setTables fills the generation that is not in force, switches to it, and empties the other once no packet uses it.
func (r *Router) setTables(t Tables, c routerConfig) error {
	old, next := r.tables.generation, 1-r.tables.generation
	for id := range uint16(MaxPools) {
		p, ok := t.Pools[id]
		if !ok {
			p = Pool{Policy: Upcall}
		}
		if err := r.writePool(next, id, p); err != nil {
			return err
		}
	}
	if err := r.writeZones(next, t.Zones); err != nil {
		return err
	}
	if err := r.writeRoutes(next, t.Hosts, t.Routes); err != nil {
		return err
	}
	if err := r.writeVIPs(next, t.VIPs); err != nil {
		return err
	}
	if err := r.switchTo(next, c); err != nil {
		return err
	}
	r.tables.inForce = t
	return r.emptyTables(old)
}

func (r *Router) switchTo(generation uint32, c routerConfig) error {
	r.complete(&c, generation)
	if err := r.maps.Settings.Update(uint32(0), c, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("switch over: %w", err)
	}
	r.tables.generation = generation
	return r.settle()
}

// emptyTables clears a generation that is not in force. Pools and choice tables are overwritten later.
func (r *Router) emptyTables(generation uint32) error {
	return errors.Join(
		r.writeVIPs(generation, nil), r.writeRoutes(generation, nil, nil), r.writeZones(generation, nil),
	)
}

// settle waits until all packets that are being processed are done: replacing a map in a map waits for running programs (RCU).
func (r *Router) settle() (err error) {
	t := &r.tables
	if t.grace == nil {
		inner := &ebpf.MapSpec{Name: "nothing", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
		if t.nothing, err = ebpf.NewMap(inner); err != nil {
			return fmt.Errorf("wait for packets: %w", err)
		}
		t.grace, err = ebpf.NewMap(&ebpf.MapSpec{Name: "grace", Type: ebpf.ArrayOfMaps, KeySize: 4, MaxEntries: 1, InnerMap: inner})
		if err != nil {
			return fmt.Errorf("wait for packets: %w", err)
		}
	}
	if err := t.grace.Update(uint32(0), t.nothing, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("wait for packets: %w", err)
	}
	return nil
}

func (t *tables) close() error { return errors.Join(t.grace.Close(), t.nothing.Close()) }

// UpdateTables writes the changes since Put with the same hosts and routes: changes of pools are made in place; for
// others all tables are replaced.
func (r *Router) UpdateTables(t Tables) error {
	r.tables.Lock()
	defer r.tables.Unlock()
	had := r.tables.inForce
	sameZone := func(a, b Zone) bool { return a.Pool == b.Pool && a.Prefix == b.Prefix }
	hadTables, hadOf := zoneTables(had.Zones)
	zoned, of := zoneTables(t.Zones)
	if !maps.Equal(had.VIPs, t.VIPs) || !slices.EqualFunc(had.Zones, t.Zones, sameZone) || !slices.Equal(hadOf, of) {
		var c routerConfig
		err := r.maps.Settings.Lookup(uint32(0), &c)
		if err == nil {
			err = r.setTables(t, c)
		}
		if err != nil {
			return fmt.Errorf("update tables: %w", err)
		}
		return nil
	}
	for i, table := range zoned {
		if slices.Equal(table, hadTables[i]) {
			continue
		}
		if err := r.writeTable(r.tables.generation, zoneTable(i), table); err != nil {
			return fmt.Errorf("update tables: %w", err)
		}
	}
	for id, p := range t.Pools {
		if h := had.Pools[id]; p.Policy == h.Policy && p.Reuse == h.Reuse && p.Header == h.Header && p.Edit == h.Edit && slices.Equal(p.Members, h.Members) && slices.Equal(p.Table, h.Table) {
			continue
		}
		if err := r.writePool(r.tables.generation, id, p); err != nil {
			return fmt.Errorf("update tables: %w", err)
		}
	}
	r.tables.inForce = t
	return nil
}

// VIP is the kernel's configuration of a VIP.
type VIP struct {
	ID      uint16 // below MaxVIPs
	Local   bool   // packets pass to this host's sockets
	MSS     uint16 // offered to clients
	OnePool bool   // all requests go to Pool
	Pool    uint16
	NoHosts bool // no route names a host
	NoTS    bool // timestamps are not offered
	Closed  bool // no new sessions
	TLS     bool // sessions are routed by their hello
	Hold    bool // each request waits until the previous response is complete
	Log     bool // what is spliced leaves a record
	// Watch are names of fields that the router sets, and that no request with an Edit may have. "": none.
	Watch [Watches]string
}

// Refuse adds those of the VIPs that the tables lack. Their clients are refused until the next Put.
func (r *Router) Refuse(vips []netip.AddrPort) error {
	r.tables.Lock()
	defer r.tables.Unlock()
	for _, at := range vips {
		k := routerVipKey{Addr: at.Addr().As16(), Port: datapath.BigEndian(at.Port()), Generation: uint16(r.tables.generation)}
		err := r.maps.Vips.Update(k, routerVip{Flags: uint8(routerVipFlagVIP_CLOSED)}, ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("refuse clients of %v: %w", at, err)
		}
	}
	return nil
}

// vipID is a VIP's number per generation, used in the keys of hosts and routes.
func vipID(generation uint32, id uint16) uint16 { return uint16(generation)*uint16(MaxVIPs) + id }

func (r *Router) writeVIPs(generation uint32, vips map[netip.AddrPort]VIP) error {
	want := make(map[routerVipKey]routerVip)
	for at, v := range vips {
		if v.Log {
			if err := r.startLogs(); err != nil {
				return err
			}
		}
		if int(v.ID) >= MaxVIPs {
			return fmt.Errorf("set VIPs: number %d", v.ID)
		}
		if v.watches() {
			if err := r.writeWatches(generation, v); err != nil {
				return err
			}
		}
		k := routerVip{Id: vipID(generation, v.ID), Mss: v.MSS, Pool: v.Pool}
		if v.Local {
			k.Mode = uint8(routerModeMODE_LOCAL)
		}
		for flag, on := range map[routerVipFlag]bool{
			routerVipFlagVIP_ONE_POOL: v.OnePool,
			routerVipFlagVIP_NO_HOSTS: v.NoHosts,
			routerVipFlagVIP_NO_TS:    v.NoTS,
			routerVipFlagVIP_CLOSED:   v.Closed,
			routerVipFlagVIP_HOLD:     v.Hold,
			routerVipFlagVIP_TLS:      v.TLS,
			routerVipFlagVIP_LOG:      v.Log,
			routerVipFlagVIP_WATCH:    v.watches(),
		} {
			if on {
				k.Flags |= uint8(flag)
			}
		}
		addr := at.Addr().As16()
		want[routerVipKey{Addr: addr, Port: datapath.BigEndian(at.Port()), Generation: uint16(generation)}] = k
		if !v.Local {
			want[routerVipKey{Addr: addr, Generation: uint16(generation)}] = routerVip{}
		}
	}
	if err := replace(r.maps.Vips, want, func(k *routerVipKey) bool { return uint32(k.Generation) == generation }); err != nil {
		return fmt.Errorf("set VIPs: %w", err)
	}
	return nil
}

// Host is a host named in routes, with its number.
type Host struct {
	VIP  uint16
	Name string // at most HostBytes
	ID   uint16
}

// Route applies to requests whose longest matching prefix is Prefix.
type Route struct {
	VIP, Host uint16
	Method    uint8  // AnyMethod needs Prefix ""
	Prefix    string // at most RouteBytes
	Pool      uint16
	Upcall    bool
	Edit      Edit // in place of the pool's
}

// AnyMethod is the method of a route that applies where no route of the request's method does.
const AnyMethod = 255

// toKey is the route's key in the kernel: a shorter one holds for all methods, as they come after VIP and host.
func (p *Route) toKey(generation uint32) (k routerRouteKey, err error) {
	k.Vip, k.Host = vipID(generation, p.VIP), p.Host
	switch {
	case p.Method != AnyMethod:
		k.Method = p.Method
		k.Prefixlen = uint32(8 * (int(unsafe.Offsetof(k.Target)-unsafe.Offsetof(k.Vip)) + len(p.Prefix)))
	case p.Prefix == "":
		k.Prefixlen = uint32(8 * (unsafe.Offsetof(k.Method) - unsafe.Offsetof(k.Vip)))
	default:
		return k, fmt.Errorf("prefix %q for any method", p.Prefix)
	}
	if copy(k.Target[:], p.Prefix) < len(p.Prefix) {
		return k, fmt.Errorf("prefix %q is longer than %d bytes", p.Prefix, RouteBytes)
	}
	return k, nil
}

func (r *Router) writeRoutes(generation uint32, hosts []Host, routes []Route) error {
	names := make(map[routerHostKey]uint32)
	for _, h := range hosts {
		if len(h.Name) > HostBytes-1 {
			return fmt.Errorf("set routes: host %q is longer than %d bytes", h.Name, HostBytes-1)
		}
		k := routerHostKey{Vip: vipID(generation, h.VIP)}
		for i := range h.Name {
			k.Name[i] = h.Name[i] | 0x20
		}
		names[k] = uint32(h.ID)
	}
	prefixes := make(map[routerRouteKey]routerRoute)
	for i := range routes {
		p := &routes[i]
		k, err := p.toKey(generation)
		if err != nil {
			return fmt.Errorf("set routes: %w", err)
		}
		v := routerRoute{Pool: p.Pool}
		if v.Header, err = r.headerOf(NoHeader, p.Edit); err != nil {
			return fmt.Errorf("set routes: %w", err)
		}
		if p.Upcall {
			v.Upcall = 1
		}
		prefixes[k] = v
	}
	of := func(vip uint16) bool { return uint32(vip)/uint32(MaxVIPs) == generation }
	if err := replace(r.maps.Routes, prefixes, func(k *routerRouteKey) bool { return of(k.Vip) }); err != nil {
		return fmt.Errorf("set routes: %w", err)
	}
	if err := replace(r.maps.Hosts, names, func(k *routerHostKey) bool { return of(k.Vip) }); err != nil {
		return fmt.Errorf("set hosts: %w", err)
	}
	return nil
}

// Policy is how the kernel chooses a surrogate of a pool.
type Policy uint16

// The kernel's policies.
const (
	RoundRobin = Policy(routerPolicyPOLICY_ROUND_ROBIN)
	Hash       = Policy(routerPolicyPOLICY_HASH)
	Nearest    = Policy(routerPolicyPOLICY_NEAREST)
	Least      = Policy(routerPolicyPOLICY_LEAST)
	Upcall     = Policy(routerPolicyPOLICY_UPCALL)
)

// Reuse says which requests may use a leg that has served another client.
type Reuse uint16

// The kinds of reuse.
const (
	ReuseAlways = Reuse(routerReuseREUSE_ALWAYS)
	ReuseSafe   = Reuse(routerReuseREUSE_SAFE)
	ReuseNever  = Reuse(routerReuseREUSE_NEVER)
)

// Pool is a pool with its available surrogates.
type Pool struct {
	Policy  Policy
	Reuse   Reuse
	Header  Header
	Edit    Edit     // of its requests, unless their route has one; needs NoHeader
	Members []uint16 // for Least
	Table   []uint16 // for the others
}

// Header is what goes to a surrogate before a client's first byte.
type Header uint16

// The headers: of the PROXY protocol, in its versions.
const (
	NoHeader = Header(routerHeaderHEADER_NONE)
	ProxyV1  = Header(routerHeaderHEADER_PROXY_V1)
	ProxyV2  = Header(routerHeaderHEADER_PROXY_V2)
)

// writePool writes the table first, so that no request sees a policy without its table. The round-robin position is kept.
func (r *Router) writePool(generation uint32, id uint16, p Pool) error {
	if err := r.writeTable(generation, id, p.Table); err != nil {
		return err
	}
	var k routerPool
	if err := r.maps.Pools.Lookup(poolPlace(r.tables.generation, id), &k); err != nil {
		return fmt.Errorf("set pool %d: %w", id, err)
	}
	header, err := r.headerOf(p.Header, p.Edit)
	if err != nil {
		return fmt.Errorf("set pool %d: %w", id, err)
	}
	k.Policy, k.Reuse, k.Header = uint16(p.Policy), uint16(p.Reuse), header
	if len(p.Members) > PoolMembers && p.Policy == Least {
		k.Policy = uint16(Upcall)
	}
	k.Members = uint16(copy(k.Member[:], p.Members))
	if err := r.maps.Pools.Update(poolPlace(generation, id), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set pool %d: %w", id, err)
	}
	return nil
}

func poolPlace(generation uint32, id uint16) uint32 { return generation*uint32(MaxPools) + uint32(id) }

func tablePlace(generation uint32, id uint16) uint32 {
	return generation*uint32(MaxTables) + uint32(id)
}

// writeTable replaces a choice table; a pool's own has the pool's number.
func (r *Router) writeTable(generation uint32, id uint16, surrogates []uint16) error {
	if int(id) >= MaxTables {
		return fmt.Errorf("set table %d: at most %d", id, MaxTables)
	}
	var k routerChoices
	if copy(k.Surrogate[:], surrogates) < len(surrogates) {
		return fmt.Errorf("set table %d: more than %d slots", id, TableSlots)
	}
	k.Slots = uint32(len(surrogates))
	if err := r.maps.Tables.Update(tablePlace(generation, id), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set table %d: %w", id, err)
	}
	return nil
}

// replace makes want the only entries of a map for which ours holds: it writes new and changed ones first, then deletes the
// others.
func replace[K comparable, V any](m *ebpf.Map, want map[K]V, ours func(*K) bool) error {
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
	it := m.Iterate()
	for it.Next(&k, &v) {
		if _, keep := want[k]; !keep && ours(&k) {
			gone = append(gone, k)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	for _, k := range gone {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// MaxPoolName is the length limit of pool names, in bytes.
const MaxPoolName = int(routerBoundPOOL_NAME)

// PoolNames maps pools to the numbers they have, or had last.
func (r *Router) PoolNames() (map[string]uint16, error) {
	names := make(map[string]uint16)
	for id := range uint32(MaxPools) {
		var k routerPoolName
		if err := r.maps.PoolNames.Lookup(id, &k); err != nil {
			return nil, fmt.Errorf("read the names of pools: %w", err)
		}
		if name, _, _ := bytes.Cut(k.Name[:], []byte{0}); len(name) > 0 {
			names[string(name)] = uint16(id)
		}
	}
	return names, nil
}

// NamePool stores a pool's number, also for later processes.
func (r *Router) NamePool(id uint16, name string) error {
	var k routerPoolName
	if copy(k.Name[:], name) < len(name) {
		return fmt.Errorf("name pool %d: %q is longer than %d bytes", id, name, MaxPoolName)
	}
	if err := r.maps.PoolNames.Update(uint32(id), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("name pool %d: %w", id, err)
	}
	return nil
}
