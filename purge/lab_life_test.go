package purge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// TestBefore: connections that are older than the purge, dormant ones among them, and others that no policy matched before a reload.
func TestBefore(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	peers.Nginx(n.a, slow)
	dormant, live := n.get(vip4, "/1g"), n.get(vip4, "/1g")
	dormant.goesOn(dormant.drain()) // its window is open: no probe of a closed one
	reads := live.drain()
	n.drop(n.toA, fmt.Sprintf("tcp sport %d", dormant.port()))
	lab.Eventually(t, soon, func() error { return n.retransmitted(4) })

	const scraped = "metrics: \"127.0.0.1:9468\"\n"
	p := n.purge(n.a, scraped+policyText(", addresses: [10.9.9.8]")) // another server's
	p.configure(scraped + policyText(""))
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.untilEnded(1)
	if s := p.status(); s.Policies[0].Found != 1 || s.Verdicts["armed"] < 2 || s.Verdicts["watch_failed"] != 0 || s.Reloads != 1 {
		t.Errorf("%+v, %v", s.Policies[0], s.Verdicts)
	}
	live.goesOn(reads)
	n.drop(n.toA, fmt.Sprintf("tcp sport %d", live.port()))
	p.untilEnded(2)
	n.gone(n.a, live)
	n.scrape(`baton_purge_connections_total{outcome="ended",policy="web"} 2`)

	// a configuration that is wrong changes nothing
	p.configure(scraped + "policies: []\n")
	client := api.NewClient(p.socket)
	defer client.Close()
	if _, err := client.Reload(t.Context()); !errors.Is(err, api.ErrConflict) {
		t.Errorf("a wrong configuration: %v", err)
	}
	if s := p.status(); len(s.Policies) != 1 || s.ReloadsFailed != 1 {
		t.Errorf("%+v", s)
	}
}

// scrape requires a line of a's metrics.
func (n *network) scrape(line string) {
	n.t.Helper()
	r, err := n.a.HTTPClient(soon).Get("http://127.0.0.1:9468/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(text), "\n"+line+"\n") {
		n.t.Errorf("%q is not in, %v:\n%s", line, err, text)
	}
}

// TestKilled: without the purge, however it ended, connections behave as usual; the next one starts over.
func TestKilled(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	peers.Nginx(n.a, slow)
	p := n.purge(n.a, policyText(""))
	d := n.get(vip4, "/1g")
	reads := d.drain()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	d.goesOn(reads) // its window is open: no probe of a closed one
	n.drop(n.toA, "meta l4proto tcp")
	lab.Eventually(t, soon, func() error { return n.retransmitted(3) })
	n.drop(n.toA, "")
	d.goesOn(reads)

	p = n.purge(n.a, policyText(""))
	n.drop(n.toA, "meta l4proto tcp")
	p.untilEnded(1)
	if err := p.Stop(soon); err != nil {
		t.Errorf("%v\n%s", err, p.Log())
	}
	if _, err := os.Stat(p.socket); err == nil {
		t.Errorf("%s is left", p.socket)
	}
}

// TestTwo: two purges on one host may match the same connection. It is ended once.
func TestTwo(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	peers.Nginx(n.a, slow)
	one, two := n.purge(n.a, policyText("")), n.purge(n.a, policyText(""))
	d := n.get(vip4, "/1g")
	d.drain()
	n.drop(n.toA, "meta l4proto tcp")
	lab.Eventually(t, soon, func() error {
		a, b := one.status().Policies[0], two.status().Policies[0]
		if a.Marked != 1 || b.Marked != 1 || a.Ended+b.Ended != 1 || a.Gone+b.Gone != 1 {
			return fmt.Errorf("%+v\n%+v", a, b)
		}
		return nil
	})
	n.gone(n.a, d)
}

// TestOrphans: the server's application has closed, and what it has written last waits for a client that has moved.
func TestOrphans(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, state string
		halfClosed  bool // the client has ended its direction before
		raw         uint64
	}{
		{"FIN-WAIT-1", "FIN-WAIT-1", false, 1},
		{"LAST-ACK", "LAST-ACK", true, 2}, // of which the kernel sends no reset
	}
	var running sync.WaitGroup // t.Parallel runs as many as there are processors, and these wait for most of their time
	for _, tt := range tests {
		running.Go(func() {
			t.Run(tt.name, func(t *testing.T) {
				n := newNetwork(t)
				p := n.purge(n.a, "policies: [{name: web, ports: [7777]}]\n")
				s := n.writer(n.a, 7777)
				d := n.connectTo(vip4, 7777)
				s.accept()
				if tt.halfClosed {
					if err := d.conn.(*net.TCPConn).CloseWrite(); err != nil {
						t.Fatal(err)
					}
					if _, err := s.conn.Read(make([]byte, 1)); err == nil {
						t.Fatal("a byte")
					}
				}
				n.drop(n.toA, "meta l4proto tcp")
				n.drop(n.toClient, notReset)
				s.write(10_000)
				if err := s.conn.Close(); err != nil {
					t.Fatal(err)
				}
				p.untilEnded(1)
				d.gotReset()
				n.gonePort(n.a, 7777)
				if !strings.Contains(p.Log(), "state="+tt.state) {
					t.Errorf("it was in another state:\n%s", p.Log())
				}
				lab.Eventually(t, soon, func() error {
					if sent := p.status().Resets; sent != tt.raw {
						return fmt.Errorf("%d resets of its own, want %d", sent, tt.raw)
					}
					return nil
				})
			})
		})
	}
	running.Wait()
}

// TestReused: a client that has vanished comes again from the same port, and has another connection when the mark is due.
func TestReused(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	p := n.purge(n.a, "policies: [{name: web, ports: [7777], floor: 6s}]\n")
	s := n.writer(n.a, 7777)
	d := n.connectTo(vip4, 7777)
	s.accept()
	first := s.conn
	local := d.conn.LocalAddr().String()
	n.drop(n.toA, "meta l4proto tcp")
	if _, err := first.Write(make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	p.until("marked", func(p *api.PurgePolicy) uint64 { return p.Marked }, 1)
	n.vanish(d)
	n.drop(n.toA, "")
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	again, err := n.client.DialFrom(ctx, "tcp", local, net.JoinHostPort(vip4, "7777"))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	s.accept()
	p.until("gone", func(p *api.PurgePolicy) uint64 { return p.Gone }, 1)
	if _, err := s.conn.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	again.SetReadDeadline(time.Now().Add(soon))
	if _, err := again.Read(make([]byte, 1)); err != nil {
		t.Errorf("the later connection: %v", err)
	}
	if got := p.status().Policies[0]; got.Ended != 0 {
		t.Errorf("%+v", got)
	}
}

// vanish has a client drop its connection without sending anything.
func (n *network) vanish(d *download) {
	n.t.Helper()
	raw, err := d.conn.(*net.TCPConn).SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_TCP, unix.TCP_REPAIR, 1) })
		err = errors.Join(err, failed)
	}
	if err := errors.Join(err, d.conn.Close()); err != nil {
		n.t.Fatal(err)
	}
}
