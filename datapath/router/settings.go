package router

import (
	"fmt"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// Limits of the kernel's tables.
const (
	MaxVIPs       = int(routerBoundMAX_VIPS)
	MaxPools      = int(routerBoundMAX_POOLS)
	MaxTables     = int(routerBoundMAX_TABLES)
	MaxZoneTables = MaxTables - MaxPools // different ones: zones share them
	MaxZones      = 1 << 17              // of 1 << 20 that a generation has room for: each takes kernel memory
	MaxSurrogates = int(routerBoundMAX_SURROGATES)
	LegClasses    = uint32(routerBoundLEG_CLASSES)
	TableSlots    = int(routerBoundTABLE_SLOTS)
	PoolMembers   = int(routerBoundPOOL_MEMBERS)
	HostBytes     = int(routerBoundHOST_BYTES)
	RouteBytes    = int(routerBoundROUTE_BYTES)
	OurWscale     = uint8(routerSessionBoundOUR_WSCALE)
	NoSurrogate   = uint16(routerBoundNO_SURROGATE)
)

// Config is the configuration of the whole data path.
type Config struct {
	Tap      int      // ifindex of the tap to user space; 0: none
	TSOffset uint32   // offset of the timestamp clock
	MSS      []uint16 // of the leg classes, ascending, at most 8
	MTU      int      // of the narrowest interface towards clients; 0: unknown
	Closed   bool     // no new sessions
}

// SetConfig applies c to all packets from now on.
func (r *Router) SetConfig(c Config) error {
	r.tables.Lock()
	defer r.tables.Unlock()
	k, err := c.kernel()
	if err != nil {
		return fmt.Errorf("set config: %w", err)
	}
	r.complete(&k, r.tables.generation)
	if err := r.maps.Settings.Update(uint32(0), k, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("set config: %w", err)
	}
	return nil
}

// complete fills in the fields that depend on the state.
func (r *Router) complete(k *routerConfig, generation uint32) {
	k.Generation, k.Salt, k.Pending = generation, r.salt, r.maps.Clients.MaxEntries()
}

func (c Config) kernel() (routerConfig, error) {
	k := routerConfig{Tap: uint32(c.Tap), TsOffset: c.TSOffset, Mtu: uint32(c.MTU)}
	if copy(k.Mss[:], c.MSS) < len(c.MSS) {
		return k, fmt.Errorf("more than %d MSS classes", len(k.Mss))
	}
	if c.Closed {
		k.Closed = 1
	}
	return k, nil
}

// Config reads back what SetConfig wrote, by this process or an earlier one.
func (r *Router) Config() (Config, error) {
	var k routerConfig
	if err := r.maps.Settings.Lookup(uint32(0), &k); err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	c := Config{Tap: int(k.Tap), TSOffset: k.TsOffset, MTU: int(k.Mtu), Closed: k.Closed != 0}
	for _, mss := range k.Mss {
		if mss != 0 {
			c.MSS = append(c.MSS, mss)
		}
	}
	return c, nil
}

// SetPaths replaces the interfaces of the routes to a surrogate. Its packets are accepted only from these, and from the interface
// of a leg's own next hop.
func (r *Router) SetPaths(surrogate uint16, ifindexes []int) error {
	if err := r.paths.Replace(r.maps.Paths, surrogate, ifindexes); err != nil {
		return fmt.Errorf("set the interfaces of surrogate %d: %w", surrogate, err)
	}
	return nil
}

func newPaths() *datapath.Paths[uint16, routerPathKey] {
	return &datapath.Paths[uint16, routerPathKey]{
		Key: func(surrogate uint16, ifindex int) routerPathKey {
			return routerPathKey{Surrogate: uint32(surrogate), Ifindex: uint32(ifindex)}
		},
		Read: func(k *routerPathKey) (uint16, int) { return uint16(k.Surrogate), int(k.Ifindex) },
	}
}
