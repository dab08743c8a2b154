package forwarder

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkPick is the kernel's time for a packet, without its way in and out: of a flow that is known, of one that is new, and of none, with
// as many changes of fields.
func BenchmarkPick(b *testing.B) {
	r := newPickRig(b, 1<<17)
	r.group(pickHead, false, 1, 1, 1)
	mac := Op{Kind: OpPatch, Base: BaseFrame, Len: 12, FieldLen: 12, FieldAt: 24}
	three := func(link uint32) []Op { // both link addresses are one
		return []Op{mac, r.Ops[bucketOps+8*link], r.Ops[bucketOps+8*link+1]}
	}
	for link := range uint32(3) {
		// a repetition gets the packet as it came out: its source stays what it was
		copy(r.Ops[bucketOps+8*link].Value[:], flowNumber(udpProtocol, 0, false).src.Addr().AsSlice())
		copy(r.Ops[bucketOps+8*link:], three(link))
		r.Buckets[link].Count = 3
	}
	r.must(r.objects.PortOf.Put(uint32(1), uint32(insidePlace)))
	run := func(b *testing.B, n int, repeat uint32) time.Duration {
		frame := flowNumber(udpProtocol, n, false).frame()
		_, each, err := r.objects.ForwarderIngress.Benchmark(frame, int(repeat), nil)
		if err != nil {
			b.Fatal(err)
		}
		return each
	}
	median := func(b *testing.B, do func(i int) time.Duration) {
		var times []time.Duration
		for i := range b.N {
			times = append(times, do(i))
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "ns/packet")
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "ns/packet-p99")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("none", func(b *testing.B) {
		copy(r.Ops[pickOps:], three(0))
		r.Entries[0] = Entry{Ops: pickOps, Apply: 3}
		median(b, func(int) time.Duration { return run(b, 1, 1000) })
	})
	for name, method := range map[string]uint8{"turns": PickTurns, "least": PickLeast, "fastest": PickFastest, "hash": PickHash} {
		r.Ops[pickOps] = pickOp(pickHead, method, 0)
		b.Run("known/"+name, func(b *testing.B) {
			r.Ops[pickOps] = pickOp(pickHead, method, 0)
			r.Entries[0] = Entry{Ops: pickOps, Apply: 1}
			median(b, func(int) time.Duration { return run(b, 1, 1000) })
		})
		b.Run("new/"+name, func(b *testing.B) {
			r.Ops[pickOps] = pickOp(pickHead, method, 0)
			r.Entries[0] = Entry{Ops: pickOps, Apply: 1}
			median(b, func(i int) time.Duration { return run(b, 2+i, 1) })
			b.StopTimer()
			r.forgetAll()
		})
	}
}

// forgetAll empties the memory.
func (r *pickRig) forgetAll() {
	r.t.Helper()
	var k forwarderPickKey
	var v forwarderPick
	var keys []forwarderPickKey
	for it := r.objects.Picks.Iterate(); it.Next(&k, &v); {
		keys = append(keys, k)
	}
	for _, k := range keys {
		r.must(r.objects.Picks.Delete(k))
	}
	var bk forwarderPickBackKey
	var bv forwarderPickBack
	var backs []forwarderPickBackKey
	for it := r.objects.PickBacks.Iterate(); it.Next(&bk, &bv); {
		backs = append(backs, bk)
	}
	for _, k := range backs {
		r.must(r.objects.PickBacks.Delete(k))
	}
}

// BenchmarkPicksMany is what a hundred thousand flows cost once a second, and to be listed.
func BenchmarkPicksMany(b *testing.B) {
	const flows = 100_000
	r := newPickRig(b, 1<<17)
	r.group(pickHead, false, 1, 1, 1)
	r.Ops[pickOps] = pickOp(pickHead, PickLeast, 0)
	r.Entries[0] = Entry{Ops: pickOps, Apply: 1}
	r.must(r.objects.PortOf.Put(uint32(1), uint32(insidePlace)))
	for n := range flows {
		if _, _, err := r.objects.ForwarderIngress.Benchmark(flowNumber(udpProtocol, n, false).frame(), 1, nil); err != nil {
			b.Fatal(err)
		}
	}
	if n := len(r.list()); n != flows {
		b.Fatalf("%d flows", n)
	}
	b.Run("sweep", func(b *testing.B) {
		for b.Loop() {
			r.sweep()
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			n := 0
			r.must(ReadPicks(r.options.State, func(Pick) bool { n++; return true }))
		}
	})
}
