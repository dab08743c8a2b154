package measure

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"

	"baton/sockdiag"
)

// FuzzAdd: whatever is seen, in whatever order, figures are numbers that can be.
func FuzzAdd(f *testing.F) {
	f.Add([]byte{200, 1, 10, 10, 1, 1, 5, 0, 5, 20, 30, 200, 0, 10, 10, 200, 1, 90, 90, 1, 1, 5, 0, 9, 25, 60})
	f.Add([]byte{0, 1, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		next := func() uint64 {
			if len(b) == 0 {
				return 0
			}
			v := uint64(b[0])
			b = b[1:]
			if v == 255 && len(b) >= 8 { // some are huge
				v, b = binary.LittleEndian.Uint64(b), b[8:]
			}
			return v
		}
		m := New(2)
		var at time.Duration
		for len(b) > 0 {
			at += time.Duration(next()) * ms
			s := Sample{At: at, Listed: next()%2 == 1, Links: []Counters{
				{Sent: next() * 1000, Received: next() * 1000, SYNs: next(), SYNRepeats: next(), RTT: time.Duration(next() % (1 << 40))}, {},
			}}
			for range next() % 8 {
				s.Flows = append(s.Flows, Flow{Link: int(next()%4) - 1, TCP: sockdiag.TCP{
					Socket: sockdiag.Socket{Cookie: next() % 16, Remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(next())}), 443)},
					MinRTT: time.Duration(next()%(1<<32)) * time.Microsecond, ReceiveRTT: time.Duration(next()%(1<<32)) * time.Microsecond,
					RTT:        time.Duration(next()%(1<<32)) * time.Microsecond,
					BytesAcked: next() * 1000, BytesReceived: next() * 1000, DataOut: uint32(next()), Retransmitted: uint32(next()),
				}})
			}
			m.Add(s)
			for i, g := range m.Figures() {
				for _, v := range []float64{g.Loss, g.SentRate, g.ReceivedRate, g.Up.Rate, g.Down.Rate} {
					if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("link %d: %+v", i, g)
					}
				}
				if g.Loss > 1 || g.RTT < 0 || g.MinRTT < 0 || i == 1 && g.Down.Known() {
					t.Fatalf("link %d: %+v", i, g)
				}
			}
		}
	})
}

// BenchmarkAdd learns from 100,000 connections that all carry something.
func BenchmarkAdd(b *testing.B) {
	const connections = 100_000
	m := New(4)
	s := Sample{Listed: true, Links: make([]Counters, 4)}
	for i := range connections {
		f := flow(i%4, uint64(i), sockdiag.TCP{RTT: 30 * ms, MinRTT: 20 * ms, ReceiveRTT: 30 * ms})
		f.Remote = netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 443)
		s.Flows = append(s.Flows, f)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.At += time.Second
		for i := range s.Links {
			s.Links[i].Received += 1e6
		}
		for i := range s.Flows {
			s.Flows[i].BytesReceived += 1000
			s.Flows[i].BytesAcked += 1000
		}
		m.Add(s)
	}
}
