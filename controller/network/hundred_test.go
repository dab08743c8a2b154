package network

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"baton/controller/neighbour"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/lab"
	"baton/openflow"
	"baton/openflow/channel"
	"baton/packet"
)

// wire is switches in a line without a data path: what the controller sends out of a port comes in at the port that is wired to it.
type wire struct {
	mu    sync.Mutex
	nodes map[uint64]*channel.Conn
	mods  map[uint64]int // flow mods by switch
	got   map[uint64]int // packets for the hosts, at port 3
}

// next is the other end of a port: 2 leads to the next switch's 1.
func next(id uint64, port openflow.PortNo) (uint64, openflow.PortNo) {
	if port == 1 {
		return id - 1, 2
	}
	return id + 1, 1
}

func (w *wire) serve(id uint64, c *channel.Conn, last uint64) {
	for {
		r, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		var answer openflow.Message
		switch m := r.Message.(type) {
		case *openflow.FeaturesRequest:
			answer = &openflow.FeaturesReply{DatapathID: id}
		case *openflow.MultipartRequest:
			switch m.Body.(type) {
			case openflow.DescRequest:
				answer = &openflow.MultipartReply{Body: openflow.DescReply{Manufacturer: "Baton"}}
			case openflow.PortDescRequest:
				answer = &openflow.MultipartReply{Body: openflow.PortDescReply{{No: 1}, {No: 2}, {No: 3}}}
			default:
				answer = &openflow.MultipartReply{Body: openflow.FlowStatsReply{}}
			}
		case *openflow.RoleRequest:
			answer = &openflow.RoleReply{Role: m.Role, Generation: m.Generation}
		case *openflow.BarrierRequest:
			answer = &openflow.BarrierReply{}
		case *openflow.FlowMod:
			w.mu.Lock()
			w.mods[id]++
			w.mu.Unlock()
		case *openflow.PacketOut:
			w.out(id, m, last)
		}
		if answer != nil && c.SendWait(context.Background(), r.XID, answer) != nil {
			return
		}
	}
}

func (w *wire) out(id uint64, m *openflow.PacketOut, last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range m.Actions {
		port := a.(openflow.ActionOutput).Port
		if port == 3 {
			w.got[id]++
			continue
		}
		to, at := next(id, port)
		if c := w.nodes[to]; c != nil && to >= 1 && to <= last {
			in := &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: uint16(len(m.Data)), Match: openflow.Match{}.Port(at), Data: m.Data}
			_ = c.Send(0, in)
		}
	}
}

// TestHundred: a hundred switches in a line that connect at the same time are discovered, and a path over all of them is installed with an entry
// each way and switch.
func TestHundred(t *testing.T) {
	const last = 100
	sw := switches.New(switches.Options{})
	n := New(sw, Options{Cache: true})
	sw.Handle(n.Forward)
	path := filepath.Join(t.TempDir(), "s")
	l, err := sw.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = sw.Serve(ctx, l) })
	running.Go(func() { n.Run(ctx) })
	defer running.Wait()
	defer cancel()
	w := &wire{nodes: map[uint64]*channel.Conn{}, mods: map[uint64]int{}, got: map[uint64]int{}}
	began := time.Now()
	for id := uint64(1); id <= last; id++ {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c := channel.Start(conn, channel.Options{})
		defer c.Close()
		w.mu.Lock()
		w.nodes[id] = c
		w.mu.Unlock()
		go w.serve(id, c, last)
	}
	lab.Eventually(t, slow, func() error {
		usable := 0
		n.View(func(g *topology.Graph) {
			for _, l := range g.Links() {
				if l.Usable {
					usable++
				}
			}
		})
		if usable != 2*(last-1) {
			return fmt.Errorf("%d of %d directions of links", usable, 2*(last-1))
		}
		return nil
	})
	t.Logf("%d switches in a line are discovered %v after the first has connected", last, time.Since(began))

	a, b := packet.MAC{2, 0, 0, 0, 0, 1}, packet.MAC{2, 0, 0, 0, 0, 2}
	appear := func(id uint64, m packet.MAC, ip byte) {
		lab.Eventually(t, slow, func() error {
			frame := neighbour.Build(neighbour.Message{MAC: m, Address: hostIP(int(ip)), Target: hostIP(200)})
			in := &openflow.PacketIn{Buffer: openflow.NoBuffer, TotalLen: uint16(len(frame)), Match: openflow.Match{}.Port(3), Data: frame}
			_ = w.nodes[id].Send(0, in)
			if h, ok := n.Locate(hostIP(int(ip))); !ok || h.At != (topology.Point{Switch: id, Port: 3}) {
				return fmt.Errorf("host %d is at %v", ip, h.At)
			}
			return nil
		})
	}
	appear(1, a, 1)
	appear(last, b, 2)
	from, _ := n.Locate(hostIP(1))
	to, _ := n.Locate(hostIP(2))
	w.mu.Lock()
	clear(w.mods)
	w.mu.Unlock()
	began = time.Now()
	for _, pair := range [][2]topology.Host{{from, to}, {to, from}} {
		if err := n.Ensure(within(t), pair[0], pair[1]); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("paths both ways are installed in %v", time.Since(began))
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := uint64(1); id <= last; id++ {
		if w.mods[id] != 2 { // the paper's section 5.2: two flow mods on each forwarder of a path
			t.Errorf("%d flow mods at switch %d, want 2", w.mods[id], id)
		}
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), slow)
	t.Cleanup(cancel)
	return ctx
}
