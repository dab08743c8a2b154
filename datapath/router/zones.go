package router

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Zone is a choice table for the clients of a prefix.
type Zone struct {
	Pool   uint16
	Prefix netip.Prefix
	Table  []uint16 // surrogates
}

// zoneTable is the number of one of the tables of zones, after those of the pools.
func zoneTable(i int) uint16 { return uint16(MaxPools + i) }

// zoneTables returns the different tables of zones, and which of them each zone has: zones are many more than tables.
func zoneTables(zones []Zone) (tables [][]uint16, of []int) {
	known := make(map[string]int)
	for _, z := range zones {
		var key []byte
		for _, surrogate := range z.Table {
			key = binary.BigEndian.AppendUint16(key, surrogate)
		}
		i, ok := known[string(key)]
		if !ok {
			i = len(tables)
			known[string(key)] = i
			tables = append(tables, z.Table)
		}
		of = append(of, i)
	}
	return tables, of
}

func (r *Router) writeZones(generation uint32, zones []Zone) error {
	tables, which := zoneTables(zones)
	if len(tables) > MaxZoneTables || len(zones) > MaxZones {
		return fmt.Errorf("set zones: %d with %d different tables, at most %d with %d", len(zones), len(tables), MaxZones, MaxZoneTables)
	}
	for i, table := range tables {
		if err := r.writeTable(generation, zoneTable(i), table); err != nil {
			return err
		}
	}
	want := make(map[routerZoneKey]uint32)
	for i, z := range zones {
		bits := z.Prefix.Bits()
		if z.Prefix.Addr().Is4() {
			bits += 96
		}
		k := routerZoneKey{Prefixlen: uint32(32 + bits), Pool: poolPlace(generation, z.Pool), Addr: z.Prefix.Masked().Addr().As16()}
		want[k] = tablePlace(generation, zoneTable(which[i]))
	}
	of := func(k *routerZoneKey) bool { return k.Pool/uint32(MaxPools) == generation }
	if err := replace(r.maps.Zones, want, of); err != nil {
		return fmt.Errorf("set zones: %w", err)
	}
	return nil
}
