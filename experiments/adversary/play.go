package adversary

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"baton/experiments/adversary/script"
	"baton/packet"
)

// atOnce is the number of concurrent scripts.
const atOnce = 6

// firstPort is the first of the adversary's ports. There are few, so that they are reused.
const (
	firstPort = 30_000
	evilPorts = 40
)

// played numbers the sessions of the adversary.
var played atomic.Uint64

// play plays all scripts, some concurrently.
func (n *network) play(ctx context.Context, scripts []script.Script) {
	var wg sync.WaitGroup
	queue := make(chan script.Script)
	for range atOnce {
		wg.Go(func() {
			for s := range queue {
				n.playOne(ctx, s)
			}
		})
	}
	for _, s := range scripts {
		for i := range max(s.Times, 1) {
			if s.Hold {
				break
			}
			once := s
			once.Seed += uint64(i) * 0x9e3779b97f4a7c15
			queue <- once
		}
		if s.Hold {
			n.hold(ctx, s)
		}
	}
	close(queue)
	wg.Wait()
}

// hold plays a script many times without ending its sessions, and ends them afterwards.
func (n *network) hold(ctx context.Context, s script.Script) {
	var open []*player
	for i := range max(s.Times, 1) {
		p := n.player(s, s.Seed+uint64(i))
		p.steps(ctx)
		open = append(open, p)
	}
	pause(300 * time.Millisecond)
	for _, p := range open {
		p.end()
	}
}

func (n *network) playOne(ctx context.Context, s script.Script) {
	p := n.player(s, s.Seed)
	p.steps(ctx)
	p.end()
}

// player plays one script.
type player struct {
	*network
	script  script.Script
	random  *rand.Rand
	number  uint64
	session *session // the client's; nil: it has not opened one
}

func (n *network) player(s script.Script, seed uint64) *player {
	n.ledger.scripts.Add(1)
	return &player{network: n, script: s, random: rand.New(rand.NewPCG(seed, 0x706c)), number: played.Add(1)}
}

func (p *player) end() {
	if p.session != nil {
		p.session.farewell()
	}
}

func (p *player) steps(ctx context.Context) {
	for _, step := range p.script.Steps {
		if ctx.Err() != nil {
			return
		}
		if step.Do != script.Take {
			pause(step.Wait())
		}
		p.step(step)
	}
}

func (p *player) step(step script.Step) {
	switch step.By {
	case script.AsInnocent, script.AsSurrogate:
		p.blind(step)
		return
	case script.BySurrogate:
		p.bySurrogate(step)
		return
	}
	if step.Do == script.Open {
		p.open(step)
		return
	}
	if p.session == nil {
		return
	}
	switch step.Do {
	case script.Send:
		p.session.send(step)
	case script.Take:
		p.session.await(step.Wait())
		p.session.acknowledge(0)
	case script.Leave:
		p.session.leave()
	case script.ICMP:
		p.icmp(step, p.vipOf(step), p.session.local, p.session.quoted(step.Seq))
	}
}

func (p *player) vipOf(step script.Step) netip.AddrPort {
	if step.Proxy {
		return proxyVIP
	}
	return handoffVIP
}

// open starts a session on an address and port that may have been used before.
func (p *player) open(step script.Step) {
	p.end()
	local := netip.AddrPortFrom(evilAddress(int(p.number)), firstPort+uint16(p.number/evils%evilPorts))
	token := fmt.Sprintf("%s%d", script.EvilMark, p.number)
	if p.script.Lies() {
		p.ledger.lies(token)
	}
	p.session = p.crowd.session(local, p.vipOf(step), token, p.random, p.script)
	p.session.connect(step)
}

// quoted is a number sent by the VIP.
func (s *session) quoted(n script.Number) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.From == script.Random {
		return s.random.Uint32()
	}
	return s.rcv + uint32(n.Plus)
}

// icmp sends "fragmentation needed" about an alleged packet of the VIP.
func (p *player) icmp(step script.Step, vip, client netip.AddrPort, seq uint32) {
	quote := packet.Build(packet.Spec{Src: vip, Dst: client, Seq: packet.Seq(seq), Ack: packet.Seq(p.random.Uint32()), Flags: packet.ACK | packet.PSH,
		Window: 1000, DontFragment: true, Payload: make([]byte, 1400)})
	quote = quote[packet.EthernetSize:][:packet.IPv4Size+packet.TCPSize+8]
	p.wire.put(packet.BuildICMP(packet.ICMPSpec{Src: client.Addr(), Dst: vip.Addr(), Type: packet.ICMPv4Unreachable,
		Code: packet.ICMPv4CodeFragNeeded, MTU: uint32(step.Size), Quote: quote}), step.VLAN)
	p.ledger.segments.Add(1)
}

// blind sends with a spoofed address. On the surrogates' side the adversary's surrogate does.
func (p *player) blind(step script.Step) {
	w := p.wire
	if p.script.Class == script.Surrogate {
		w = p.innerWay
	}
	for range max(step.Times, 1) {
		src, dst, ok := p.victim(step)
		if !ok {
			return
		}
		if step.Do == script.ICMP {
			if step.By == script.AsSurrogate { // about a packet of the router to its surrogate
				src, dst = dst, src
			}
			p.icmp(step, dst, src, p.random.Uint32())
			continue
		}
		spec := packet.Spec{Src: src, Dst: dst, Flags: step.FlagBits(), Window: step.Window, Urgent: step.Urgent,
			Seq: packet.Seq(p.random.Uint32()), Ack: packet.Seq(p.random.Uint32())}
		if step.Ack.IsZero() {
			spec.Ack = 0
		}
		spec.Options = appendStamps(nil, step.Stamps, p.random.Uint32(), p.random.Uint32(), p.random)
		if step.BadSum {
			spec.Checksum = packet.SumWrong
		}
		p.cut(w, spec, step.Payload("", p.random), step.VLAN)
	}
}

// victim is the spoofed address, and the target.
func (p *player) victim(step script.Step) (src, dst netip.AddrPort, ok bool) {
	if step.By == script.AsInnocent {
		src, ok = p.census.nth(step.Whom, p.random.Uint32())
		dst = handoffVIP
		if step.Whom == script.Proxied {
			dst = proxyVIP
		}
		return src, dst, ok
	}
	s := p.sites[p.random.IntN(len(p.sites)-1)] // but the adversary's own
	ports, err := s.legPorts()
	if err != nil || len(ports) == 0 {
		return src, dst, false
	}
	return s.address, ports[p.random.IntN(len(ports))], true
}

// bySurrogate sends on the connection on which this session's request has reached the adversary's surrogate.
func (p *player) bySurrogate(step script.Step) {
	if p.session == nil {
		return
	}
	var l leg
	for deadline := time.Now().Add(30 * time.Millisecond); ; pause(time.Millisecond) {
		var ok bool
		if l, ok = p.legs.of(p.session.token); ok {
			break
		}
		if time.Now().After(deadline) {
			return
		}
	}
	for range max(step.Times, 1) {
		spec := packet.Spec{Src: p.site("odd").address, Dst: l.router, Flags: step.FlagBits(), Window: step.Window, Urgent: step.Urgent,
			Seq: packet.Seq(l.number(step.Seq, true, p.random)), Ack: packet.Seq(l.number(step.Ack, false, p.random))}
		if l.stamps || step.Stamps != script.StampsRight {
			spec.Options = appendStamps(nil, step.Stamps, l.stamp, l.echo, p.random)
		}
		if step.BadSum {
			spec.Checksum = packet.SumWrong
		}
		p.cut(p.innerWay, spec, step.Payload(p.session.token, p.random), 0)
	}
}
