package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// Two CPUs serve their own clients on shared legs, while surrogates retransmit old bytes on all of them. No client gets another's
// bytes, and afterwards every leg is idle, in its queue once, and counted once.
func TestTwoProcessorsShareLegs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		const legs, each = 3, 1500
		k := newRig(t)
		k.vip(f)
		for n := range uint32(legs) {
			k.idle(n, f)
		}
		seed := kerneltest.Rand(t)
		var served [2]int
		var wg sync.WaitGroup
		for cpu := range 2 {
			p := &processor{rig: k, f: f, r: rand.New(rand.NewPCG(seed.Uint64(), 0)), legs: legs, port: uint16(1024 + 20000*cpu)}
			wg.Go(func() {
				for range each {
					ok, err := p.serve()
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						served[cpu]++
					}
				}
			})
		}
		wg.Wait()
		t.Logf("served %v of %d each", served, each)
		if served[0] < each/4 || served[1] < each/4 {
			t.Errorf("served %v of %d each", served, each)
		}
		n := k.surrogate(1)
		if n.Active != 0 || n.Idle[f.class()] != legs || n.Recycled != uint64(served[0]+served[1]) || n.Handoffs != n.Recycled {
			t.Errorf("counters: %+v", n)
		}
		queue := k.queued(1, f.class())
		slices.Sort(queue)
		if !slices.Equal(queue, []uint32{0, 1, 2}) {
			t.Errorf("queue: %v", queue)
		}
		for i := range uint32(legs) {
			if s := k.splice(i); State(s.State) != Idle || s.SndNxt != s.SndUna || s.Client != (routerTuple{}) {
				t.Errorf("leg %d: %+v", i, s)
			}
		}
	})
}

// ports is the number of ports per CPU's clients.
const ports = 32

// processor runs packets concurrently with others, so that it cannot use the counters of verdicts.
type processor struct {
	*rig
	f    family
	r    *rand.Rand
	legs int
	port uint16
}

func (p *processor) pass(s packet.Spec) (action uint32, out packet.Frame, err error) {
	opts := &ebpf.RunOptions{Data: packet.Build(s), DataOut: make([]byte, 2048)}
	action, err = p.programs.RouterIngress.Run(opts)
	if err != nil || action != actRedirect {
		return action, packet.Frame{}, err
	}
	out, err = packet.Parse(opts.DataOut)
	return action, out, err
}

// serve takes a client from its SYN to its FIN. False: there was no leg.
func (p *processor) serve() (bool, error) {
	p.port = p.port/ports*ports + (p.port+1)%ports // repeatedly: the flow table is small
	me := p.f
	me.client = datapath.AddrPort(me.client.Addr().As16(), datapath.BigEndian(p.port))
	c := newClient(p.rig, me, me.usual())
	c.seq = packet.Seq(p.r.Uint32())
	action, synack, err := p.pass(c.syn())
	if err != nil || action != actRedirect {
		return false, fmt.Errorf("SYN: action %d, %v", action, err)
	}
	p.handshake(synack.TCP().Seq(), c.rtt)
	c.seq, c.ack = c.seq+1, synack.TCP().Seq()+1
	c.tsecr, _, _ = synack.TCP().Options().Timestamps()
	action, out, err := p.pass(c.packet(packet.ACK, plainRequest))
	if err != nil || action != actRedirect {
		return false, err
	}
	c.seq += packet.Seq(len(plainRequest))
	if out.Dst != me.surrogate || string(out.Payload()) != plainRequest {
		return false, fmt.Errorf("request went to %v: %q", out.Dst, out.Payload())
	}
	p.repeatOldBytes()
	// the surrogate answers on the leg of the request
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%05d", p.port)
	val, ecr, _ := out.TCP().Options().Timestamps()
	action, got, err := p.pass(packet.Spec{
		SrcMAC: surrogateMAC, DstMAC: routerBackMAC, Src: out.Dst, Dst: out.Src, Seq: out.TCP().Ack(),
		Ack: out.TCP().Seq().Add(uint32(len(plainRequest))), Flags: packet.ACK, Window: 1000, Payload: []byte(response),
		Options: packet.Options{}.AppendNOP(2).AppendTimestamps(ecr+1, val),
	})
	if err != nil || action != actRedirect {
		return false, fmt.Errorf("response: action %d, %v", action, err)
	}
	if got.Dst != me.client || string(got.Payload()) != response || got.TCP().Seq() != c.ack {
		return false, fmt.Errorf("%v got for %v seq %d: %q", me.client, got.Dst, got.TCP().Seq(), got.Payload())
	}
	c.ack += packet.Seq(len(response))
	c.tsecr, _, _ = got.TCP().Options().Timestamps()
	p.repeatOldBytes()
	action, last, err := p.pass(c.packet(packet.ACK|packet.FIN, ""))
	if err != nil || action != actRedirect || last.Dst != me.surrogate || last.TCP().Flags() != packet.ACK {
		return false, fmt.Errorf("FIN: action %d, %v, %v", action, last.Dst, err)
	}
	c.seq, c.ack = c.seq+1, c.ack+1
	action, _, err = p.pass(c.packet(packet.ACK, ""))
	if err != nil || action != actShot {
		return false, fmt.Errorf("last ACK: action %d, %v", action, err)
	}
	return true, nil
}

// repeatOldBytes makes the surrogate retransmit old bytes on any leg. They never reach a client.
func (p *processor) repeatOldBytes() {
	n := uint16(p.r.IntN(p.legs))
	router := datapath.AddrPort(p.f.router.Addr().As16(), datapath.BigEndian(p.f.router.Port()+n))
	_, out, err := p.pass(packet.Spec{
		Src: p.f.surrogate, Dst: router, Seq: surrogateNext - packet.Seq(1+p.r.IntN(100000)), Ack: routerNext, Flags: packet.ACK,
		Window: 1000, Payload: []byte("old"), Options: packet.Options{}.AppendNOP(2).AppendTimestamps(1, 1),
	})
	if err != nil || out.Dst != p.f.surrogate || len(out.Payload()) != 0 {
		p.t.Errorf("old bytes: %v, %v, %q", err, out.Dst, out.Payload())
	}
}
