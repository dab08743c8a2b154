package router

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// command runs c, followed by keys.
func (r *Router) command(c routerSpliceCommand, keys ...routerSynOptionsKey) (changed int, err error) {
	if err := datapath.Command(r.programs.RouterCommand, &c, keys); err != nil {
		return 0, fmt.Errorf("command %d: %w", c.Kind, err)
	}
	return int(c.Result), nil
}

// CompleteLegs makes answered legs of a surrogate idle. The caller sends the ACK of their SYN-ACKs afterwards, by the numbers that are
// returned, in the same order: a packet of a client that is faster is an ACK, too. Those in another state by now, or of another surrogate,
// have state Free.
func (r *Router) CompleteLegs(surrogate uint16, legs []Leg) ([]Splice, error) {
	done := make([]Splice, len(legs))
	for first := 0; first < len(legs); first += int(routerBoundCOMMAND_KEYS) {
		some := make([]routerCompletion, min(len(legs)-first, int(routerBoundCOMMAND_KEYS)))
		for i := range some {
			some[i].Splice = legs[first+i].Number
		}
		c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_COMPLETE), Count: uint32(len(some)), Surrogate: uint32(surrogate)}
		if err := datapath.Command(r.programs.RouterCommand, &c, some); err != nil {
			return done, fmt.Errorf("complete legs: %w", err)
		}
		for i, k := range some {
			if k.Done != 0 {
				l := legs[first+i]
				done[first+i] = Splice{
					Number: l.Number, State: Idle, Class: k.LegClass, Surrogate: surrogate, Server: l.Server, Router: l.Router, Ifindex: l.Ifindex,
					SndNxt: k.SndNxt, SndUna: k.SndNxt, RcvNxt: k.RcvNxt, TSServer: k.TsServer, ServerMSS: k.ServerMss,
					Timestamps: k.Flags&uint32(routerSpliceFlagSPLICE_TS) != 0, WScale: k.Flags&uint32(routerSpliceFlagSPLICE_SERVER_WSCALE) != 0,
				}
			}
		}
	}
	return done, nil
}

// Retire makes an idle leg dead, so that no client gets it. False: it was not idle, or belongs to another surrogate.
func (r *Router) Retire(number uint32, surrogate uint16) (bool, error) {
	n, err := r.command(routerSpliceCommand{
		Kind: uint16(routerCommandKindCOMMAND_RETIRE), First: number, Surrogate: uint32(surrogate),
	})
	return n > 0, err
}

// Pending is a client whose request user space decides.
type Pending struct {
	MSS        uint16
	Timestamps bool
	SACK       bool
	WScale     int // -1: none
	Ifindex    int
	Seq        packet.Seq // start of the request
	Ack        packet.Seq // what the request's first packet acknowledges
	First      bool       // nothing on its connection has been answered: each packet of it acknowledges Ack
	Proxy      bool       // its pool wants fields in the request, which cannot be inserted: the proxy has to send it
	Decided    bool       // the kernel has the decision, and has not used it yet, or no packet has met the socket since
}

func (p Pending) class(mss []uint16) uint8 {
	var best uint8
	for i, m := range mss {
		if m <= p.MSS {
			best = uint8(i)
		}
	}
	class := best << 1
	if p.Timestamps {
		class |= 1
	}
	return class
}

// Class is the leg class that fits the client, chosen as the kernel does.
func (p Pending) Class(mss []uint16) uint8 { return p.class(mss) }

// Pending reads the client of an upcall.
func (r *Router) Pending(client, vip netip.AddrPort) (Pending, error) {
	var k routerClient
	if err := r.maps.Clients.Lookup(tuple(client, vip), &k); err != nil {
		return Pending{}, fmt.Errorf("read pending client %v: %w", client, err)
	}
	p := Pending{
		MSS:        k.Mss,
		Timestamps: k.Flags&uint8(routerClientFlagCLIENT_TS) != 0,
		SACK:       k.Flags&uint8(routerClientFlagCLIENT_SACK) != 0,
		WScale:     -1,
		Ifindex:    int(k.Ifindex),
		Seq:        packet.Seq(k.Seq),
		Ack:        packet.Seq(k.Ack),
		First:      k.Flags&uint8(routerClientFlagCLIENT_FIRST) != 0,
		Proxy:      k.Flags&uint8(routerClientFlagCLIENT_PROXY) != 0,
		Decided:    k.State == uint8(routerClientStateCLIENT_SPLICE) || k.State == uint8(routerClientStateCLIENT_LOCAL),
	}
	if k.Flags&uint8(routerClientFlagCLIENT_WSCALE) != 0 {
		p.WScale = int(k.Wscale)
	}
	return p, nil
}

// Decision is user space's decision on a client's request.
type Decision struct {
	Local     bool // an ordinary socket takes the connection
	Surrogate uint16
	Pool      uint16
	Method    uint8
	Request   uint64 // length of the request in bytes; if chunked, of its head
	Chunked   bool
	Bound     bool // it authenticates its connection
	Upgrade   bool // it carries Upgrade
	Opaque    bool // the session is not HTTP
	Edit      Edit // in place of the pool's
	Keep      bool // on Leg, which was opened for the client: it has its address and port
	Leg       uint32
}

// ErrNoUpcall is returned by Decide when the client no longer waits for this decision: it has reset its session, or started
// another one on the same port.
var ErrNoUpcall = errors.New("client does not wait for a decision")

// Decide records the decision on the request that begins at seq. The request's packets find it when they are replayed through the
// tap.
func (r *Router) Decide(client, vip netip.AddrPort, seq packet.Seq, d Decision) error {
	key := tuple(client, vip)
	header, err := r.headerFor(d.Edit)
	if err != nil {
		return fmt.Errorf("decide for %v: %w", client, err)
	}
	var k routerClient
	if err := r.maps.Clients.Lookup(key, &k); err != nil {
		return fmt.Errorf("decide for %v: %w: %w", client, ErrNoUpcall, err)
	}
	if routerClientState(k.State) != routerClientStateCLIENT_UPCALL || k.Seq != uint32(seq) {
		return fmt.Errorf("decide for %v: %w", client, ErrNoUpcall)
	}
	k.State = uint8(routerClientStateCLIENT_SPLICE)
	if d.Local {
		k.State = uint8(routerClientStateCLIENT_LOCAL)
	}
	k.Surrogate, k.Pool, k.Method, k.Request, k.Chunked = d.Surrogate, d.Pool, d.Method, d.Request, 0
	k.Header = header
	if k.Leg = 0; d.Keep {
		k.Leg = d.Leg + 1
	}
	if d.Chunked {
		k.Chunked = 1
	}
	k.Flags &^= uint8(routerClientFlagCLIENT_BOUND | routerClientFlagCLIENT_UPGRADE | routerClientFlagCLIENT_OPAQUE)
	if d.Bound {
		k.Flags |= uint8(routerClientFlagCLIENT_BOUND)
	}
	if d.Upgrade {
		k.Flags |= uint8(routerClientFlagCLIENT_UPGRADE)
	}
	if d.Opaque {
		k.Flags |= uint8(routerClientFlagCLIENT_OPAQUE)
	}
	c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_DECIDE)}
	if err := datapath.Command(r.programs.RouterCommand, &c, []routerDecided{{Client: key, Entry: k}}); err != nil {
		return fmt.Errorf("decide for %v: %w", client, err)
	}
	if c.Result == 0 {
		return fmt.Errorf("decide for %v: %w", client, ErrNoUpcall)
	}
	return nil
}

// ForgetUpcall drops the state of a client whose request, which begins at seq, waits for a decision: it has given up.
func (r *Router) ForgetUpcall(client, vip netip.AddrPort, seq packet.Seq) {
	c := routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_FORGET_UPCALLS), Count: 1}
	_, _ = r.command(c, routerSynOptionsKey{Client: tuple(client, vip), Seq: uint32(seq)}) // else it expires
}

// KeepName stores the name in a client's hello, as it was sent, for the header of the PROXY protocol, before Decide. One that does not fit
// is left out.
func (r *Router) KeepName(client, vip netip.AddrPort, name string) {
	var a routerAuthority
	if len(name) > len(a.Name) {
		return
	}
	a.Len = uint16(copy(a.Name[:], name))
	_ = r.maps.HelloNames.Update(tuple(client, vip), &a, ebpf.UpdateAny) // full: see hello_names
}

// ForgetClient drops the state of a client without a splice: its pending request, or its assignment to a socket.
func (r *Router) ForgetClient(client, vip netip.AddrPort) {
	key := tuple(client, vip)
	_ = r.maps.Clients.Delete(key)
	_ = r.maps.LogHeads.Delete(key)
	_ = r.maps.HelloNames.Delete(key)
	var f routerFlow
	if r.maps.Flows.Lookup(key, &f) == nil && routerSide(f.Side) == routerSideSIDE_LOCAL {
		_ = r.maps.Flows.Delete(key)
	}
}

// ForgetLocal drops every connection of an earlier process's sockets.
func (r *Router) ForgetLocal() error {
	var (
		key  routerTuple
		f    routerFlow
		gone []routerTuple
	)
	it := r.maps.Flows.Iterate()
	for it.Next(&key, &f) {
		if routerSide(f.Side) == routerSideSIDE_LOCAL {
			gone = append(gone, key)
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("forget local connections: %w", err)
	}
	for _, key := range gone {
		_ = r.maps.Flows.Delete(key)
	}
	return nil
}
