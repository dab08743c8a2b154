package choose

import (
	"net/netip"

	"baton/router/config"
)

// ZoneTable is the table for the clients of a prefix. The longest prefix that contains the client applies.
type ZoneTable struct {
	Prefix netip.Prefix
	Table  []uint16
}

// Nearest returns a table for each zone, in order: the first available surrogate of its list; if none is available, all available
// ones, round-robin. Clients of no zone use Table(config.Nearest, ...).
func Nearest(zones []config.Zone, candidates []Candidate) []ZoneTable {
	index := make(map[string]int, len(candidates))
	for i, c := range candidates {
		index[c.Name] = i
	}
	anywhere := eligible(candidates)
	out := make([]ZoneTable, len(zones))
	for z, zone := range zones {
		out[z] = ZoneTable{Prefix: zone.Prefix, Table: anywhere}
		for _, name := range zone.Surrogates {
			if i, ok := index[name]; ok && candidates[i].Excluded() == "" {
				out[z].Table = []uint16{uint16(i)}
				break
			}
		}
	}
	return out
}

// ZoneOf returns the index of the zone with the longest prefix that contains the client, -1 if none does.
func ZoneOf(zones []config.Zone, client netip.Addr) int {
	client = client.Unmap().WithZone("")
	best := -1
	for i, z := range zones {
		if z.Prefix.Contains(client) && (best < 0 || z.Prefix.Bits() > zones[best].Prefix.Bits()) {
			best = i
		}
	}
	return best
}
