package relay

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// rig is the loaded data path without interfaces: packets are run through it.
type rig struct {
	*Relay
	t      testing.TB
	events *Events
	listen netip.AddrPort // of a listener that is there, for both families
}

// What the tests of the rig size it with.
var rigOptions = Options{Mark: Mark, Table: Table + 1, Early: 8, PerSource: 3, Expire: time.Minute}

var loaded struct {
	sync.Once
	*Relay
	err error
}

// newRig loads the programs once, and empties the maps for each test.
func newRig(t testing.TB) *rig {
	t.Helper()
	kerneltest.Need(t)
	loaded.Do(func() { loaded.Relay, loaded.err = Load(rigOptions) })
	if loaded.err != nil {
		t.Fatalf("%+v", loaded.err)
	}
	k := &rig{Relay: loaded.Relay, t: t}
	k.must(k.SetEntries(nil))
	k.settleAll()
	kerneltest.Empty(k.t, k.objects.Refusals)
	k.listen = listenerAddr(k.listener(64))
	events, err := k.Events(0)
	k.must(err)
	t.Cleanup(func() { events.Close() })
	k.events = events
	for len(k.takeEvents()) > 0 { // of the tests before
	}
	return k
}

func listenerAddr(l net.Listener) netip.AddrPort {
	return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(l.Addr().(*net.TCPAddr).Port))
}

func (k *rig) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// listener has a backlog, for both families.
func (k *rig) listener(backlog int) net.Listener {
	k.t.Helper()
	l, err := listenWith(netip.AddrPortFrom(netip.IPv6Unspecified(), 0), transparent)
	k.must(err)
	k.t.Cleanup(func() { l.Close() })
	k.must(setBacklog(l, backlog))
	return l
}

// settleAll forgets all SYNs.
func (k *rig) settleAll() {
	k.t.Helper()
	was := k.options.Expire
	k.options.Expire = -time.Hour
	_, err := k.Sweep()
	k.options.Expire = was
	k.must(err)
	if n := k.sizes(); n != (sizes{}) {
		k.t.Fatalf("left behind: %+v", n)
	}
}

// sizes are how many entries tables have.
type sizes struct{ syns, sources int }

func (k *rig) sizes() sizes {
	k.t.Helper()
	return sizes{kerneltest.Entries(k.t, k.objects.Syns), kerneltest.Entries(k.t, k.objects.Sources)}
}

// takeEvents reads the events that are there.
func (k *rig) takeEvents() []Event {
	k.t.Helper()
	var all []Event
	for {
		some := make([]Event, 4)
		n, err := k.events.Take(some)
		k.must(err)
		all = append(all, some[:n]...)
		if n < len(some) {
			return all
		}
	}
}

// only requires one event.
func (k *rig) only() Event {
	k.t.Helper()
	reported := k.takeEvents()
	if len(reported) != 1 {
		k.t.Fatalf("%d events: %+v", len(reported), reported)
	}
	return reported[0]
}

// run runs a frame through relay_ingress and returns its verdict, the action and what has become of it.
func (k *rig) run(frame []byte) (verdict string, action int32, after []byte) {
	k.t.Helper()
	return k.runProgram(k.objects.RelayIngress, frame)
}

func (k *rig) runProgram(p *ebpf.Program, frame []byte) (verdict string, action int32, after []byte) {
	k.t.Helper()
	before, err := k.Verdicts()
	k.must(err)
	opts := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	got, err := p.Run(opts)
	if err != nil {
		k.t.Fatalf("run: %v\n% x", err, frame)
	}
	counts, err := k.Verdicts()
	k.must(err)
	for name, n := range counts {
		switch {
		case n == before[name]:
		case n > before[name]+1 || verdict != "":
			k.t.Fatalf("one packet, several verdicts: %q and %q (%d)\n% x", verdict, name, n-before[name], frame)
		default:
			verdict = name
		}
	}
	if verdict == "" {
		k.t.Fatalf("a packet without a verdict\n% x", frame)
	}
	return verdict, int32(got), opts.DataOut
}

// The action that lets the next program have its say.
const actNext = -1

// want runs a packet and requires its verdict; the action follows from that.
func (k *rig) want(s packet.Spec, verdict relayVerdict) (after []byte) {
	k.t.Helper()
	frame := packet.Build(s)
	got, action, after := k.run(frame)
	wanted := int32(actNext)
	switch {
	case verdict == relayVerdictSYN_REFUSED:
		wanted = kerneltest.ActRedirect
	case verdict >= relayVerdictSYN_HELD:
		wanted = kerneltest.ActShot
	}
	if got != verdictNames[verdict] || action != wanted {
		k.t.Fatalf("got %s, action %d; want %s, %d", got, action, verdictNames[verdict], wanted)
	}
	if wanted == actNext && string(after) != string(frame) {
		k.t.Fatalf("%s: changed from\n% x to\n% x", got, frame, after)
	}
	return after
}

// syn is a client's first packet.
func (f family) syn(client netip.AddrPort, port uint16, isn packet.Seq) packet.Spec {
	return packet.Spec{
		SrcMAC: packet.MAC{2, 0, 0, 0, 0, 1}, DstMAC: packet.MAC{2, 0, 0, 0, 0, 2}, Src: client, Dst: netip.AddrPortFrom(f.farOne, port),
		Seq: isn, Flags: packet.SYN, Window: 64240,
		Options: packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(1, 0).AppendNOP(1).AppendWindowScale(7),
	}
}

// TestRelayVerdictNames: each verdict has a name of its own.
func TestRelayVerdictNames(t *testing.T) {
	seen := make(map[string]bool)
	for v, name := range Verdicts() {
		if name == "" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("verdict %d is called %q", v, name)
		}
		seen[name] = true
	}
}
