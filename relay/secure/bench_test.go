package secure

import (
	"runtime"
	"testing"
)

// BenchmarkBytes is what a relay does with the bytes of a TLS trunk, at both ends: encrypt 64 KiB, decrypt them.
func BenchmarkBytes(b *testing.B) {
	p := established(b)
	plain, read := make([]byte, Most), make([]byte, Most)
	in := make([]byte, Most)
	b.SetBytes(Most)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.opener.Write(plain); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < Most; {
			n := copy(in, p.opener.Pending()[:min(len(p.opener.Pending()), p.acceptor.FeedLimit(Most))])
			p.acceptor.Feed(in[:n])
			p.opener.Sent(n)
			n, err := p.acceptor.Read(read)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
	}
}

// BenchmarkHandshake is both ends of one, with certificates and with a session that is resumed.
func BenchmarkHandshake(b *testing.B) {
	for _, resumed := range []bool{false, true} {
		name := "certificates"
		if resumed {
			name = "resumed"
		}
		b.Run(name, func(b *testing.B) {
			i := identitiesOnce(b)
			b.ReportAllocs()
			for b.Loop() {
				p := newPair(b, i, i)
				if !resumed {
					cfg := i.now.Load().open.Clone()
					cfg.ServerName, cfg.ClientSessionCache = "r2", nil
					p.opener = p.other(cfg, true)
				}
				if a, b1 := p.shake(); a != nil || b1 != nil {
					b.Fatal(a, b1)
				}
			}
		})
	}
}

// BenchmarkIdle is the memory of a connection that has been used, one end of it.
func BenchmarkIdle(b *testing.B) {
	for _, tt := range []struct {
		name string
		used int // bytes that went either way
	}{{"new", 0}, {"used for little", 1000}, {"used for much", 1 << 20}} {
		b.Run(tt.name, func(b *testing.B) {
			const pairs = 200
			var all []*pair
			for b.Loop() {
				all = nil
				before := heap()
				for range pairs {
					p := established(b)
					for left := tt.used; left > 0; left -= Most {
						write(b, p.opener, make([]byte, min(left, Most)))
						write(b, p.acceptor, make([]byte, min(left, Most)))
						for _, way := range [][2]*Conn{{p.opener, p.acceptor}, {p.acceptor, p.opener}} {
							if _, err := p.pass(way[0], way[1]); err != nil {
								b.Fatal(err)
							}
						}
					}
					p.buffers.empty = nil
					all = append(all, p)
				}
				b.ReportMetric(float64(heap()-before)/(2*pairs), "B/conn")
			}
			runtime.KeepAlive(all)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
