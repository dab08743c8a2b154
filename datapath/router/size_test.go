package router

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// A packet that does not fit the way out is dropped, and the sender hears of it: once, not of each of them.
func TestPacketsTooBig(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, toServer := range []bool{true, false} {
			k := newRig(t)
			client, server := f.legs()
			s := spliceOf(client, server)
			s.ToServer.Mtu, s.ToClient.Mtu, s.Told = 1300, 1300, datapath.Clock()-1000
			k.put(0, s)
			spec, sent := f.fromClient, routerVerdictTO_SERVER
			if !toServer {
				spec, sent = f.fromSurrogate, routerVerdictTO_CLIENT
			}
			headers := len(packet.Build(spec(""))) - packet.EthernetSize
			whole, over := strings.Repeat("x", 1300-headers), strings.Repeat("x", 1301-headers)
			events := k.events()
			k.want(packet.Build(spec(whole)), sent, actRedirect)
			k.put(0, s)
			events.none()
			for range 3 {
				k.want(packet.Build(spec(over)), routerVerdictDROP_TOO_BIG, actShot)
			}
			p := spec(over)
			events.want(Event{TooBig: TooBig{From: p.Src, To: p.Dst, Seq: uint32(p.Seq), MTU: 1300}})
		}
	})
}

// Of a packet that stands for several only the segments count.
func TestSegmentsTooBig(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		headers := len(packet.Build(f.fromClient(""))) - packet.EthernetSize
		frame := packet.Build(f.fromClient(strings.Repeat("x", 2400)))
		for size, want := range map[int]routerVerdict{
			1300 - headers: routerVerdictTO_SERVER, 1301 - headers: routerVerdictDROP_TOO_BIG,
		} {
			k := newRig(t)
			client, server := f.legs()
			s := spliceOf(client, server)
			s.ToServer.Mtu = 1300
			k.put(0, s)
			before := k.counts()
			_, err := k.programs.RouterIngress.Run(&ebpf.RunOptions{
				Data: frame, DataOut: make([]byte, len(frame)+512),
				Context: kerneltest.SKBuff{Ifindex: 1, IngressIfindex: 1, GSOSegs: 2, GSOSize: uint32(size)},
			})
			k.must(err)
			if n := k.counts()[want] - before[want]; n != 1 {
				t.Errorf("segments of %d bytes: no %v", size, Verdict(want))
			}
		}
	})
}

// The MSS of a client, and so the class of its legs, is what fits the way from here to the client, too.
func TestClientBehindANarrowInterface(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000, Tap: 1, MTU: 1400}))
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		c.send(packet.ACK, plainRequest, routerVerdictUPCALL, actRedirect)
		want := 1400 - (len(packet.Build(f.fromClient(""))) - packet.EthernetSize - 12)
		if p, ok := k.pending(f.client, f.vip); !ok || int(p.Mss) != want {
			t.Errorf("user space is told an MSS of %d, want %d", p.Mss, want)
		}
	})
}
