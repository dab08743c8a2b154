package controller

import (
	"fmt"
	"slices"
	"time"

	"baton/controller/store"
	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

const (
	// hostLease is how long after it was last recorded a host is believed to be where it was, by a controller that starts.
	hostLease = 24 * time.Hour
	// hostRenewal is between renewals of the leases of hosts that are seen: one write an hour for a host, not one a frame.
	hostRenewal = time.Hour
)

// recordHosts writes the places of hosts that have changed to the store: they cannot be derived from the switches with
// their addresses. What a slave learns stays in the topology, from which renewHosts writes it when it is the master.
func (c *Controller) recordHosts() {
	c.mu.Lock()
	moved, left := c.moved, c.left
	c.moved, c.left = map[packet.MAC]topology.Host{}, map[packet.MAC]bool{}
	c.mu.Unlock()
	if !c.store.Term().Master {
		return // also of a host that has left: a slave misses the frames of hosts, and may be wrong
	}
	now := time.Now()
	for _, h := range moved {
		c.recordHost(h, now)
	}
	for mac := range left {
		c.store.Hosts.Forget(mac.String())
	}
}

func (c *Controller) recordHost(h topology.Host, now time.Time) {
	c.store.Hosts.Record(store.Host{
		MAC: h.MAC.String(), Addresses: h.Addresses, At: at(h.At), Until: now.Add(hostLease),
	})
}

// renewHosts brings the store up to date with the hosts that are seen, and removes the records whose lease has ended.
// It does nothing unless this controller is the master.
func (c *Controller) renewHosts(now time.Time) {
	if !c.store.Term().Master {
		return
	}
	var hosts []topology.Host
	c.network.View(func(g *topology.Graph) { hosts = g.Hosts() })
	for _, h := range hosts {
		record, known := c.store.Hosts.Get(h.MAC.String())
		if !h.Presumed && (!known || needsRecord(h, record, now)) {
			c.recordHost(h, now)
		}
	}
	if expired := c.store.ExpireHosts(now); expired > 0 {
		c.log.Info("records of hosts have expired", "records", expired)
	}
}

// needsRecord tells whether a host is recorded otherwise, or with a lease to be renewed. The topology drops a
// host that it does not hear, so a host in it is alive. Another master may have recorded another place since it was heard.
func needsRecord(h topology.Host, record store.Host, now time.Time) bool {
	if record.At != at(h.At) || !slices.Equal(record.Addresses, h.Addresses) {
		return h.Seen.After(record.Until.Add(-hostLease))
	}
	return record.Until.Sub(now) < hostLease-hostRenewal
}

// remembered returns the hosts of the store whose lease has not ended.
func (c *Controller) remembered() []topology.Host {
	var all []topology.Host
	for _, h := range c.store.Hosts.All() {
		var m packet.MAC
		var dpid uint64
		_, err := fmt.Sscanf(h.MAC, "%02x:%02x:%02x:%02x:%02x:%02x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5])
		if err != nil {
			continue
		}
		if _, err := fmt.Sscanf(h.At.Switch, "%x", &dpid); err != nil || time.Now().After(h.Until) {
			continue
		}
		place := topology.Point{Switch: dpid, Port: openflow.PortNo(h.At.Port)}
		all = append(all, topology.Host{MAC: m, Addresses: h.Addresses, At: place})
	}
	return all
}
