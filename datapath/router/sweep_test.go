package router

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// since is the kernel's time d ago.
func since(age time.Duration) uint32 { return datapath.Clock() - uint32(age.Milliseconds()) }

// sized is a separate rig with maps of another size.
func sized(t testing.TB, o Options) *rig {
	t.Helper()
	kerneltest.Need(t)
	k := &rig{t: t, Router: &Router{options: o}}
	k.must(k.load(nil))
	t.Cleanup(func() { k.Close() })
	k.must(k.SetConfig(Config{MSS: testMSS}))
	return k
}

// lingering creates the flow of a client that ended so long ago, without a queue entry.
func (k *rig) lingering(f family, side routerSide, age time.Duration) routerEnded {
	k.t.Helper()
	e := routerEnded{Client: tuple(f.client, f.vip), Since: since(age)}
	k.must(k.maps.Flows.Update(e.Client, endedFlow(e.Since, side), ebpf.UpdateAny))
	return e
}

// Every way to end a session puts its client into the lingering queue.
func TestEndedClientsAreQueued(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name string
			end  func(k *rig, c *client, s *surrogate)
			side routerSide
		}{
			{"FIN", func(k *rig, c *client, s *surrogate) {
				c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
			}, routerSideSIDE_LINGER},
			{"RST", func(k *rig, c *client, s *surrogate) {
				c.send(packet.RST, "", routerVerdictRECYCLED, actShot)
			}, routerSideSIDE_LINGER},
			{"the surrogate's RST", func(k *rig, c *client, s *surrogate) {
				s.send(packet.RST, "", routerVerdictTO_CLIENT, actRedirect)
			}, routerSideSIDE_RESET},
			{"time", func(k *rig, c *client, s *surrogate) {
				k.aged(1, 2*testTimeouts.Idle)
				if n, err := k.Sweep(testTimeouts); err != nil || n != 1 {
					t.Fatalf("ended: %d, %v", n, err)
				}
			}, routerSideSIDE_RESET},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k, c, s := spliced(t, f)
				tc.end(k, c, s)
				k.knows(c, tc.side)
			})
		}
		t.Run("FIN without a request", func(t *testing.T) {
			k := newRig(t)
			k.vip(f)
			c := newClient(k, f, f.usual())
			c.connect(routerVerdictSYN_ANSWERED)
			c.send(packet.ACK|packet.FIN, "", routerVerdictFIN_ANSWERED, actRedirect)
			k.knows(c, routerSideSIDE_LINGER)
		})
	})
}

// knows checks that the client lingers where it has ended, and is in the queue once.
func (k *rig) knows(c *client, side routerSide) {
	k.t.Helper()
	fl, ok := k.flow(c.f.client, c.f.vip)
	if !ok || routerSide(fl.Side) != side || packet.Seq(fl.Seq) != c.seq {
		k.t.Fatalf("flow: %+v, want side %d and sequence number %d", fl, side, c.seq)
	}
	want := routerEnded{Client: tuple(c.f.client, c.f.vip), Since: endedMs(&fl)}
	if got := k.endedClients(); len(got) != 1 || got[0] != want {
		k.t.Errorf("queue: %+v, want %+v", got, want)
	}
}

// Queue entries may be stale: the flow decides.
func TestSweepLingering(t *testing.T) {
	k := newRig(t)
	f := families[0]
	for n, c := range []struct {
		name  string
		side  routerSide
		age   time.Duration // of the flow
		ended time.Duration // of the queue's entry
		stays bool
	}{
		{"lingered", routerSideSIDE_LINGER, 4 * time.Second, 4 * time.Second, false},
		{"lingered after a reset", routerSideSIDE_RESET, 4 * time.Second, 4 * time.Second, false},
		{"again since", routerSideSIDE_LINGER, 2 * time.Second, 4 * time.Second, true},
		{"a session since", routerSideSIDE_CLIENT, time.Hour, 4 * time.Second, true},
		{"a socket's since", routerSideSIDE_LOCAL, time.Hour, 4 * time.Second, true},
		{"lingers", routerSideSIDE_LINGER, 2 * time.Second, 2 * time.Second, true},
		{"lingers after a reset", routerSideSIDE_RESET, 2 * time.Second, 2 * time.Second, true},
	} {
		k.empty()
		f := f.nth(n)
		e := k.lingering(f, c.side, c.age)
		e.Since = since(c.ended)
		k.must(k.maps.Lingering.Update(nil, e, ebpf.UpdateAny))
		k.must(k.SweepClients(testTimeouts))
		if _, ok := k.flow(f.client, f.vip); ok != c.stays {
			t.Errorf("%s: there %t, want %t", c.name, ok, c.stays)
		}
		if left := len(k.endedClients()) > 0; left != (c.ended < 3*time.Second) {
			t.Errorf("%s: still in the queue: %t", c.name, left)
		}
	}
	k.must(k.maps.Flows.Update(tuple(f.client, f.vip), localFlow(0), ebpf.UpdateAny))
	k.must(k.ForgetLocal())
	if _, ok := k.flow(f.client, f.vip); ok {
		t.Error("the local flow is still there")
	}
}

// More than one run of clients have ended: one call forgets all.
func TestSweepLingeringAtOnce(t *testing.T) {
	const n = 3*endedRun + 1
	k := sized(t, Options{Sessions: n, Pending: 1, Legs: 1})
	for i := range n {
		k.must(k.maps.Lingering.Update(nil, k.lingering(families[0].nth(i), routerSideSIDE_LINGER, 4*time.Second), ebpf.UpdateAny))
	}
	k.must(k.SweepClients(testTimeouts))
	if left := count(k, k.maps.Flows); left != 0 {
		t.Errorf("%d flows are left", left)
	}
}

// keyOf is the client's key in a table of clients.
func keyOf(k *rig, m *ebpf.Map, client routerTuple) any {
	if m == k.maps.SynOptions {
		return routerSynOptionsKey{Client: client}
	}
	return client
}

func count(k *rig, m *ebpf.Map) (n int) {
	k.t.Helper()
	key := make([]byte, m.KeySize())
	var err error
	for err = m.NextKey(nil, &key); err == nil; err = m.NextKey(key, &key) {
		n++
	}
	return n
}

// A full queue loses nothing: the flows are walked once all have lingered.
func TestFullQueueOfLingering(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := spliced(t, f)
		for k.maps.Lingering.Update(nil, routerEnded{Client: tuple(f.nth(9).client, f.vip), Since: since(2 * time.Second)}, ebpf.UpdateAny) == nil {
		}
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		now := time.Now()
		k.must(k.sweepLingering(now))
		k.lingering(f, routerSideSIDE_LINGER, 4*time.Second)
		k.lingering(f.nth(1), routerSideSIDE_RESET, 4*time.Second)
		k.lingering(f.nth(2), routerSideSIDE_LINGER, 2*time.Second)
		there := func(now time.Time) (all [3]bool) {
			k.must(k.sweepLingering(now))
			for i := range all {
				_, all[i] = k.flow(f.nth(i).client, f.vip)
			}
			return all
		}
		if got := there(now.Add(3 * time.Second)); got != [3]bool{true, true, true} {
			t.Errorf("after 3s: there %v, want all", got)
		}
		if got := there(now.Add(lingerAtMost)); got != [3]bool{false, false, true} {
			t.Errorf("after %v: there %v, want the last", lingerAtMost, got)
		}
		k.lingering(f, routerSideSIDE_LINGER, 4*time.Second)
		if got := there(now.Add(time.Hour)); got[0] != true {
			t.Error("walked again, for nothing")
		}
	})
}

func TestSweepClients(t *testing.T) {
	k := newRig(t)
	f := families[0]
	for n, c := range []struct {
		m     *ebpf.Map
		state routerClientState
		age   time.Duration
		stays bool
	}{
		{k.maps.Clients, routerClientStateCLIENT_SYN, 129 * time.Second, true},
		{k.maps.Clients, routerClientStateCLIENT_SYN, 131 * time.Second, false},
		{k.maps.Clients, routerClientStateCLIENT_UPCALL, 4 * time.Second, true},
		{k.maps.Clients, routerClientStateCLIENT_UPCALL, 6 * time.Second, false},
		{k.maps.Clients, routerClientStateCLIENT_LOCAL, 6 * time.Second, false},
		{k.maps.Clients, routerClientStateCLIENT_UPCALL, -100 * time.Millisecond, true}, // changed by another CPU
		{k.maps.SynOptions, routerClientStateCLIENT_SYN, 129 * time.Second, true},
		{k.maps.SynOptions, routerClientStateCLIENT_SYN, 131 * time.Second, false},
	} {
		key := keyOf(k, c.m, tuple(f.nth(n).client, f.vip))
		k.must(c.m.Update(key, &routerClient{State: uint8(c.state), Since: since(c.age)}, ebpf.UpdateAny))
		for range 2 { // tables
			k.must(k.SweepClients(testTimeouts))
		}
		var got routerClient
		if there := c.m.Lookup(key, &got) == nil; there != c.stays {
			t.Errorf("%v, state %d, %v old: there %t, want %t", c.m, c.state, c.age, there, c.stays)
		}
	}
}

// User space works on a copy: entries changed since then stay.
func TestForgetLooksAgain(t *testing.T) {
	k := newRig(t)
	f := families[0]
	key := tuple(f.client, f.vip)
	for _, tc := range []struct {
		kind     routerCommandKind
		m        *ebpf.Map
		now, old any
	}{
		{routerCommandKindCOMMAND_FORGET_FLOWS, k.maps.Flows, routerFlow{Splice: since(time.Hour), Side: uint32(routerSideSIDE_CLIENT)},
			endedFlow(since(time.Hour), routerSideSIDE_LINGER)},
		{routerCommandKindCOMMAND_FORGET_FLOWS, k.maps.Flows, endedFlow(datapath.Clock(), routerSideSIDE_LINGER),
			endedFlow(since(time.Hour), routerSideSIDE_RESET)},
		{routerCommandKindCOMMAND_FORGET_CLIENTS, k.maps.Clients, &routerClient{Since: datapath.Clock()}, &routerClient{Since: since(time.Hour)}},
		{routerCommandKindCOMMAND_FORGET_SYN_OPTIONS, k.maps.SynOptions, &routerClient{Since: datapath.Clock()}, &routerClient{Since: since(time.Hour)}},
	} {
		for stays, value := range map[bool]any{true: tc.now, false: tc.old} {
			k.must(tc.m.Update(keyOf(k, tc.m, key), value, ebpf.UpdateAny))
			c := routerSpliceCommand{Kind: uint16(tc.kind), Handshake: millis(time.Second)}
			k.must(k.forget(c, unnumbered([]routerTuple{tuple(f.nth(7).client, f.vip), key})))
			if there := count(k, tc.m) > 0; there != stays {
				t.Errorf("command %d, %+v: there %t, want %t", tc.kind, value, there, stays)
			}
		}
	}
}

// With more than a share, each call does the next one, and a pass covers everything.
func TestSweepsGoRound(t *testing.T) {
	const n = 2*spliceShare + 100 // and of clientShare
	k := sized(t, Options{Sessions: n, Pending: n, Legs: 1})
	client := k.fill(n)
	k.must(k.used(n - 1))
	for pass := range uint32(3) {
		ended := 0
		for _, number := range []uint32{pass, spliceShare + pass, n - 1 - pass} {
			k.aged(number, time.Hour)
		}
		for range (n + spliceShare - 1) / spliceShare {
			got, err := k.Sweep(testTimeouts)
			k.must(err)
			ended += got
		}
		if ended != 3 {
			t.Errorf("pass %d: %d sessions ended, want 3", pass, ended)
		}
	}
	for _, m := range []*ebpf.Map{k.maps.Clients, k.maps.SynOptions} {
		for i := range n {
			age := time.Duration(i%2) * time.Hour
			k.must(m.Update(keyOf(k, m, tuple(client(i), families[0].vip)), &routerClient{Since: since(age)}, ebpf.UpdateAny))
		}
	}
	for range 2 * ((n + clientShare - 1) / clientShare) {
		k.must(k.SweepClients(testTimeouts))
	}
	for name, m := range map[string]*ebpf.Map{"clients": k.maps.Clients, "syn_options": k.maps.SynOptions} {
		if got := count(k, m); got != n/2 {
			t.Errorf("%s: %d are left, want %d", name, got, n/2)
		}
	}
}

// A run of the fallback does not exceed the keys per command.
func TestForgetManyKeys(t *testing.T) {
	const n = 2*int(routerBoundCOMMAND_KEYS) + 1
	k := sized(t, Options{Sessions: n, Pending: 1, Legs: 1})
	var keys []routerTuple
	for i := range n {
		keys = append(keys, k.lingering(families[0].nth(i), routerSideSIDE_LINGER, time.Hour).Client)
	}
	k.must(k.forget(routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_FORGET_FLOWS)}, unnumbered(keys)))
	if left := count(k, k.maps.Flows); left != 0 {
		t.Errorf("%d of %d are left", left, n)
	}
}
