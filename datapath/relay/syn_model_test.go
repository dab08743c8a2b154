package relay

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// synModel is what relay_ingress and the commands do to SYNs, in Go.
type synModel struct {
	first   bool // connect-first
	syns    map[SYN]relaySynState
	refused map[SYN]bool
}

// of finds the SYN that is known of a tuple.
func (m *synModel) of(s SYN) (SYN, bool) {
	for known := range m.syns {
		if known.Client == s.Client && known.Server == s.Server {
			return known, true
		}
	}
	return SYN{}, false
}

// ofSource counts those of a client, or of its network.
func (m *synModel) ofSource(a netip.Addr) (n int) {
	bits := 64
	if a.Is4() {
		bits = 32
	}
	for known := range m.syns {
		if netip.PrefixFrom(a, bits).Masked().Contains(known.Client.Addr()) {
			n++
		}
	}
	return n
}

// syn returns what becomes of a SYN.
func (m *synModel) syn(s SYN) relayVerdict {
	if state, ok := m.syns[s]; ok {
		return map[relaySynState]relayVerdict{
			relaySynStateSYN_STATE_REPORTED: relayVerdictSYN_AGAIN, relaySynStateSYN_STATE_HELD: relayVerdictSYN_HELD_AGAIN,
			relaySynStateSYN_STATE_RELEASED: relayVerdictSYN_RELEASED,
		}[state]
	}
	if m.first && m.refused[s] {
		return relayVerdictSYN_REFUSED
	}
	if earlier, ok := m.of(s); ok {
		delete(m.syns, earlier)
	}
	switch {
	case m.ofSource(s.Client.Addr()) >= rigOptions.PerSource:
		return relayVerdictSYN_SOURCE_FULL
	case len(m.syns) >= rigOptions.Early:
		return relayVerdictSYN_FULL
	case m.first:
		m.syns[s] = relaySynStateSYN_STATE_HELD
		return relayVerdictSYN_HELD
	}
	m.syns[s] = relaySynStateSYN_STATE_REPORTED
	return relayVerdictSYN_REPORTED
}

// reset returns what becomes of a reset with the number behind that of a SYN.
func (m *synModel) reset(s SYN) relayVerdict {
	state, ok := m.syns[s]
	delete(m.syns, s)
	switch {
	case !ok:
		return relayVerdictPASS
	case state == relaySynStateSYN_STATE_HELD:
		return relayVerdictCANCELLED_HELD
	}
	return relayVerdictCANCELLED
}

// decide returns whether a decision about a SYN is taken.
func (m *synModel) decide(s SYN, release bool) bool {
	if state, ok := m.syns[s]; !ok || state != relaySynStateSYN_STATE_HELD {
		return false
	}
	if release {
		m.syns[s] = relaySynStateSYN_STATE_RELEASED
		return true
	}
	delete(m.syns, s)
	for r := range m.refused { // one of each tuple
		if r.Client == s.Client && r.Server == s.Server {
			delete(m.refused, r)
		}
	}
	m.refused[s] = true
	return true
}

// renewRefusals has refusals hold from now on: the model knows no time, and a slow machine takes longer than they last.
func (k *rig) renewRefusals() {
	k.t.Helper()
	var key relayTuple
	var r relayRefused
	all := make(map[relayTuple]relayRefused)
	it := k.objects.Refusals.Iterate()
	for it.Next(&key, &r) {
		r.Since = datapath.Clock()
		all[key] = r
	}
	k.must(it.Err())
	for key, r := range all {
		k.must(k.objects.Refusals.Put(key, r))
	}
}

// TestEarlySYNModel: whatever clients and user space do in whatever order, the kernel does as the model.
func TestEarlySYNModel(t *testing.T) {
	r := kerneltest.Rand(t)
	for _, first := range []bool{false, true} {
		k := newRig(t)
		k.early(map[bool]Early{false: EarlyOptimistic, true: EarlyConnectFirst}[first])
		m := &synModel{first: first, syns: make(map[SYN]relaySynState), refused: make(map[SYN]bool)}
		met := make(map[relayVerdict]int)
		renewed := time.Now()
		for range kerneltest.Rounds(4000) {
			if time.Since(renewed) > time.Second {
				k.renewRefusals()
				renewed = time.Now()
			}
			f := families[r.IntN(2)]
			s := f.syn(f.clientAt(r.IntN(3), uint16(4000+r.IntN(4))), 443, packet.Seq(r.IntN(3)))
			syn := SYN{s.Src, s.Dst, uint32(s.Seq)}
			switch op := r.IntN(10); {
			case op < 5:
				want := m.syn(syn)
				k.want(s, want)
				met[want]++
				reported := k.takeEvents()
				if isReported := want == relayVerdictSYN_REPORTED || want == relayVerdictSYN_HELD; isReported != (len(reported) == 1) ||
					isReported && (reported[0].SYN != syn || reported[0].Cancelled) {
					t.Fatalf("%v: %+v", verdictNames[want], reported)
				}
			case op < 6:
				s.Flags, s.Seq = packet.RST, s.Seq+1
				want := m.reset(syn)
				k.want(s, want)
				met[want]++
				if reported := k.takeEvents(); (want != relayVerdictPASS) != (len(reported) == 1) {
					t.Fatalf("%v: %+v", verdictNames[want], reported)
				}
			case op < 7:
				_, known := m.syns[syn]
				delete(m.syns, syn)
				if n, err := k.Settle(syn); err != nil || (n == 1) != known {
					t.Fatalf("%d settled, %v; known %v", n, err, known)
				}
			default:
				release := op < 8
				decide := map[bool]func(Event) error{false: k.Refuse, true: k.Release}[release]
				err := decide(Event{SYN: syn, Frame: packet.Build(s)})
				if m.decide(syn, release) != (err == nil) || err != nil && !errors.Is(err, ErrNotHeld) {
					t.Fatalf("release %v: %v", release, err)
				}
			}
			sources := make(map[netip.Addr]bool)
			for known := range m.syns {
				a := known.Client.Addr()
				sources[a] = true // those of IPv6 have a network each
			}
			if n := k.sizes(); n != (sizes{len(m.syns), len(sources)}) {
				t.Fatalf("%+v in the kernel; the model has %d of %d clients", n, len(m.syns), len(sources))
			}
		}
		for _, v := range []relayVerdict{relayVerdictSYN_FULL, relayVerdictSYN_SOURCE_FULL} {
			if met[v] == 0 {
				t.Errorf("%s was never met", verdictNames[v])
			}
		}
	}
}
