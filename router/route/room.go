package route

import (
	"fmt"
	"math/bits"

	"baton/document"
	"baton/router/config"
)

// Room is the size of the kernel's tables.
type Room struct {
	Hosts    int
	Prefixes int
}

// RoomFor returns the room of a data path that is made for this configuration.
func RoomFor(cfg *config.Config) Room {
	return Room{Hosts: hostRoom(countHosts(cfg)), Prefixes: MaxPrefixes}
}

// RoomOf returns the room of a data path with so many hosts.
func RoomOf(hosts int) Room { return Room{Hosts: hosts, Prefixes: MaxPrefixes} }

// hostRoom is the size of a host table for so many hosts: twice as many may come by reloads. A table costs 32 bytes
// for each of its places, used or not, so that it is no larger than that.
func hostRoom(hosts int) int {
	return min(max(LeastHosts, 1<<bits.Len(uint(max(2*hosts, 1)-1))), MaxHosts)
}

// countHosts counts the hosts that the kernel looks up.
func countHosts(cfg *config.Config) int {
	count := 0
	for i := range cfg.VIPs {
		v := vip{encrypted: cfg.VIPs[i].Protocol.Encrypted()}
		if cfg.VIPs[i].Mode != config.Handoff || cfg.VIPs[i].Protocol == config.QUIC {
			continue
		}
		known := make(map[string]bool)
		for j := range cfg.VIPs[i].Routes {
			if name := v.lookedUp(&rule{match: cfg.VIPs[i].Routes[j].Match}); name != "" {
				known[name] = true
			}
		}
		count += len(known)
	}
	return count
}

// LeftOut is a VIP of which the tables do not hold everything. User space decides those requests.
type LeftOut struct {
	VIP    int  // index in Config.VIPs
	Hosts  int  // hosts, or names in hellos
	Others bool // hosts that no route names, too
}

// Count is the number of hosts, and 1 for others.
func (l *LeftOut) Count() int {
	if l.Others {
		return l.Hosts + 1
	}
	return l.Hosts
}

// Warnings say for which hosts the kernel's tables have no room, a line for each VIP.
func (k *Kernel) Warnings(cfg *config.Config) []string {
	var out []string
	for _, l := range k.LeftOut {
		what := fmt.Sprintf("%d hosts", l.Hosts)
		switch {
		case l.Hosts == 0:
			what = "hosts that no route names"
		case l.Others:
			what += ", and to hosts that no route names,"
		}
		problem := fmt.Sprintf("requests to %s are decided in user space: "+
			"the kernel's tables hold %d hosts, %d with different routes at a VIP, and %d prefixes",
			what, k.room.Hosts, maxClasses, k.room.Prefixes)
		remedy := "several VIPs or routers"
		if k.room.Hosts < RoomFor(cfg).Hosts {
			remedy = "`baton router cleanup` before the next start, for a larger table"
		}
		out = append(out, cfg.Places.Wrong(document.Index("vips", l.VIP)+".routes", problem, remedy).Error())
	}
	return out
}
