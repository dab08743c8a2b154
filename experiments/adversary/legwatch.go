package adversary

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"sync"

	"baton/experiments/adversary/script"
	"baton/lab"
	"baton/packet"
)

// legWatch tracks the sequence numbers of a surrogate's connections, as seen on its interface.
type legWatch struct {
	site *site

	mu     sync.Mutex
	legs   map[netip.AddrPort]*leg // by the router's end
	tokens map[string]*leg         // the last connection of a token
}

// leg is a connection of the adversary's surrogate, with its own numbers: nxt is the next one of its kernel.
type leg struct {
	router   netip.AddrPort
	nxt, una uint32
	rcv      uint32
	window   uint32
	stamp    uint32 // the last that its kernel has sent
	echo     uint32 // and the last that came
	stamps   bool
}

// mostTokens bounds the memory.
const mostTokens = 20_000

func watchLegs(s *site) *legWatch {
	w := &legWatch{site: s, legs: map[netip.AddrPort]*leg{}, tokens: map[string]*leg{}}
	s.side.Capture(lab.CaptureOptions{Each: func(p lab.Packet) { w.take(p) }})
	return w
}

func (w *legWatch) take(p lab.Packet) {
	f, err := packet.Parse(p.Data)
	if err != nil || f.Protocol != packet.ProtocolTCP {
		return
	}
	tcp := f.TCP()
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Outgoing && f.Src == w.site.address {
		l := w.leg(f.Dst)
		if end := uint32(tcp.Seq()) + segmentLength(f); int32(end-l.nxt) > 0 && len(f.Payload()) != 1 || tcp.Flags().Has(packet.SYN) {
			l.nxt = end
		}
		if val, _, ok := tcp.Options().Timestamps(); ok {
			l.stamp, l.stamps = val, true
		}
		return
	}
	if f.Dst != w.site.address {
		return
	}
	if tcp.Flags().Has(packet.SYN) {
		delete(w.legs, f.Src) // another connection on the same ports
	}
	l := w.leg(f.Src)
	l.rcv = uint32(tcp.Seq()) + segmentLength(f)
	l.una, l.window = uint32(tcp.Ack()), uint32(tcp.Window())<<10
	if val, _, ok := tcp.Options().Timestamps(); ok {
		l.echo = val
	}
	if token := evilToken(f.Payload()); token != "" {
		if len(w.tokens) > mostTokens {
			clear(w.tokens)
		}
		w.tokens[token] = l
	}
}

func (w *legWatch) leg(router netip.AddrPort) *leg {
	l := w.legs[router]
	if l == nil {
		l = &leg{router: router}
		w.legs[router] = l
	}
	return l
}

// evilToken is the first token of the adversary in a payload.
func evilToken(b []byte) string {
	at := bytes.Index(b, []byte(script.EvilMark))
	if at < 0 {
		return ""
	}
	end := at + len(script.EvilMark)
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	return string(b[at:end])
}

// of is the current state of a token's connection.
func (w *legWatch) of(token string) (leg, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.tokens[token]
	if l == nil {
		return leg{}, false
	}
	return *l, true
}

func (l leg) number(n script.Number, sent bool, random *rand.Rand) uint32 {
	base := l.nxt
	if !sent {
		base = l.rcv
	}
	switch n.From {
	case script.Random:
		base = random.Uint32()
	case script.Zero:
		base = 0
	case script.Oldest, script.First:
		if sent {
			base = l.una
		}
	case script.End:
		base = l.una + l.window
	}
	return base + uint32(n.Plus)
}
