package relay

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// BenchmarkRelay is the time of one packet in the kernel, without its way in and out. A socket is found but not given to the packet, as a
// test run cannot do that.
func BenchmarkRelay(b *testing.B) {
	for _, f := range families {
		k := newRig(b)
		loop := netip.MustParseAddr(map[bool]string{true: "127.0.0.1", false: "::1"}[f.relay.Is4()])
		server, err := listenWith(netip.AddrPortFrom(loop, 0))
		k.must(err)
		defer server.Close()
		client, err := net.Dial("tcp", server.Addr().String())
		k.must(err)
		defer client.Close()
		host := netip.PrefixFrom(loop, loop.BitLen())
		entries := []Entry{
			{ID: 1, Listen: k.listen, Destinations: append(someNetworks(f, 10_000), host), Intercept: true, Except: []netip.Prefix{f.clientNet}},
			{ID: 2, Listen: k.listen, Destinations: []netip.Prefix{f.serverNet}, Ports: []Ports{{80, 80}}, Early: EarlyOptimistic},
		}
		far := []Entry{{ID: 1, Listen: k.listen, Destinations: []netip.Prefix{f.far}, Intercept: true}}
		segment := packet.Spec{
			Src: netip.AddrPortFrom(f.client, 4000), Dst: netip.AddrPortFrom(f.server, 80), Flags: packet.ACK, Payload: make([]byte, 1400),
		}
		to := func(dst netip.AddrPort) packet.Spec { s := segment; s.Dst = dst; return s }
		known := segment
		known.Src, known.Dst = unmapped(client.LocalAddr()), unmapped(client.RemoteAddr())
		syn := f.syn(segment.Src, 80, 1)
		syn.Dst = segment.Dst
		for _, c := range []struct {
			name    string
			entries []Entry
			program *ebpf.Program
			spec    packet.Spec
			verdict relayVerdict
		}{
			{"other port", entries[1:], k.objects.RelayIngress, to(netip.AddrPortFrom(f.server, 81)), relayVerdictPASS},
			{"other address", entries, k.objects.RelayIngress, to(netip.AddrPortFrom(f.client, 80)), relayVerdictPASS},
			{"plain segment", entries, k.objects.RelayIngress, segment, relayVerdictPASS},
			{"intercepted segment", entries, k.objects.RelayIngress, known, relayVerdictSTEER_FAILED},
			{"unknown segment", far, k.objects.RelayIngress, to(netip.AddrPortFrom(f.farOne, 80)), relayVerdictPASS_UNKNOWN},
			{"SYN again", entries, k.objects.RelayIngress, syn, relayVerdictSYN_AGAIN},
			{"other return", nil, k.objects.RelayReturn, segment, relayVerdictPASS},
		} {
			b.Run(f.name+"/"+c.name, func(b *testing.B) {
				k.must(k.SetEntries(c.entries))
				k.runProgram(c.program, packet.Build(c.spec))
				k.repeat(b, c.program, packet.Build(c.spec), c.verdict)
			})
		}
		k.settleAll()
		k.takeEvents()
		b.Run(f.name+"/SYN told", func(b *testing.B) {
			k.must(k.SetEntries(entries))
			times := make([]time.Duration, 0, b.N)
			for range b.N {
				syn.Seq++
				_, each, err := k.objects.RelayIngress.Benchmark(packet.Build(syn), 1, nil)
				k.must(err)
				times = append(times, each)
				k.only()
				if n, err := k.Settle(SYN{syn.Src, syn.Dst, uint32(syn.Seq)}); n != 1 {
					b.Fatal(n, err)
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func someNetworks(f family, n int) []netip.Prefix {
	r := rand.New(rand.NewPCG(1, 2))
	var all []netip.Prefix
	for range n {
		b := f.farOne.AsSlice()
		for i := range 3 {
			b[i+1] = byte(r.Uint32())
		}
		addr, _ := netip.AddrFromSlice(b)
		all = append(all, netip.PrefixFrom(addr, 12+r.IntN(12)).Masked())
	}
	return all
}

func (k *rig) repeat(b *testing.B, p *ebpf.Program, frame []byte, verdict relayVerdict) {
	count := func() uint64 {
		all, err := k.Verdicts()
		k.must(err)
		return all[verdictNames[verdict]]
	}
	before := count()
	_, each, err := p.Benchmark(frame, b.N, nil)
	k.must(err)
	if got := count() - before; got < uint64(b.N) { // a repetition may be interrupted and run anew
		b.Fatalf("%d of %d packets: %s", got, b.N, verdictNames[verdict])
	}
	b.ReportMetric(float64(each.Nanoseconds()), "ns/packet")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRelayCommands is the time of what user space asks for, with the system call.
func BenchmarkRelayCommands(b *testing.B) {
	k := newRig(b)
	var keys [64]SYN
	for i := range keys {
		keys[i].Client, keys[i].Server = netip.AddrPortFrom(families[0].client, uint16(i)), netip.AddrPortFrom(families[0].farOne, 80)
	}
	for name, some := range map[string][]SYN{"taken": keys[:1], "taken 64": keys[:]} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				_, err := k.Settle(some...)
				k.must(err)
			}
		})
	}
	const many = 4096
	full, err := Load(Options{Early: many, PerSource: many, Expire: time.Hour})
	k.must(err)
	defer full.Close()
	for i := range uint32(many) {
		syn := SYN{Client: netip.AddrPortFrom(families[0].client, uint16(i)), Server: keys[0].Server}
		k.must(full.objects.Syns.Put(syn.key().Tuple, relaySyn{Since: datapath.Clock()}))
	}
	b.Run("sweep of 4096", func(b *testing.B) {
		for range b.N {
			_, err := full.Sweep()
			k.must(err)
		}
	})
	f := families[0]
	k.early(EarlyConnectFirst)
	s := f.syn(f.clientAt(1, 4000), 443, 9)
	b.Run("refuse", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			s.Seq++
			k.want(s, relayVerdictSYN_HELD)
			e := k.only()
			b.StartTimer()
			k.must(k.Refuse(e))
		}
	})
}
