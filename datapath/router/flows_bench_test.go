package router

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// BenchmarkFlows measures a packet of a random session with cold caches among as many sessions as the name says, and the kernel's
// memory per direction: the goals are constant time and at most 256 bytes.
func BenchmarkFlows(b *testing.B) {
	kerneltest.Need(b)
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkFlows(b, n) })
	}
}

func benchmarkFlows(b *testing.B, n int) {
	k := &rig{t: b, Router: &Router{options: Options{Sessions: n, Pending: 1, Legs: 1}}}
	k.must(k.load(nil))
	defer k.Close()
	k.must(k.SetConfig(Config{MSS: testMSS}))
	clients := k.fill(n)

	// One packet per run: a repeated one would find everything cached.
	times := make([]time.Duration, 0, b.N)
	for range b.N {
		at := rand.IntN(n)
		spec := families[0].fromClient("")
		spec.Src = clients(at)
		_, each, err := k.programs.RouterIngress.Benchmark(packet.Build(spec), 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		times = append(times, each)
	}
	if got := k.counts()[routerVerdictTO_SERVER]; got < uint64(b.N) {
		b.Fatalf("%d of %d packets were translated", got, b.N)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "ns/packet")
	b.ReportMetric(float64(k.memory()-empty(b))/float64(2*n), "B/direction")
	b.ReportMetric(0, "ns/op")
}

// fill makes n active sessions and returns the n-th one's client.
func (k *rig) fill(n int) (client func(i int) netip.AddrPort) {
	const batch = 4096
	f := families[0]
	end := func(base netip.AddrPort, i int) netip.AddrPort {
		a := base.Addr().As4()
		a[2], a[3] = byte(i>>16), byte(i>>8) // 64 ports per address
		a[1] ^= byte(i >> 24)
		return netip.AddrPortFrom(netip.AddrFrom4(a), 1024+uint16(i)&0xff)
	}
	client = func(i int) netip.AddrPort { return end(f.client, i) }
	var (
		numbers []uint32
		splices []routerSplice
		keys    []routerTuple
		flows   []routerFlow
	)
	flush := func() {
		_, err := k.maps.Splices.BatchUpdate(numbers, splices, nil)
		k.must(err)
		_, err = k.maps.Flows.BatchUpdate(keys, flows, nil)
		k.must(err)
		numbers, splices, keys, flows = numbers[:0], splices[:0], keys[:0], flows[:0]
	}
	for i := range n {
		c, s := f.legs()
		c.Peer = client(i)
		s.Local = end(f.router, i)
		numbers, splices = append(numbers, uint32(i)), append(splices, spliceOf(c, s))
		keys = append(keys, tuple(c.Peer, c.Local), tuple(s.Peer, s.Local))
		flows = append(flows, routerFlow{Splice: uint32(i), Side: uint32(routerSideSIDE_CLIENT)},
			routerFlow{Splice: uint32(i), Side: uint32(routerSideSIDE_SERVER)})
		if len(numbers) == batch {
			flush()
		}
	}
	if len(numbers) > 0 {
		flush()
	}
	return client
}

// memory is the kernel's memory of the maps that grow with sessions.
func (k *rig) memory() uint64 {
	var sum uint64
	for _, m := range []*ebpf.Map{k.maps.Splices, k.maps.Flows, k.maps.Lingering} {
		info, err := m.Info()
		k.must(err)
		bytes, ok := info.Memlock()
		if !ok {
			k.t.Fatal("the kernel does not tell a map's memory")
		}
		sum += bytes
	}
	return sum
}

// empty is the same without sessions.
func empty(b *testing.B) uint64 {
	k := &rig{t: b, Router: &Router{options: Options{Sessions: 1, Pending: 1, Legs: 1}}}
	k.must(k.load(nil))
	defer k.Close()
	return k.memory()
}
