package install

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"baton/openflow"
)

// TestMegaflowsTwoSlots: most of the flows that fit stay cached, though some want the same place. With one place for each about an eighth
// of these would be looked up again and again.
func TestMegaflowsTwoSlots(t *testing.T) {
	const flows = 150
	runtime.LockOSThread() // each processor has paths of its own; the thread ends with the test
	var one unix.CPUSet
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatalf("keep to a processor: %v", err)
	}
	o := small
	o.Megaflows = 1024
	r := newRig(t, o)
	r.flow(0, 2, openflow.Match{}.Uint(openflow.FieldEthType, 0x0800).Uint(openflow.FieldIPProto, 17).Uint(openflow.FieldUDPSrc, 1), apply(out(nowhere)))
	r.flow(0, 1, nil, apply(out(nowhere)))
	hits := func() uint64 {
		v, err := r.kernel.Verdicts()
		r.must(err)
		return v["megaflows_hit"]
	}
	var before uint64
	for range 4 {
		before = hits()
		for port := range uint16(flows) {
			r.send(1, udp(1000+port, 53))
		}
	}
	if got := hits() - before; got < flows*94/100 {
		t.Errorf("%d of %d flows are cached", got, flows)
	}
}
