package relay_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/relay/config"
)

// visit is a short flow's life, by what its client asks for: how both ends leave.
type visit byte

const (
	bothFIN     visit = 'f'
	clientRST   visit = 'r'
	serverRST   visit = 's'
	clientGoes  visit = 'g' // before the answer
	visitsKinds       = "frsg"
	answerSize        = 20_000 // bytes
)

// hostServer answers visits until its listener is closed.
func hostServer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(soon))
			var asked [1]byte
			if _, err := io.ReadFull(c, asked[:]); err != nil {
				return
			}
			_, _ = c.Write(pattern[:answerSize])
			if visit(asked[0]) == serverRST {
				_ = c.(*net.TCPConn).SetLinger(0)
				return
			}
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}

// come is a client's visit.
func (n *network) come(v visit) error {
	dialled, err := n.client.Dial(n.t.Context(), "tcp", entryAt(openPort))
	if err != nil {
		return err
	}
	c := dialled.(*net.TCPConn)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(soon))
	if _, err := c.Write([]byte{byte(v)}); err != nil {
		return err
	}
	if v == clientGoes {
		return nil
	}
	got, err := io.ReadAll(c)
	if v == serverRST && err != nil {
		return nil // in front of its bytes' end or behind it, as the server's system has it
	}
	if err != nil {
		return err
	}
	if v != serverRST && string(got) != string(pattern[:answerSize]) {
		return fmt.Errorf("%d bytes came, or others than were sent", len(got))
	}
	if v == clientRST {
		return c.SetLinger(0)
	}
	return nil
}

// crowd are clients that come and go, so many at a time, until they are told to stop.
type crowd struct {
	work  errgroup.Group
	stop  atomic.Bool
	comes atomic.Int64
}

func (n *network) crowd(clients int) *crowd {
	c := &crowd{}
	for i := range clients {
		c.work.Go(func() error {
			for k := i; !c.stop.Load(); k++ {
				if err := n.come(visit(visitsKinds[k%len(visitsKinds)])); err != nil {
					return err
				}
				c.comes.Add(1)
			}
			return nil
		})
	}
	return c
}

// turns waits until so many more have come and gone.
func (c *crowd) turns(more int64) error {
	want := c.comes.Load() + more
	return lab.Poll(soon, func() error {
		if n := c.comes.Load(); n < want {
			return fmt.Errorf("%d visits, want %d", n, want)
		}
		return nil
	})
}

// leaves ends the crowd, and tells whether anybody had a reason to complain.
func (c *crowd) leaves() error {
	c.stop.Store(true)
	return c.work.Wait()
}

// TestTenThousand has ten thousand flows come and go, and looks at what they leave.
func TestTenThousand(t *testing.T) {
	t.Parallel()
	const flows, at = 10_000, 50
	n := newNetwork(t, config.Plaintext)
	n.client.Sysctl("net.ipv4.ip_local_port_range", "1024 65000")
	n.relays(nil, nil)
	open := n.listen(openPort)
	go hostServer(open)
	visits := func(count int) {
		t.Helper()
		var work errgroup.Group
		work.SetLimit(at)
		for i := range count {
			work.Go(func() error {
				v := visit(visitsKinds[i%len(visitsKinds)])
				if err := n.come(v); err != nil {
					return fmt.Errorf("visit %d, %c: %w", i, v, err)
				}
				return nil
			})
		}
		if err := work.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	visits(flows / 5) // buffers and tables find their sizes
	before := []int{n.near.memory(), n.far.memory()}
	visits(flows - flows/5)
	for i, r := range []*relay{n.near, n.far} {
		if more := r.memory() - before[i]; more > moreMemory {
			t.Errorf("relay %s holds %d bytes more", r.name, more)
		}
	}
	for _, r := range []*relay{n.near, n.far} {
		r.kept = 2 * 2 * at
	}
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
	s, err := n.near.control.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var began uint64
	for _, e := range s.Entries {
		began += e.Flows
	}
	if began != flows {
		t.Errorf("%d flows began, want %d", began, flows)
	}
}

// chatters are flows that go on and on, with their servers' ends.
func (n *network) chatters(open *net.TCPListener, count int) (pairs [][2]*end) {
	n.t.Helper()
	for range count {
		c, s, err := n.pair(open)
		if err != nil {
			n.t.Fatal(err)
		}
		c.chatter()
		s.chatter()
		pairs = append(pairs, [2]*end{c, s})
	}
	return pairs
}

// allComplete ends flows that are well.
func allComplete(pairs [][2]*end) (err error) {
	for i, p := range pairs {
		if failed := complete(p[0], p[1]); failed != nil {
			err = errors.Join(err, fmt.Errorf("flow %d: %w", i, failed))
		}
	}
	return err
}

// reloaded waits until a relay has reloaded so many times.
func (r *relay) reloaded(times int) error {
	return lab.Poll(soon, func() error {
		if got := strings.Count(r.Log(), "msg=reloaded"); got != times {
			return fmt.Errorf("relay %s has reloaded %d times, want %d:\n%s", r.name, got, times, r.Log())
		}
		return nil
	})
}
