package forwarder

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkBind is the kernel's time for a packet, without its way in and out: of a flow that is known, of one that is new, and of none, with
// as many changes of fields.
func BenchmarkBind(b *testing.B) {
	r := newBindRig(b, 1<<17)
	r.group(bindHead, false, 1, 1, 1)
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
	r.must(r.objects.PortOf.Put(uint32(1), uint32(internalPlace)))
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
		copy(r.Ops[bindOps:], three(0))
		r.Entries[0] = Entry{Ops: bindOps, Apply: 3}
		median(b, func(int) time.Duration { return run(b, 1, 1000) })
	})
	for name, method := range map[string]uint8{"turns": BindRoundRobin, "least": BindLeast, "fastest": BindFastest, "hash": BindHash} {
		r.Ops[bindOps] = bindOp(bindHead, method, 0)
		b.Run("known/"+name, func(b *testing.B) {
			r.Ops[bindOps] = bindOp(bindHead, method, 0)
			r.Entries[0] = Entry{Ops: bindOps, Apply: 1}
			median(b, func(int) time.Duration { return run(b, 1, 1000) })
		})
		b.Run("new/"+name, func(b *testing.B) {
			r.Ops[bindOps] = bindOp(bindHead, method, 0)
			r.Entries[0] = Entry{Ops: bindOps, Apply: 1}
			median(b, func(i int) time.Duration { return run(b, 2+i, 1) })
			b.StopTimer()
			r.forgetAll()
		})
	}
}

// forgetAll empties the memory.
func (r *bindRig) forgetAll() {
	r.t.Helper()
	var k forwarderBindingKey
	var v forwarderBinding
	var keys []forwarderBindingKey
	for it := r.objects.Bindings.Iterate(); it.Next(&k, &v); {
		keys = append(keys, k)
	}
	for _, k := range keys {
		r.must(r.objects.Bindings.Delete(k))
	}
	var bk forwarderBindingReplyKey
	var bv forwarderBindingReply
	var backs []forwarderBindingReplyKey
	for it := r.objects.BindingReplies.Iterate(); it.Next(&bk, &bv); {
		backs = append(backs, bk)
	}
	for _, k := range backs {
		r.must(r.objects.BindingReplies.Delete(k))
	}
}

// BenchmarkBindingsMany is what a hundred thousand flows cost once a second, and to be listed.
func BenchmarkBindingsMany(b *testing.B) {
	const flows = 100_000
	r := newBindRig(b, 1<<17)
	r.group(bindHead, false, 1, 1, 1)
	r.Ops[bindOps] = bindOp(bindHead, BindLeast, 0)
	r.Entries[0] = Entry{Ops: bindOps, Apply: 1}
	r.must(r.objects.PortOf.Put(uint32(1), uint32(internalPlace)))
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
			r.must(ReadBindings(r.options.State, func(Binding) bool { n++; return true }))
		}
	})
}
