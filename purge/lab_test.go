package purge

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// Packets of TCP that are no reset, in nft's language.
const notReset = "meta l4proto tcp tcp flags & rst == 0"

// withoutRaw runs a program that may not open raw sockets.
var withoutRaw = []string{"setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"}

// TestMoved: the route is moved while a download goes on. The new server resets the client, and the old server keeps no state.
func TestMoved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, vip string
		prepare   func(n *network)
		apache    bool
	}{
		{"IPv4", vip4, func(*network) {}, false},
		{"IPv6", vip6, func(*network) {}, false},
		{"without timestamps", vip4, func(n *network) {
			n.client.Sysctl("net.ipv4.tcp_timestamps", "0")
			n.a.Sysctl("net.ipv4.tcp_timestamps", "0")
		}, false},
		{"SYN cookies", vip4, func(n *network) {
			n.a.Sysctl("net.ipv4.tcp_syncookies", "2")
			n.b.Sysctl("net.ipv4.tcp_syncookies", "2")
		}, false},
		{"without SACK", vip4, func(n *network) { n.a.Sysctl("net.ipv4.tcp_sack", "0") }, false},
		// faster than the client reads its window would be shut
		{"Apache, IPv4 on a socket of IPv6", vip4, func(n *network) {
			n.nft(n.client, fmt.Sprintf("add table netdev slow; add chain netdev slow in { type filter hook ingress device %q priority -400; }"+
				"; add rule netdev slow in limit rate over 4 mbytes/second burst 500 kbytes drop", n.toClient.Name))
		}, true},
	}
	var running sync.WaitGroup // t.Parallel runs as many as there are processors, and these wait for most of their time
	for _, tt := range tests {
		running.Go(func() {
			t.Run(tt.name, func(t *testing.T) {
				n := newNetwork(t)
				tt.prepare(n)
				for _, h := range []*lab.Host{n.a, n.b} {
					if tt.apache {
						peers.Apache(h, peers.ApacheOptions{})
					} else {
						peers.Nginx(h, slow)
					}
				}
				p := n.purge(n.a, policyText(""))
				d := n.connect(tt.vip)
				d.ask("/1g")
				d.read(100_000)
				r := d.drain()
				d.goesOn(r) // or its window is shut, and nothing of it may be ended
				begun := time.Now()
				n.move(3)
				r.gotReset()
				took := time.Since(begun)
				p.untilEnded(1)
				n.gone(n.a, d)
				t.Logf("reset after %v", took)
				// back to the old server: a resumed download, unhindered by the old connection
				n.move(2)
				n.get(tt.vip, "/1g").conn.Close()
			})
		})
	}
	running.Wait()
}

// TestResetReachesClient: which reset ends a client that receives only resets, and whose acknowledgements no longer reach the old server.
func TestResetReachesClient(t *testing.T) {
	t.Parallel()
	const (
		all    = iota // the client has all that was sent, and acknowledges it to nobody
		none          // the client lacks all that was not acknowledged
		middle        // the client lacks what was sent last
	)
	invalid := func(n *network) {
		n.b.Sysctl("net.netfilter.nf_conntrack_tcp_loose", "0")
		n.nft(n.b, "add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in ct state invalid drop")
	}
	stays := func(*network) {}
	tests := []struct {
		name    string
		lacks   int
		moved   bool
		prepare func(n *network)
		raw     bool // the purge sends resets of its own
		reset   bool
	}{
		{"has all", all, true, invalid, false, true},
		{"lacks all: its challenge goes to the new server", none, true, stays, false, true},
		{"lacks all: its challenge comes back to a host without the connection", none, false, stays, false, true},
		{"lacks all, and the new server drops what it does not know", none, true, invalid, false, false},
		{"lacks all, and the new server drops what it does not know; own resets", none, true, invalid, true, true},
		{"lacks the end: its challenge goes to the new server", middle, true, stays, false, true},
		{"lacks the end, and the new server drops what it does not know; own resets", middle, true, invalid, true, false},
	}
	var running sync.WaitGroup // t.Parallel runs as many as there are processors, and these wait for most of their time
	for _, tt := range tests {
		running.Go(func() {
			t.Run(tt.name, func(t *testing.T) {
				n := newNetwork(t)
				tt.prepare(n)
				peers.Nginx(n.b, slow)
				var wrapper []string
				if !tt.raw {
					wrapper = withoutRaw
				}
				p := n.purge(n.a, "policies: [{name: web, ports: [7777], floor: 1500ms}]\n", wrapper...)
				if f := p.status().Features[0]; f.Used != tt.raw {
					t.Fatalf("the purge is not as it should be: %+v", f)
				}
				s := n.writer(n.a, 7777)
				d := n.connectTo(vip4, 7777)
				s.accept()
				s.write(100_000)
				d.read(100_000)
				s.settled()

				// acknowledgements are lost from here on
				n.drop(n.toA, "meta l4proto tcp")
				switch tt.lacks {
				case all:
					s.write(20_000)
					d.read(20_000)
				case none:
					n.drop(n.toClient, notReset)
					s.write(20_000)
				case middle:
					s.write(10_000)
					d.read(10_000)
					n.drop(n.toClient, notReset)
					s.write(10_000)
				}
				if tt.lacks == all {
					n.drop(n.toClient, notReset) // nor does the client hear what is sent again
				}
				if tt.moved {
					n.move(3)
				} else {
					n.drop(n.toA, "")
					n.drop(n.toClient, notReset)
				}
				n.counted(p, tt.reset, d)
				n.gonePort(n.a, 7777)
			})
		})
	}
	running.Wait()
}

// counted waits for the end of the connection, and checks whether the client got a reset.
func (n *network) counted(p *running, reset bool, d *download) {
	n.t.Helper()
	p.untilEnded(1)
	if reset {
		n.t.Logf("reset %v after the end", d.gotReset())
		return
	}
	d.gotNothing()
}

// TestUntouched: connections that only look dormant.
func TestUntouched(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	peers.Nginx(n.a, peers.NginxOptions{Workers: 1, NoAccessLog: true})
	p := n.purge(n.a, policyText(", floor: 1ms"))
	idle, shut := n.connect(vip4), n.connect(vip4)
	idle.ask("/128")
	idle.read(1)
	shut.ask("/100m") // and nobody reads
	lab.Eventually(t, soon, func() error {
		out, err := n.a.Exec(t.Context(), "ss", "-Htnoi", "sport = 80")
		if err != nil {
			return err
		}
		if !strings.Contains(out, "persist") || !strings.Contains(out, fmt.Sprint(shut.port())) {
			return fmt.Errorf("no window is shut:\n%s", out)
		}
		return nil
	})
	// a third connection is purged meanwhile, so that time has gone by: several of the others' timeouts
	for range 4 {
		d := n.connect(vip4)
		d.ask("/100m")
		d.read(1000)
		d.drain()
		n.drop(n.toA, fmt.Sprintf("tcp sport %d", d.port()))
		before := p.status().Policies[0].Ended
		p.untilEnded(before + 1)
	}
	shut.read(100 << 20)
	idle.ask("/128")
	idle.read(1)
	if s := p.status(); s.Policies[0].Ended != 4 {
		t.Errorf("%+v", s.Policies[0])
	}
}

// TestSuspended: a client that is away for less than the floor goes on; so does one that is exempt, and one in a dry run.
func TestSuspended(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		want         func(p *api.PurgePolicy, verdicts map[string]uint64) bool
	}{
		{"shorter than the floor", policyText(", floor: 8s"),
			func(p *api.PurgePolicy, _ map[string]uint64) bool { return p.Marked > 0 && p.Heard == p.Marked }},
		{"exempt", policyText(", exempt: [10.1.0.0/16], floor: 1ms"),
			func(p *api.PurgePolicy, v map[string]uint64) bool { return p.Marked == 0 && v["exempt"] > 0 }},
		{"dry run", "dry_run: true\n" + policyText(""),
			func(p *api.PurgePolicy, _ map[string]uint64) bool { return p.Spared > 0 }},
		{"another port", "policies: [{name: web, ports: [81-90, 443]}]\n",
			func(p *api.PurgePolicy, v map[string]uint64) bool { return p.Marked == 0 && v["unwatched"] > 0 }},
		{"another address", policyText(", addresses: [10.9.9.8]"),
			func(p *api.PurgePolicy, v map[string]uint64) bool { return p.Marked == 0 && v["unwatched"] > 0 }},
	}
	var running sync.WaitGroup // t.Parallel runs as many as there are processors, and these wait for most of their time
	for _, tt := range tests {
		running.Go(func() {
			t.Run(tt.name, func(t *testing.T) {
				n := newNetwork(t)
				peers.Nginx(n.a, slow)
				p := n.purge(n.a, tt.config)
				d := n.get(vip4, "/1g")
				r := d.drain()
				d.goesOn(r) // its window is open, so that what is missing is sent again: no probe of a closed one
				n.drop(n.toA, "meta l4proto tcp")
				lab.Eventually(t, soon, func() error { return n.retransmitted(3) })
				n.drop(n.toA, "")
				d.goesOn(r)
				lab.Eventually(t, soon, func() error {
					s := p.status()
					if got := &s.Policies[0]; got.Ended != 0 || !tt.want(got, s.Verdicts) {
						return fmt.Errorf("%+v, %v\n%s", s.Policies[0], s.Verdicts, p.Log())
					}
					return nil
				})
			})
		})
	}
	running.Wait()
}

// retransmitted is nil when a connection of a's service has so many timeouts behind it.
func (n *network) retransmitted(timeouts int) error { return n.retransmittedAt(80, timeouts) }

func (n *network) retransmittedAt(port, timeouts int) error {
	out, err := n.a.Exec(n.t.Context(), "ss", "-Htnoi", fmt.Sprintf("sport = %d", port))
	if err != nil {
		return err
	}
	for at := timeouts; at < 10; at++ {
		if strings.Contains(out, fmt.Sprintf("backoff:%d", at)) {
			return nil
		}
	}
	return fmt.Errorf("less than %d timeouts:\n%s", timeouts, out)
}
