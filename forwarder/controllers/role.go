package controllers

import "baton/openflow"

// fence rejects outdated role requests: each change of master needs a higher generation id [6.3.6].
type fence struct {
	set        bool
	generation uint64 // the highest, modulo 2^64
}

// pass reports whether a generation is current, and stores it.
func (f *fence) pass(generation uint64) bool {
	if f.set && int64(generation-f.generation) < 0 {
		return false
	}
	f.set, f.generation = true, generation
	return true
}

// latest is the generation for a reply: all ones if there is none [7.3.9].
func (f *fence) latest() uint64 {
	if !f.set {
		return ^uint64(0)
	}
	return f.generation
}

// roleRequest changes a controller's role, and demotes the previous master.
func (c *Channel) roleRequest(xid uint32, m *openflow.RoleRequest) error {
	fence := &c.all.fence
	switch {
	case m.Role == openflow.RoleNochange:
	case c.origin.peers.ReadOnly && m.Role != openflow.RoleSlave:
		return fault(openflow.RoleRequestFailedUnsup, "7.3.9", "%v, but the configuration says slave", m.Role)
	case m.Role == openflow.RoleEqual:
		c.become(m.Role)
	case !fence.pass(m.Generation):
		return fault(openflow.RoleRequestFailedStale, "6.3.6", "generation %d after %d", m.Generation, fence.generation)
	case m.Role == openflow.RoleSlave:
		c.become(m.Role)
	default:
		for _, other := range *c.all.channels.Load() {
			if other != c && other.Role() == openflow.RoleMaster {
				other.become(openflow.RoleSlave)
			}
		}
		c.become(m.Role)
	}
	c.Reply(xid, &openflow.RoleReply{Role: c.Role(), Generation: fence.latest()})
	return nil
}

func (c *Channel) become(r openflow.Role) {
	c.mu.Lock()
	before := c.role
	c.role = r
	c.mu.Unlock()
	if before != r {
		c.all.log.Info("role changed", "channel", c.String(), "from", before.String(), "to", r.String())
	}
}

// writes reports whether a message sends packets or changes the forwarder, which slaves must not [6.3.6].
func writes(m openflow.Message) bool {
	switch m := m.(type) {
	case *openflow.PacketOut, *openflow.FlowMod, *openflow.GroupMod, *openflow.MeterMod, *openflow.PortMod, *openflow.TableMod,
		*openflow.BundleControl, *openflow.BundleAdd:
		return true
	case *openflow.MultipartRequest:
		body, ok := m.Body.(openflow.TableFeaturesBody)
		return ok && (len(body) > 0 || m.Flags&openflow.MultipartMore != 0)
	}
	return false
}
