package router

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
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
	r.paths.Lock()
	defer r.paths.Unlock()
	err := r.readPathsLocked()
	before := r.paths.of[surrogate]
	for _, i := range ifindexes {
		key := routerPathKey{Surrogate: uint32(surrogate), Ifindex: uint32(i)}
		err = errors.Join(err, r.maps.Paths.Update(key, uint8(1), ebpf.UpdateAny))
	}
	for _, i := range before {
		if slices.Contains(ifindexes, i) {
			continue
		}
		gone := r.maps.Paths.Delete(routerPathKey{Surrogate: uint32(surrogate), Ifindex: uint32(i)})
		if !errors.Is(gone, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return fmt.Errorf("set the interfaces of surrogate %d: %w", surrogate, err)
	}
	r.paths.of[surrogate] = slices.Clone(ifindexes)
	return nil
}

// paths remembers what SetPaths has set: a walk through the map for each surrogate would take time by their square.
type paths struct {
	sync.Mutex
	of map[uint16][]int // interfaces by surrogate; nil: what an earlier process has set is not read yet
}

func (r *Router) readPathsLocked() error {
	if r.paths.of != nil {
		return nil
	}
	r.paths.of = make(map[uint16][]int)
	var k routerPathKey
	var v uint8
	it := r.maps.Paths.Iterate()
	for it.Next(&k, &v) {
		r.paths.of[uint16(k.Surrogate)] = append(r.paths.of[uint16(k.Surrogate)], int(k.Ifindex))
	}
	return it.Err()
}
