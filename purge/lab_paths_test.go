package purge

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// TestCut: one direction or both are lost for good, and no other host has the address. The connection is purged; a client that still receives packets gets a reset.
func TestCut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		toA, toUser bool
		reset       bool
	}{
		{"acknowledgements", true, false, true},
		{"data, and resets with them", false, true, false},
		{"both", true, true, false},
	}
	var running sync.WaitGroup
	for _, tt := range tests {
		running.Go(func() {
			t.Run(tt.name, func(t *testing.T) {
				n := newNetwork(t)
				peers.Nginx(n.a, slow)
				p := n.purge(n.a, policyText(""))
				d := n.get(vip4, "/1g")
				r := d.drain()
				if tt.toA {
					n.drop(n.toA, "meta l4proto tcp")
				}
				if tt.toUser {
					n.drop(n.toClient, "meta l4proto tcp")
				}
				p.untilEnded(1)
				n.gone(n.a, d)
				if tt.reset {
					r.gotReset()
					return
				}
				select {
				case err := <-r.ended:
					t.Errorf("the client got something: %v", err)
				default:
				}
			})
		})
	}
	running.Wait()
}

// TestSends: a client that sends is there, though what it is sent is lost. Its packets acknowledge nothing new: the kernel counts them as no
// acknowledgement.
func TestSends(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	p := n.purge(n.a, "policies: [{name: web, ports: [7777]}]\n")
	s := n.writer(n.a, 7777)
	d := n.connectTo(vip4, 7777)
	s.accept()
	s.write(1000)
	d.read(1000)
	s.settled()
	ctx, cancel := context.WithCancel(t.Context())
	var client sync.WaitGroup
	client.Go(func() {
		for ctx.Err() == nil {
			if _, err := d.conn.Write([]byte{1}); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	client.Go(func() {
		b := make([]byte, 4096)
		for ctx.Err() == nil {
			if _, err := s.conn.Read(b); err != nil && ctx.Err() == nil {
				t.Errorf("the server reads: %v", err)
				return
			}
		}
	})
	n.drop(n.toClient, "meta l4proto tcp meta length > 500")
	s.write(1000)
	p.until("answered", func(p *api.PurgePolicy) uint64 { return min(p.Heard, 2) }, 2)
	n.drop(n.toClient, "")
	d.read(1000)
	cancel()
	if _, err := d.conn.Write([]byte{1}); err != nil { // so that the server's last read ends
		t.Error(err)
	}
	client.Wait()
	if got := p.status().Policies[0]; got.Ended != 0 {
		t.Errorf("%+v", got)
	}
}

// TestQueueFull: more connections are dormant at once than the queue holds.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	s := n.writer(n.a, 7777)
	const most, dormant = 2, 9
	var conns []net.Conn
	for range dormant {
		n.connectTo(vip4, 7777)
		s.accept()
		conns = append(conns, s.conn)
	}
	n.drop(n.toA, "meta l4proto tcp")
	for _, c := range conns {
		if _, err := c.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	lab.Eventually(t, soon, func() error { return n.retransmittedAt(7777, 2) })
	p := n.purge(n.a, fmt.Sprintf("limits: {marks: %d}\npolicies: [{name: web, ports: [7777]}]\n", most))
	p.untilEnded(dormant)
	n.gonePort(n.a, 7777)
}

// TestInEarnest: what was spared by a dry run is ended when that is over.
func TestInEarnest(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	peers.Nginx(n.a, slow)
	p := n.purge(n.a, policyText(", dry_run: true"))
	d := n.get(vip4, "/1g")
	d.drain()
	n.drop(n.toA, "meta l4proto tcp")
	p.until("spared", func(p *api.PurgePolicy) uint64 { return p.Spared }, 1)
	p.configure(policyText(""))
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.untilEnded(1)
	n.gone(n.a, d)
}

// TestBound: a server's socket may be bound to an interface, so that its connections are found by that alone.
func TestBound(t *testing.T) {
	t.Parallel()
	for _, vip := range []string{"10.1.2.2", "fd01:2::2"} {
		t.Run(vip, func(t *testing.T) {
			n := newNetwork(t)
			p := n.purge(n.a, "policies: [{name: web, ports: [7777]}]\n")
			bound := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
				var failed error
				err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), n.toA.Name) })
				if err != nil {
					return err
				}
				return failed
			}}
			s := &writer{n: n, host: n.a, port: 7777}
			err := n.a.Do(func() (err error) {
				s.l, err = bound.Listen(t.Context(), "tcp", net.JoinHostPort(vip, "7777"))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.l.Close() })
			d := n.connectTo(vip, 7777)
			s.accept()
			n.drop(n.toA, "meta l4proto tcp")
			n.drop(n.toClient, notReset)
			s.write(10_000)
			p.untilEnded(1)
			d.gotReset()
			n.gonePort(n.a, 7777)
			if s := p.status(); s.Resets != 1 || s.ResetsFailed != 0 {
				t.Errorf("%d resets, %d failed", s.Resets, s.ResetsFailed)
			}
		})
	}
}
