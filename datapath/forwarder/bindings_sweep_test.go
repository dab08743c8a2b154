package forwarder

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// TestBindSweep: each flow is forgotten when its time is over, not before, and rests after two seconds.
func TestBindSweep(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1)
	op := bindOp(bindHead, BindRoundRobin, 0)
	opened := func(p testPacket) { r.reply(0, p, packet.SYN|packet.ACK) }
	for i, c := range []struct {
		name     string
		protocol packet.Protocol
		then     func(p testPacket)
		seconds  uint64
	}{
		{"a handshake", packet.ProtocolTCP, func(testPacket) {}, 240},
		{"a connection", packet.ProtocolTCP, opened, 7440},
		{"a closed connection", packet.ProtocolTCP, func(p testPacket) {
			opened(p)
			r.reply(0, p, packet.FIN|packet.ACK)
			p.flags = packet.FIN | packet.ACK
			r.out(op, p)
		}, 10},
		{"a refused connection", packet.ProtocolTCP, func(p testPacket) { r.reply(0, p, packet.RST|packet.ACK) }, 10},
		{"UDP", udpProtocol, func(testPacket) {}, 300},
		{"an echo", packet.ProtocolICMP, func(testPacket) {}, 60},
		{"an association", sctpProtocol, func(testPacket) {}, 7440},
		{"a tunnel", greProtocol, func(testPacket) {}, 300},
	} {
		p := flowNumber(c.protocol, i, false)
		if c.protocol == greProtocol {
			p.src, p.dst = flowNumber(packet.ProtocolICMP, i, false).dst, flowNumber(packet.ProtocolICMP, 0, false).dst // no ports
		}
		if link, verdict := r.out(op, p); link != 0 {
			t.Fatalf("%s: %s", c.name, verdict)
		}
		c.then(p)
		closing := r.port(0).Active == 0
		if r.sweep(); !closing && r.port(0).Active != 1 {
			t.Errorf("%s rests at once", c.name)
		}
		r.ago(p, 3*second)
		if ended := r.sweep(); ended != 0 || r.port(0).Active != 0 || r.port(0).Flows != 1 {
			t.Errorf("%s after three seconds: %d have ended, %+v", c.name, ended, r.port(0))
		}
		r.ago(p, (c.seconds-5)*second)
		if ended := r.sweep(); ended != 0 {
			t.Errorf("%s is forgotten early", c.name)
		}
		r.ago(p, 6*second)
		if ended := r.sweep(); ended != 1 || r.port(0).Flows != 0 || len(r.list()) != 0 {
			t.Errorf("%s is not forgotten after %d s: %+v", c.name, c.seconds, r.list())
		}
		if r.reply(0, p, packet.ACK) {
			t.Errorf("%s gets replies when it is forgotten", c.name)
		}
		if n := r.backs(); n != 0 {
			t.Errorf("%s has left %d ways back", c.name, n)
		}
	}
}

// backs counts the ways back.
func (r *bindRig) backs() (n int) {
	r.t.Helper()
	var k forwarderBindingReplyKey
	var v forwarderBindingReply
	it := r.objects.BindingReplies.Iterate()
	for it.Next(&k, &v) {
		n++
	}
	r.must(it.Err())
	return n
}

// TestBindSweepCounts: what is counted of a port is made right, and bytes are counted once.
func TestBindSweepCounts(t *testing.T) {
	r := newBindRig(t, 256)
	r.group(bindHead, false, 1)
	op := bindOp(bindHead, BindRoundRobin, 0)
	const each = uint64(14 + 20 + 8) // bytes of a packet
	for n := range 10 {
		r.out(op, flowNumber(udpProtocol, n, false))
	}
	var all forwarderBinder
	r.must(r.objects.Binders.Lookup(uint32(0), &all))
	all.Seat[r.Ports[linkPlace].Seat].Active += 5
	r.must(r.objects.Binders.Put(uint32(0), &all))
	r.sweep()
	r.sweep()
	if p := r.port(0); p.Active != 10 || p.Flows != 10 || p.Sent != 10*each || p.Received != 0 {
		t.Errorf("%+v", p)
	}
	r.reply(0, flowNumber(udpProtocol, 3, false), 0)
	r.ago(flowNumber(udpProtocol, 3, false), 400*second)
	r.sweep()
	if p := r.port(0); p.Active != 9 || p.Flows != 9 || p.Sent != 10*each || p.Received != each {
		t.Errorf("with one forgotten: %+v", p)
	}
}

// TestBindingsAreTakenOver: the next process knows the flows, also when its ports are in other places; without a memory they are forgotten.
func TestBindingsAreTakenOver(t *testing.T) {
	kerneltest.Need(t)
	o := bindOptions(512)
	t.Cleanup(func() {
		if err := Remove(o.State, o.Name); err != nil {
			t.Error(err)
		}
	})
	first := openBindRig(t, o)
	first.group(bindHead, false, 1, 1, 1)
	op := bindOp(bindHead, BindRoundRobin, 60)
	went := make(map[int]int)
	for n := range 30 {
		p := flowNumber(packet.ProtocolTCP, n, false)
		went[n], _ = first.out(bindOp(bindHead, BindRoundRobin, 0), p)
		first.reply(went[n], p, packet.SYN|packet.ACK)
	}
	before := first.port(1)
	first.must(first.Close())

	o.Bindings = 1024 // another size is of no effect on what is there
	second := openBindRig(t, o)
	place := func(at int) Port { return second.Ports[at] }
	// links 0 and 2 have changed their places
	a, b := place(linkPlace), place(linkPlace+2)
	second.Ports[linkPlace], second.Ports[linkPlace+2] = b, a
	second.group(bindHead, false, 1, 1, 1)
	if n := second.objects.Bindings.MaxEntries(); n != 512 {
		t.Errorf("%d may be remembered", n)
	}
	if p := second.port(1); p.Flows != before.Flows || p.RTT != before.RTT || p.Active != before.Active || p.SYNs != before.SYNs {
		t.Errorf("link 1 was %+v, is %+v", before, p)
	}
	for n, link := range went {
		p := flowNumber(packet.ProtocolTCP, n, false)
		p.flags = packet.ACK
		want := []int{2, 1, 0}[link] // the same port, which has another's address in this test
		if got, verdict := second.out(op, p); got != want {
			t.Fatalf("flow %d went by %d, now by %d (%s)", n, want, got, verdict)
		}
	}
	if err := second.DetachOthers(); err != nil {
		t.Error(err)
	}
	if n := len(second.list()); n != 30 {
		t.Errorf("%d flows", n)
	}
	second.must(second.Close())
	if err := ReadBindings(o.State, func(Binding) bool { return false }); err != nil {
		t.Errorf("read when nobody runs: %v", err)
	}

	o.Bindings = 0
	third := openBindRig(t, o)
	if err := ReadBindings(o.State, nil); !errors.Is(err, ErrNoBindings) {
		t.Errorf("without a memory: %v", err)
	}
	third.must(third.Close())
}

// TestBindRace: whichever processor is first with a flow's first packets, all of them go by one link, and what is counted is right.
func TestBindRace(t *testing.T) {
	for _, method := range []uint8{BindRoundRobin, BindLeast, BindFastest, BindHash, BindEven} {
		bindInARace(t, method, 0)
		bindInARace(t, method, 50)
	}
}

// bindInARace: processors that bind the same flows at once, beside so many sweeps, agree on each and count each once.
func bindInARace(t *testing.T, method uint8, sweeps int) {
	t.Helper()
	r := newBindRigNamed(t, method)
	r.group(bindHead, false, 1, 1, 1)
	r.Ops[bindOps] = bindOp(bindHead, method, 0)
	r.Entries[0] = Entry{Ops: bindOps, Apply: 1}
	r.must(r.objects.PortOf.Put(uint32(1), uint32(internalPlace)))
	const flows, workers = 1500, 4
	var each [workers][flows]byte
	var done sync.WaitGroup
	var start sync.WaitGroup
	start.Add(1)
	for worker := range workers {
		done.Go(func() {
			start.Wait()
			out := make([]byte, 256)
			for n := range flows {
				opts := &ebpf.RunOptions{
					Data: flowNumber(udpProtocol, n, false).frame(), DataOut: out, Context: kerneltest.SKBuff{Ifindex: 1, IngressIfindex: 1},
				}
				if action, err := r.objects.ForwarderIngress.Run(opts); err != nil || action != kerneltest.ActRedirect {
					t.Errorf("action %d, %v", action, err)
					return
				}
				each[worker][n] = opts.DataOut[29] // the link's address
			}
		})
	}
	done.Go(func() { // packets and the sweep do not mind each other
		start.Wait()
		for range sweeps {
			if _, err := r.SweepBindings(); err != nil {
				t.Error(err)
			}
		}
	})
	start.Done()
	done.Wait()
	if sweeps > 0 {
		// A sweep that passes between the choice of a link and the flow's entry counts that flow out, until the next sweep.
		if _, err := r.SweepBindings(); err != nil {
			t.Fatal(err)
		}
	}
	links := make(map[byte]uint64)
	for n := range flows {
		for worker := range workers {
			if each[worker][n] != each[0][n] {
				t.Fatalf("method %d: flow %d went by links %d and %d", method, n, each[0][n]-1, each[worker][n]-1)
			}
		}
		links[each[0][n]]++
	}
	for link := range 3 {
		if p := r.port(link); p.Active != p.Flows || p.Flows != links[byte(link+1)] {
			t.Errorf("method %d, link %d: %+v, want %d", method, link, p, links[byte(link+1)])
		}
		if n := links[byte(link+1)]; method == BindLeast && n != flows/3 {
			t.Errorf("least: link %d has %d flows of %d", link, n, flows)
		}
	}
	if backs := r.backs(); backs != flows {
		t.Errorf("method %d: %d ways back of %d", method, backs, flows)
	}
	r.must(errors.Join(r.Close(), Remove(r.options.State, r.options.Name)))
}

// newBindRigNamed is one for a part of a test, which removes it.
func newBindRigNamed(t *testing.T, method uint8) *bindRig {
	kerneltest.Need(t)
	o := bindOptions(4096)
	o.State += string('0' + rune(method))
	return openBindRig(t, o)
}

// TestBindingsOfAnotherLayout: flows that another version remembers are neither forgotten nor misread.
func TestBindingsOfAnotherLayout(t *testing.T) {
	kerneltest.Need(t)
	o := bindOptions(64)
	t.Cleanup(func() {
		if err := Remove(o.State, o.Name); err != nil {
			t.Error(err)
		}
	})
	first := openBindRig(t, o)
	first.must(first.Close())
	dir := filepath.Join(o.State, bindingsName)
	ours, err := memoryLayout()
	first.must(err)
	all, err := datapath.OpenMaps(dir, ours)
	first.must(err)
	defer datapath.CloseMaps(all)
	other := maps.Clone(ours)
	other["struct binding"] = append(slices.Clone(ours["struct binding"]), "more at 96: unsigned of 8 bytes")
	first.must(os.RemoveAll(dir))
	first.must(datapath.PinMaps(dir, dir+"_new", all, other))

	_, err = Open(o)
	if !errors.Is(err, datapath.ErrLayout) || !strings.Contains(err.Error(), "struct binding: was (more at 96") || !strings.Contains(err.Error(), "cleanup`") {
		t.Errorf("taken over: %v", err)
	}
	if err := ReadBindings(o.State, func(Binding) bool { return true }); !errors.Is(err, datapath.ErrLayout) {
		t.Errorf("read: %v", err)
	}
	first.must(Remove(o.State, o.Name))
	last := openBindRig(t, o)
	last.must(last.Close())
}
