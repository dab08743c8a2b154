package datapath

import (
	"testing"

	"baton/packet"
	"baton/splice"
)

// hops is how often the kernel may repeat a packet that came with the largest TTL.
const hops = 250

// BenchmarkTranslate is the time of one translated packet in the kernel, without its way in and out. The ends are chosen
// so that a packet is translated into itself: the kernel repeats it as it came out.
func BenchmarkTranslate(b *testing.B) {
	sack := packet.Options{}.AppendNOP(2).AppendTimestamps(1, 2).AppendNOP(2).AppendSACK(packet.SACKBlock{Left: 5, Right: 9})
	for _, f := range families {
		client, server := f.legs()
		server.Peer, server.Local = client.Local, client.Peer
		server.SndNxt, server.RcvNxt = client.RcvNxt, client.SndNxt
		for _, c := range []struct {
			name string
			from splice.Leg
			spec packet.Spec
		}{
			{"ACK", client, f.fromClient("")},
			{"SACK", client, packet.Spec{Options: sack}},
			{"segment", server, f.fromSurrogate(string(make([]byte, 1400)))},
		} {
			b.Run(f.name+"/"+c.name, func(b *testing.B) {
				k := newRig(b)
				s := spliceOf(client, server)
				s.ClientRequests, s.TsToServer, s.TsToClient = 2, 0, 0
				k.put(0, s)
				c.spec.Src, c.spec.Dst, c.spec.TTL = c.from.Peer, c.from.Local, 255
				c.spec.Seq, c.spec.Ack, c.spec.Flags = c.from.RcvNxt, c.from.SndNxt, packet.ACK
				k.repeat(b, packet.Build(c.spec))
			})
		}
	}
}

func (k *rig) repeat(b *testing.B, frame []byte) {
	translated := func() uint64 {
		counts := k.counts()
		return counts[routerVerdictTO_SERVER] + counts[routerVerdictTO_CLIENT]
	}
	before := translated()
	var ns float64
	n := 0
	for n < b.N {
		_, each, err := k.programs.RouterIngress.Benchmark(frame, hops, nil)
		if err != nil {
			b.Fatal(err)
		}
		ns += float64(each.Nanoseconds()) * hops
		n += hops
	}
	if got := translated() - before; got < uint64(n) { // a repetition may be interrupted and run anew
		b.Fatalf("%d of %d packets were translated", got, n)
	}
	b.ReportMetric(ns/float64(n), "ns/packet")
	b.ReportMetric(0, "ns/op")
}
