package router

import (
	"slices"
	"testing"
	"time"

	"baton/packet"
	"baton/splice"
)

// hops is how often the kernel may process a packet that starts with the largest TTL.
const hops = 250

// BenchmarkTranslate measures the translation of one packet in the kernel, without receiving and sending it. The legs are chosen
// so that the result equals the packet, which the kernel can process again and again.
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
	if got := translated() - before; got < uint64(n) { // a run may be interrupted and repeated
		b.Fatalf("%d of %d packets were translated", got, n)
	}
	b.ReportMetric(ns/float64(n), "ns/packet")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkExchange measures a keep-alive request and its response, each run alone, so that caches are as cold as between other
// work; also with a VIP that is logged, whose ring is emptied in between, and with a pool that inserts the client's address.
func BenchmarkExchange(b *testing.B) {
	b.Run("unlogged", func(b *testing.B) { benchmarkExchange(b, false, "") })
	b.Run("logged", func(b *testing.B) { benchmarkExchange(b, true, "") })
	b.Run("fields", func(b *testing.B) { benchmarkExchange(b, false, forwardedFor) })
	b.Run("all fields", func(b *testing.B) { benchmarkExchange(b, false, allFields) })
}

func benchmarkExchange(b *testing.B, logged bool, fields string) {
	const (
		request  = "GET /128 HTTP/1.1\r\nHost: cdn.example.net\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n\r\n"
		response = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: application/octet-stream\r\n" +
			"Content-Length: 128\r\nLast-Modified: Sat, 21 Nov 2026 11:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"6920474e-80\"\r\nAccept-Ranges: bytes\r\n\r\n"
	)
	k := newRig(b)
	f := families[0]
	k.vip(f, func(v *VIP) {
		v.Log = logged
		if v.Hold = fields != ""; v.Hold {
			v.Watch[0] = "x-forwarded-for"
		}
	})
	if fields != "" {
		k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: []uint16{1}, Edit: Edit{Fields: fields}}))
	}
	k.count(1, func(s *routerSurrogate) { s.Active++ })
	client, server := f.legs()
	s := spliceOf(client, server)
	s.Request, s.Response, s.Surrogate, s.Pool, s.ClientRequests = 0, 0, 1, 1, 2
	k.put(0, s)
	up, down := f.fromClient(request), f.fromSurrogate(response+string(make([]byte, 128)))
	measure := func(p *packet.Spec, times *[]time.Duration) {
		_, each, err := k.programs.RouterIngress.Benchmark(packet.Build(*p), 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		*times = append(*times, each)
		p.Seq += packet.Seq(len(p.Payload))
	}
	var requests, responses []time.Duration
	before := k.counts()
	for n := range b.N {
		if logged && n%logsAtOnce == 0 {
			k.records()
		}
		measure(&up, &requests)
		down.Ack = packet.Seq(k.splice(0).SndNxt)
		measure(&down, &responses)
		up.Ack = vipNext + down.Seq - surrogateNext
	}
	after := k.counts()
	if got := after[routerVerdictTO_SERVER] - before[routerVerdictTO_SERVER]; got < uint64(b.N) {
		b.Fatalf("%d of %d requests were passed on", got, b.N)
	}
	if got := k.splice(0); got.ClientRequests != uint32(2+b.N) || routerFraming(got.Response) != routerFramingFRAMING_QUIET {
		b.Fatalf("splice: %+v", got)
	}
	for name, times := range map[string][]time.Duration{"ns/request": requests, "ns/response": responses} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), name)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLogs measures what reading a record costs user space.
func BenchmarkLogs(b *testing.B) {
	k := newRig(b)
	f := families[0]
	k.vip(f, func(v *VIP) { v.Log = true })
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
	c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	k.records()
	l, err := k.Logs()
	k.must(err)
	defer l.Close()
	for left := b.N; left > 0; left -= logsAtOnce {
		b.StopTimer()
		for range min(left, logsAtOnce) {
			s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		}
		n := 0
		b.StartTimer()
		for all := false; !all; {
			all, err = l.Rest(func(*LogRecord) { n++ })
			k.must(err)
		}
		if n != min(left, logsAtOnce) {
			b.Fatalf("%d records, want %d", n, min(left, logsAtOnce))
		}
	}
}
