package worker

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/relay/config"
)

// stats asks all workers, and adds up what can be.
func stats(t *testing.T, workers []*Worker) (entries map[string]EntryStats, trunked EntryStats, peers map[string][]PeerStats) {
	t.Helper()
	entries, peers = make(map[string]EntryStats), make(map[string][]PeerStats)
	for _, w := range workers {
		s, err := w.Stats()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Entries {
			sum := entries[e.Name]
			entries[e.Name] = EntryStats{Name: e.Name, Open: e.Open, Flows: sum.Flows + e.Flows, Live: sum.Live + e.Live}
		}
		trunked = EntryStats{Open: s.Trunked.Open, Flows: trunked.Flows + s.Trunked.Flows, Live: trunked.Live + s.Trunked.Live}
		for _, p := range s.Peers {
			peers[p.Name] = append(peers[p.Name], p)
		}
	}
	return entries, trunked, peers
}

func flows(t *testing.T, workers []*Worker) (all []Flow) {
	t.Helper()
	for _, w := range workers {
		if err := w.EachFlow(func(f Flow) bool { all = append(all, f); return true }); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// What the relays of a way tell of a flow, while it is and after it was.
func TestStats(t *testing.T) {
	c := newChain(t, 3, nil)
	c.ready()
	client, server := c.pair()
	say(t, client, "ask")
	expectRead(t, server, "ask")
	say(t, server, "an answer")
	expectRead(t, client, "an answer")

	own := client.LocalAddr().(*net.TCPAddr).AddrPort()
	var ids [][16]byte
	for hop, want := range []struct{ entry, passed, via string }{{"e", "", "r2,r3"}, {"", "r1", "r3"}, {"", "r1,r2", ""}} {
		eventually(t, "the answer is counted", func() bool {
			all := flows(t, c.hops[hop])
			return len(all) == 1 && all[0].FromServer == 9
		})
		f := flows(t, c.hops[hop])[0]
		if f.Entry != want.entry || f.Passed != want.passed || f.Via != want.via || f.Stage != "moving" || f.Probe {
			t.Errorf("relay %d: %+v, want %+v", hop+1, f, want)
		}
		if f.Client != own || f.Server != c.entry.Destination || f.FromClient != 3 {
			t.Errorf("relay %d: %v to %v, %d bytes: %v to %v, 3 bytes", hop+1, f.Client, f.Server, f.FromClient, own, c.entry.Destination)
		}
		if age := time.Since(f.Begun); age < 0 || age > soon || f.Idle < 0 || f.Idle > age+time.Millisecond {
			t.Errorf("relay %d: begun %v ago, idle for %v", hop+1, age, f.Idle)
		}
		ids = append(ids, f.ID)
	}
	if ids[0] == ([16]byte{}) || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("ids %x: one on the whole way", ids)
	}

	entries, trunked, peers := stats(t, c.hops[0])
	if e := entries["e"]; e != (EntryStats{Name: "e", Open: true, Flows: 1, Live: 1}) || len(entries) != 1 {
		t.Errorf("entries %+v", entries)
	}
	if !trunked.Open || trunked.Flows != 0 {
		t.Errorf("by trunks %+v: none", trunked)
	}
	for _, p := range peers["r2"] {
		if p.RTT <= 0 || p.RTT > time.Second || p.Down || p.Failure != "" || p.Waiting != 0 {
			t.Errorf("peer %+v", p)
		}
	}
	if n := len(peers["r2"]); n != len(c.hops[0]) || len(peers) != 1 {
		t.Errorf("%d workers have trunks to r2, %d peers", n, len(peers))
	}
	if _, trunked, _ := stats(t, c.hops[2]); trunked.Flows != 1 || trunked.Live != 1 {
		t.Errorf("by trunks %+v: one", trunked)
	}

	client.Close()
	expectEnd(t, server, io.EOF)
	server.Close()
	c.settled()
	for hop := range c.hops {
		if all := flows(t, c.hops[hop]); len(all) != 0 {
			t.Errorf("relay %d: flows are left: %+v", hop+1, all)
		}
	}
	if entries, _, _ = stats(t, c.hops[0]); entries["e"].Flows != 1 || entries["e"].Live != 0 {
		t.Errorf("afterwards %+v", entries)
	}
}

// Of a peer that is not there it is told why.
func TestPeerIsDown(t *testing.T) {
	c := newChain(t, 2, func(hop int, cfg *config.Config) {
		if hop == 1 {
			cfg.Peers[0].Address = netip.MustParseAddrPort("127.0.0.1:1")
		}
	})
	before := time.Now()
	c.refused()
	_, _, peers := stats(t, c.hops[0])
	down := slices.DeleteFunc(peers["r2"], func(p PeerStats) bool { return !p.Down })
	if len(down) == 0 {
		t.Fatalf("peers %+v: none is down", peers)
	}
	for _, p := range down {
		if p.Failure != "connection refused" || p.RTT != 0 || p.Count.Failed.Load() == 0 {
			t.Errorf("%+v", p)
		}
		if p.Failed.Before(before.Add(-soon)) || p.Failed.After(time.Now()) {
			t.Errorf("failed at %v", p.Failed)
		}
	}
	c.settled()
}

// Each flow is told of once, however many there are, and not of more than is asked for.
func TestEachFlow(t *testing.T) {
	r := newRelay(t, 1, defaults())
	const many = chunk/2 + 100 // of two slots each
	want := make(map[netip.AddrPort]bool)
	for range many {
		client, _ := r.pair()
		want[client.LocalAddr().(*net.TCPAddr).AddrPort()] = true
	}
	eventually(t, "all flows are moving", func() bool {
		return !slices.ContainsFunc(flows(t, r.workers), func(f Flow) bool { return f.Stage != "moving" })
	})
	for _, f := range flows(t, r.workers) {
		if !want[f.Client] {
			t.Errorf("%v: twice, or none of the test's", f.Client)
		}
		delete(want, f.Client)
	}
	if len(want) != 0 {
		t.Errorf("%d flows are not told of", len(want))
	}
	n := 0
	if err := r.workers[0].EachFlow(func(Flow) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("%d flows, %v: 3 were asked for", n, err)
	}
}

// The flows of an entry that a reload has closed are counted as long as there are any.
func TestEntriesComeAndGo(t *testing.T) {
	cfg := defaults()
	cfg.Entries = []config.Entry{{Name: "e"}}
	r := newRelay(t, 1, cfg)
	w := r.workers[0]
	client, server := r.pair()
	say(t, client, "x")
	expectRead(t, server, "x")
	next := defaults()
	next.Entries = nil
	step := func(do error) map[string]EntryStats {
		t.Helper()
		if do != nil {
			t.Fatal(do)
		}
		entries, _, _ := stats(t, r.workers)
		return entries
	}
	if got := step(w.Configure(next)); got["e"].Live != 1 || !got["e"].Open {
		t.Errorf("%+v: the flow and the listener are there", got)
	}
	if got := step(w.Unlisten("e")); got["e"].Live != 1 || got["e"].Open {
		t.Errorf("%+v: the flow is there", got)
	}
	if got := step(w.Listen(&r.entry)); got["e"].Flows != 1 || !got["e"].Open {
		t.Errorf("%+v: the flow is counted", got)
	}
	if err := w.Unlisten("e"); err != nil {
		t.Fatal(err)
	}
	client.Close()
	server.Close()
	r.settled()
	if got := step(w.Configure(next)); len(got) != 0 {
		t.Errorf("%+v: nothing is left of it", got)
	}
}
