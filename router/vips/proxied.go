package vips

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"baton/api"
	"baton/router/config"
	"baton/router/outcome"
)

// warnEvery is how often the log says again that connections come in on an interface that is not one of the VIP's.
const warnEvery = 10 * time.Minute

// proxied counts what the socket of a VIP proxies.
type proxied struct {
	live     atomic.Int64 // connections
	requests atomic.Uint64

	mu          sync.Mutex
	connections map[outcome.Outcome]uint64
	strange     map[string]time.Time // interfaces that are not the VIP's: when the log said so last
}

// newProxied makes a count. Of a VIP that is spliced, reasons that tell of a mistake are there from the start, so that
// their first increase is one for Prometheus, too.
func newProxied(mode config.Mode) *proxied {
	p := &proxied{connections: make(map[outcome.Outcome]uint64), strange: make(map[string]time.Time)}
	if mode == config.Handoff {
		for _, why := range outcome.Shortages {
			p.connections[why] = 0
		}
	}
	return p
}

func (p *proxied) countConnection(why outcome.Outcome) {
	p.live.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections[why]++
}

// noteInterface reports whether it is time to warn of an interface that is not one of the VIP's.
func (p *proxied) noteInterface(name string, now time.Time) (warn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, known := p.strange[name]; known && now.Sub(last) < warnEvery {
		return false
	}
	p.strange[name] = now
	return true
}

func (p *proxied) describeStatus() *api.RouterProxied {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &api.RouterProxied{
		Live: int(p.live.Load()), Requests: p.requests.Load(), Connections: make(map[string]uint64),
		Interfaces: slices.Sorted(maps.Keys(p.strange)),
	}
	for why, n := range p.connections {
		s.Connections[string(why)] = n
	}
	return s
}

// ProxiedStatus returns what the socket of a VIP proxies; nil for a VIP without one, or of a mode that proxies nothing
// or counts by itself.
func (s *Servers) ProxiedStatus(vip netip.AddrPort) *api.RouterProxied {
	l := s.get(vip)
	if l == nil || !countsProxied(l.kind.mode) {
		return nil
	}
	return l.proxied.describeStatus()
}

func countsProxied(mode config.Mode) bool { return mode == config.Handoff || mode == config.Proxy }

// findReason returns the reason for which the socket of a VIP proxies a connection; "" if it does something else.
func (s *Servers) findReason(vip, client netip.AddrPort, c syscall.Conn, p *proxied) outcome.Outcome {
	v := s.o.Snapshot().VIP(vip)
	switch {
	case v == nil || !countsProxied(v.Mode):
		return ""
	case v.Mode == config.Proxy:
		return outcome.Mode
	}
	if why := s.o.TakeReason(client, vip); why.IsProxied() {
		return why
	} else if why != "" {
		return ""
	}
	now := time.Now()
	ifindex, err := incomingInterface(c)
	if err != nil {
		s.o.Log.Debug("cannot tell why a connection is proxied", "vip", vip, "client", client, "err", err)
		return outcome.Proxied
	}
	name, isOwn := s.devices.lookUp(ifindex, client.Addr(), now)
	switch {
	case isOwn: // such packets seem to come in on the interface that has the VIP
		return outcome.LocalClient
	case name == "", slices.Contains(s.o.Attached(), ifindex):
		return outcome.Proxied // it was decided long ago, or for too many others
	}
	if p.noteInterface(name, now) {
		s.o.Log.Warn(fmt.Sprintf("connections for VIP %v come in on %s, which is not in its interfaces: proxied", vip, name),
			"interfaces", v.Interfaces)
	}
	return outcome.Interface
}
