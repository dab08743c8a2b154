package datapath

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"baton/packet"
	"baton/splice"
)

// BenchmarkTranslate is the time of one translated packet in the kernel, without its way in and out.
func BenchmarkTranslate(b *testing.B) {
	sack := packet.Options{}.AppendNOP(2).AppendTimestamps(1, 2).AppendNOP(2).AppendSACK(packet.SACKBlock{Left: 5, Right: 9})
	for _, f := range families {
		for _, c := range []struct {
			name     string
			toServer bool
			payload  int
			options  packet.Options
		}{
			{"client's ACK", true, 0, nil},
			{"client's SACK", true, 0, sack},
			{"surrogate's segment", false, 1400, nil},
		} {
			b.Run(f.name+"/"+c.name, func(b *testing.B) {
				k := newRig(b)
				client, server := f.legs()
				k.vip(f)
				s := spliceOf(client, server)
				s.ClientRequests = 2
				k.put(0, s)
				spec := f.fromSurrogate(string(make([]byte, c.payload)))
				if c.toServer {
					spec = f.fromClient("")
				}
				if c.options != nil {
					spec.Options = c.options
				}
				k.repeat(b, spec)
			})
		}
	}
}

// repeat runs a packet b.N times, each time the output of the time before: only its TTL and numbers are others.
func (k *rig) repeat(b *testing.B, spec packet.Spec) {
	spec.TTL = 255
	frame := packet.Build(spec)
	// The kernel does not restore the packet between repetitions. The flow of what comes out is the same splice's other
	// end only by accident, so each repetition is a run of its own of as many packets as there are hops.
	b.ReportAllocs()
	var total float64
	for range b.N {
		_, took, err := k.programs.RouterIngress.Benchmark(frame, 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		total += float64(took.Nanoseconds())
	}
	b.ReportMetric(total/float64(b.N), "ns/packet")
}

var _ = []any{json.Marshal, fmt.Sprint, netip.Addr{}, os.Args, filepath.Join, slices.Sort[[]int], ebpf.Queue, splice.Keep}
