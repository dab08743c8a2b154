package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/tables"
	"baton/lab"
	"baton/openflow"
	"baton/openflow/channel"
	"baton/packet"
)

// packet gives a packet to the controller.
func (d *device) packet(p *openflow.PacketIn) {
	d.t.Helper()
	d.mu.Lock()
	conn := d.conn
	d.mu.Unlock()
	if err := conn.Send(0, p); err != nil {
		d.t.Error(err)
	}
}

// has checks that the switch has the tables of a state and so many other entries.
func (d *device) has(s tables.State, others int) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	want := tables.Make(s)
	for _, e := range want.Entries {
		got := d.entries[key(e)]
		if got == nil || !bytes.Equal(encoded(d.t, got.Instructions), encoded(d.t, e.Instructions)) {
			d.t.Errorf("lacks %s", tables.Text(e))
		}
	}
	if len(d.entries) != len(want.Entries)+others || len(d.groups) != len(want.Groups) {
		d.t.Errorf("has %d entries and %d groups, want %d and %d, others %d", len(d.entries), len(d.groups), len(want.Entries), len(want.Groups), others)
	}
}

func encoded(t *testing.T, list []openflow.Instruction) []byte {
	t.Helper()
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Instructions = list
	b, err := openflow.Append(nil, 0, m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// changes returns the changes since its last call.
func (d *device) reported() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.log
	d.log = nil
	return list
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// started is a controller and a switch that has the tables of a state.
func started(t *testing.T, s tables.State) (*Controller, *device) {
	t.Helper()
	c, d := New(Options{}), newDevice(t)
	if err := c.Set(t.Context(), s); !errors.Is(err, ErrNoSwitch) {
		t.Fatalf("got %v", err)
	}
	d.join(c)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	return c, d
}

// flow begins a flow and waits until the switch has its entries.
func (d *device) flow(port uint16) {
	d.t.Helper()
	d.packet(packetIn(tables.InsidePort, tables.NewCookie(tables.RuleOf, 0), tcp(port, "203.0.113.9:80", packet.SYN)))
	lab.Eventually(d.t, 10*time.Second, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, p := range d.out {
			if bytes.Equal(p.Data, tcp(port, "203.0.113.9:80", packet.SYN)) {
				return nil
			}
		}
		return errors.New("no packet-out")
	})
}

// TestServe: what was in the switch is taken away, then it has the state's tables; a change is sent alone.
func TestServe(t *testing.T) {
	c, d := New(Options{}), newDevice(t)
	stranger := openflow.NewFlowMod(openflow.FlowAdd)
	stranger.Match = openflow.Match{}.Port(9)
	d.entries[key(stranger)] = stranger
	d.groups[99] = &openflow.GroupMod{Kind: openflow.GroupTypeAll, Group: 99}
	ended := d.join(c)
	s := ruled(1, 1)
	lab.Eventually(t, 10*time.Second, func() error { // with a switch that is there, and without
		if err := c.Set(within(t), s); !errors.Is(err, ErrNoSwitch) {
			return err
		}
		return c.Ready(within(t))
	})
	d.has(s, 0)
	if got := c.Status(); !got.Connected || got.DatapathID != 0x42 || got.Refused != 0 {
		t.Errorf("got %+v", got)
	}
	d.flow(40000)
	d.reported()
	s.Links[0].V4.GatewayMAC[5]++
	if err := c.Set(within(t), s); err != nil {
		t.Fatal(err)
	}
	if got := d.reported(); len(got) != 1 || !strings.HasPrefix(got[0], "group modify group_id=16") {
		t.Errorf("got %q", got)
	}
	d.has(s, 2)
	s.Links[0].Usable = false
	if err := c.Set(within(t), s); err != nil || c.Status().Flows != 0 {
		t.Errorf("%v, %+v", err, c.Status())
	}
	d.has(s, 0)
	d.mu.Lock()
	conn := d.conn
	d.mu.Unlock()
	conn.Close()
	if err := <-ended; err == nil || c.Status().Connected {
		t.Errorf("got %v, %+v", err, c.Status())
	}
	if err := c.Set(within(t), s); !errors.Is(err, ErrNoSwitch) {
		t.Errorf("got %v", err)
	}
}

// TestReconnect: a switch that comes back unchanged gets no changes; one that comes back empty gets everything; flows are known again.
func TestReconnect(t *testing.T) {
	s := ruled(1, 1)
	c, d := started(t, s)
	d.flow(40000)
	d.flow(40001)
	d.reported()
	d.join(c) // while the old connection is there
	lab.Eventually(t, 10*time.Second, func() error {
		if got := c.Status(); got.Flows != 2 || !got.Connected {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	if got := d.reported(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	another := New(Options{})
	_ = another.Set(t.Context(), s)
	d.join(another)
	if err := another.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := another.Status(); got.Flows != 2 {
		t.Errorf("got %+v", got)
	}
	if got := d.reported(); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	// While nobody was there, a link has gone.
	s.Links[0].Usable = false
	third := New(Options{})
	_ = third.Set(t.Context(), s)
	d.join(third)
	if err := third.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	d.has(s, 2)
	empty := newDevice(t)
	empty.join(third)
	lab.Eventually(t, 10*time.Second, func() error {
		if got := third.Status(); got.Flows != 0 {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
	if err := third.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	empty.has(s, 0)
}

// TestReplacedConnection: its Serve returns with the reason, and leaves no goroutine.
func TestReplacedConnection(t *testing.T) {
	c, d := New(Options{}), newDevice(t)
	_ = c.Set(t.Context(), ruled(1, 1)) // there is no switch yet
	first := d.join(c)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	second := newDevice(t)
	replacing := second.join(c)
	if err := <-first; !errors.Is(err, errReplaced) {
		t.Errorf("the first connection has ended with %v", err)
	}
	second.mu.Lock()
	conn := second.conn
	second.mu.Unlock()
	conn.Close()
	<-replacing
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if bytes.Contains(stacks, []byte("controller.(*session)")) {
		t.Errorf("a goroutine is left:\n%s", stacks)
	}
}

// TestRefused: a refused message is reported with its entry, and the rest is applied; the next change reads the switch's tables.
func TestRefused(t *testing.T) {
	c, d := New(Options{}), newDevice(t)
	isRule := func(m openflow.Message) bool {
		e, ok := m.(*openflow.FlowMod)
		return ok && e.Table == tables.Rules && e.Priority == 30000
	}
	d.refuse = isRule
	_ = c.Set(t.Context(), ruled(1, 1))
	d.join(c)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	got := c.Status()
	if got.Refused != 2 || !strings.Contains(got.LastError, "TABLE_FULL: add table=1,priority=30000,cookie=0x42744e4201000000,eth_type=0x86dd") {
		t.Errorf("got %+v", got)
	}
	var refused *channel.Refused
	if err := c.Set(within(t), ruled(1, 1)); !errors.As(err, &refused) || !isRule(refused.Request) {
		t.Errorf("got %v", err)
	}
	d.mu.Lock()
	d.refuse = nil
	d.mu.Unlock()
	if err := c.Set(within(t), ruled(1, 1)); err != nil {
		t.Error(err)
	}
	d.has(ruled(1, 1), 0)
	// One of a flow: nobody waits for it.
	d.mu.Lock()
	d.refuse = func(m openflow.Message) bool { e, ok := m.(*openflow.FlowMod); return ok && e.Table == tables.Back }
	d.mu.Unlock()
	d.flow(40000)
	lab.Eventually(t, 10*time.Second, func() error {
		if got := c.Status(); !strings.Contains(got.LastError, "add table=2,priority=50000") {
			return fmt.Errorf("got %+v", got)
		}
		return nil
	})
}

// TestNoTCPFlags: a switch that does not know TCP flags is not asked about them again and again.
func TestNoTCPFlags(t *testing.T) {
	c, d := New(Options{}), newDevice(t)
	d.refuse = func(m openflow.Message) bool {
		e, ok := m.(*openflow.FlowMod)
		return ok && e.Table == tables.Ends && len(e.Match) > 0
	}
	s := ruled(1, 1)
	_ = c.Set(t.Context(), s)
	d.join(c)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	before := c.Status().Refused
	s.Links[1].V4.GatewayMAC[5]++
	if err := c.Set(within(t), s); err != nil || before == 0 || c.Status().Refused != before {
		t.Errorf("%v, refused %d, before %d", err, c.Status().Refused, before)
	}
}

// TestStops: a change that the switch does not answer ends with its context, and the next one makes sure.
func TestStops(t *testing.T) {
	s := ruled(1, 1)
	c, d := started(t, s)
	d.reported()
	d.mu.Lock()
	d.unresponsive = true
	d.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	s.Links[0].Usable = false
	ended := make(chan error)
	go func() { ended <- c.Set(ctx, s) }()
	lab.Eventually(t, 10*time.Second, func() error {
		if got := d.reported(); len(got) == 0 {
			return errors.New("nothing is sent")
		}
		return nil
	})
	if got := c.Status(); !got.Connected { // which does not wait for it
		t.Errorf("got %+v", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	d.mu.Lock()
	d.unresponsive = false
	d.mu.Unlock()
	s.Links[0].Usable = true
	if err := c.Set(within(t), s); err != nil {
		t.Error(err)
	}
	d.has(s, 0)
}

// TestFlood: packets beyond the queue's bound are dropped and counted, while a change gets through.
func TestFlood(t *testing.T) {
	s := ruled(1, 1)
	c, d := New(Options{Flows: 50, Queue: 10}), newDevice(t)
	_ = c.Set(t.Context(), s)
	d.join(c)
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	const count = 3000
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		for n := range count {
			p := packetIn(tables.InsidePort, tables.NewCookie(tables.RuleOf, 0), tcp(uint16(10000+n), "203.0.113.9:80", packet.SYN))
			_ = d.conn.SendWait(context.Background(), 0, p)
		}
	}()
	for range 20 {
		s.Links[0].V4.GatewayMAC[5]++
		if err := c.Set(within(t), s); err != nil {
			t.Fatal(err)
		}
	}
	<-flooded
	lab.Eventually(t, 10*time.Second, func() error {
		got, sum := c.Status(), uint64(0)
		for _, n := range got.Packets {
			sum += n
		}
		if sum != count {
			return fmt.Errorf("%d of %d are accounted for: %+v", sum, count, got)
		}
		return nil
	})
	got := c.Status()
	if got.Flows > 50 || got.Flows == 0 || got.Packets[DropFull]+got.Packets[DropQueue] == 0 {
		t.Errorf("got %+v", got)
	}
	d.has(s, 2*got.Flows)
}

// TestConnect: a connection that is lost is made again.
func TestConnect(t *testing.T) {
	c, d := New(Options{}), newDevice(t)
	_ = c.Set(t.Context(), ruled(1))
	ctx, cancel := context.WithCancel(t.Context())
	attempts, done := 0, make(chan error, 1)
	go func() {
		done <- c.Connect(ctx, func(context.Context) (net.Conn, error) {
			attempts++
			if attempts == 1 {
				return nil, io.ErrUnexpectedEOF
			}
			ours, theirs := net.Pipe()
			if attempts == 2 {
				theirs.Close()
				return ours, nil
			}
			conn := channel.Start(theirs, channel.Options{})
			t.Cleanup(func() { conn.Close() })
			go func() {
				for {
					m, err := conn.Receive(context.Background())
					if err != nil {
						return
					}
					for _, answer := range d.take(m) {
						_ = conn.Send(m.XID, answer)
					}
				}
			}()
			return ours, nil
		})
	}()
	if err := c.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := c.Status(); !got.Connected || got.LastError == "" {
		t.Errorf("got %+v", got)
	}
	d.has(ruled(1), 0)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || attempts != 3 {
		t.Errorf("got %v after %d attempts", err, attempts)
	}
	if s := (tables.State{Datapath: config.Baton}); !errors.Is(c.Set(t.Context(), s), ErrNoSwitch) {
		t.Error("a switch is there")
	}
}

// TestQueue: packets are bounded, whatever else arrives; messages about entries are not.
func TestQueue(t *testing.T) {
	q := newQueue(2)
	p := channel.Received{Message: packetIn(1, 0, nil)}
	for range 5 {
		q.push(p)
		q.push(channel.Received{Message: &openflow.FlowRemoved{}})
	}
	if q.dropped() != 3 || len(q.list) != 7 {
		t.Errorf("%d dropped, %d wait", q.dropped(), len(q.list))
	}
	for range 7 {
		if _, ok := q.pop(); !ok {
			t.Error("it has ended")
		}
	}
	q.push(p)
	if q.dropped() != 3 || len(q.list) != 1 {
		t.Errorf("%d dropped, %d wait", q.dropped(), len(q.list))
	}
	q.end()
	if _, ok := q.pop(); ok {
		t.Error("it has not ended")
	}
}
