package balance

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
)

const (
	manyFlows    = 100_000 // of UDP
	manySockets  = 20      // that have them: a flow is a socket and an address
	manyStreams  = 1000    // of TCP
	manySpare    = 200     // that are remembered beside these
	manyAtOnce   = 8       // datagrams of a socket on their way: those of all fit into the receive buffer of the server
	manyPrefix   = "198.18.0.0/15"
	manyPort     = 7001
	manyResident = 300 << 20 // bytes, a generous bound of the process's memory
)

// TestManyFlows: a host with a hundred thousand flows. Each keeps its link, whatever becomes of the process and its configuration, and each
// answer comes to the socket that has asked.
func TestManyFlows(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	c := n.flowSet()
	config := planes[1].config + fmt.Sprintf("limits: {flows: %d}\n", manyFlows+manyStreams+manySpare)
	three := n.linksText()
	two := strings.Join(strings.SplitAfter(three, "\n")[:3], "")
	b := n.start(config + two)
	t.Logf("the process has %d MB", b.resident()>>20)

	c.speak("new flows", every(0, manyFlows, 1))
	c.spread("two links", every(0, manyFlows, 1), 1, 1)
	streams := n.streams(manyStreams)
	c.counted(b, manyFlows+manyStreams)
	c.speak("the next packets", every(0, manyFlows, 1))
	b.resources()

	began := time.Now()
	if err := b.reload(config + strings.Replace(three, "weight: 1", "weight: 2", 1)); err != nil {
		t.Fatal(err)
	}
	b.until(2, "used")
	t.Logf("a reload that adds a link takes %v", time.Since(began).Round(time.Millisecond))
	c.speak("after a reload", every(0, manyFlows, 3))
	c.counted(b, manyFlows+manyStreams)

	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	c.speak("without the process", every(1, manyFlows, 3))
	began = time.Now()
	b = n.start(config + strings.Replace(three, "weight: 1", "weight: 2", 1))
	t.Logf("a start that takes them over takes %v", time.Since(began).Round(time.Millisecond))
	c.speak("after a restart", every(2, manyFlows, 3))
	works(streams)
	c.counted(b, manyFlows+manyStreams)

	c.speak("new flows after it", every(manyFlows, manyFlows+manySpare, 1))
	c.spread("three links", every(manyFlows, manyFlows+manySpare, 1), 2, 1, 1)
	c.counted(b, manyFlows+manyStreams+manySpare)
	refused := b.status().Verdicts["drop_picks_full"]
	if c.answered(manyFlows + manySpare) {
		t.Error("a flow more than the limit is answered")
	}
	if now := b.status().Verdicts["drop_bindings_full"]; now == refused {
		t.Errorf("no packet more was dropped as drop_bindings_full than %d", refused)
	}
	c.speak("at the limit", every(0, manyFlows+manySpare, 7))
	works(streams)
	c.counted(b, manyFlows+manyStreams+manySpare)
	for _, s := range streams {
		s.conn.Close() // is forgotten a little later
	}

	n.far[0].SetDown()
	b.until(0, "no carrier")
	moved := c.without(0)
	c.speak("those of a link that has gone", moved)
	for _, f := range moved {
		if c.link[f] == 0 {
			t.Fatalf("flow %d has the link that has gone", f)
		}
	}
	c.speak("those of the others", every(0, manyFlows+manySpare, 11))
	lab.Eventually(t, soon, func() error {
		if !c.answered(manyFlows + manySpare) {
			return errors.New("a flow is not answered though others have ended")
		}
		return nil
	})
	b.stop()
}

// crowd is many flows of UDP. Flow f is socket f%manySockets's with address f/manySockets of the server.
type flowSet struct {
	n       *network
	sockets []*net.UDPConn
	link    []int8 // by the flow; unknown: it has not been answered
	round   uint32 // of the packets that are sent: late answers are of another one
}

const unknown = -1

// crowd makes the sockets, and a server at many addresses.
func (n *network) flowSet() *flowSet {
	n.t.Helper()
	if out, err := n.server.Exec(n.t.Context(), "ip", "route", "add", "local", manyPrefix, "dev", "lo"); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	for i, g := range n.gateways {
		g.Route(manyPrefix, last("203.0.113.0", 4*i+2))
	}
	n.echo()
	c := &flowSet{n: n, link: make([]int8, manyFlows+manySpare+1)}
	for i := range c.link {
		c.link[i] = unknown
	}
	for range manySockets {
		s, err := n.host.ListenPacket("udp4", ":0")
		if err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { s.Close() })
		c.sockets = append(c.sockets, s.(*net.UDPConn))
	}
	return c
}

// echo answers datagrams to each address of the prefix from there, with what they say and where they come from.
func (n *network) echo() {
	n.t.Helper()
	l, err := n.server.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", manyPort))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	s := l.(*net.UDPConn)
	raw, err := s.SyscallConn()
	if err != nil {
		n.t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1) })
	if err := errors.Join(err, failed); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		for text, info := make([]byte, 64), make([]byte, 64); ; {
			size, more, _, from, err := s.ReadMsgUDPAddrPort(text, info)
			if err != nil {
				return
			}
			// struct in_pktinfo begins with the interface: routes say by which one the answer leaves
			clear(info[unix.CmsgLen(0):][:4])
			_, _, _ = s.WriteMsgUDPAddrPort(append(text[:size:size], from.Addr().Unmap().AsSlice()...), info[:more], from)
		}
	}()
}

// every are flows before end, from the first one on.
func every(first, end, step int) (list []int) {
	for f := first; f < end; f += step {
		list = append(list, f)
	}
	return list
}

// address is the server's of a flow.
func (c *flowSet) address(f int) netip.AddrPort {
	var b [4]byte
	first := netip.MustParsePrefix(manyPrefix).Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(first[:])+uint32(1+f/manySockets))
	return netip.AddrPortFrom(netip.AddrFrom4(b), manyPort)
}

// speak sends a packet of each flow, and requires that it is answered and has the link that it had.
func (c *flowSet) speak(what string, flows []int) {
	c.n.t.Helper()
	c.round++
	began := time.Now()
	of := make([][]int, len(c.sockets))
	for _, f := range flows {
		of[f%manySockets] = append(of[f%manySockets], f)
	}
	var group errgroup.Group
	for s := range of {
		group.Go(func() error {
			for list := of[s]; len(list) > 0; list = list[min(manyAtOnce, len(list)):] {
				if err := c.exchange(list[:min(manyAtOnce, len(list))], soon); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		c.n.t.Fatalf("%s: %v\n%s", what, err, c.n.picture())
	}
	c.n.t.Logf("%s: %d flows in %v", what, len(flows), time.Since(began).Round(time.Millisecond))
}

// exchange sends a packet of each of these flows of one socket until all are answered. Flows are known by what is said, and answers must
// be from where the flow's packets went.
func (c *flowSet) exchange(flows []int, within time.Duration) error {
	s := c.sockets[flows[0]%manySockets]
	waiting := make(map[int]bool)
	for _, f := range flows {
		waiting[f] = true
	}
	text := make([]byte, 64)
	for deadline := time.Now().Add(within); ; {
		for f := range waiting {
			binary.BigEndian.PutUint32(text, uint32(f))
			binary.BigEndian.PutUint32(text[4:], c.round)
			if _, err := s.WriteToUDPAddrPort(text[:8], c.address(f)); err != nil {
				return fmt.Errorf("flow %d: %w", f, err)
			}
		}
		s.SetReadDeadline(time.Now().Add(min(time.Second, within))) // a datagram may be lost
		for len(waiting) > 0 {
			size, from, err := s.ReadFromUDPAddrPort(text)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return err
			}
			f := int(binary.BigEndian.Uint32(text))
			if size != 12 || f >= len(c.link) || c.sockets[f%manySockets] != s || plain(net.UDPAddrFromAddrPort(from)) != c.address(f).Addr().String() {
				return fmt.Errorf("an answer of flow %d has come to another socket, or from %v", f, from)
			}
			if binary.BigEndian.Uint32(text[4:]) != c.round || !waiting[f] {
				continue // to a packet that was sent twice
			}
			if err := c.note(f, netip.AddrFrom4([4]byte(text[8:12])).String()); err != nil {
				return err
			}
			delete(waiting, f)
		}
		if len(waiting) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d flows are not answered: %w", len(waiting), os.ErrDeadlineExceeded)
		}
	}
}

// note remembers a flow's link, which must be what it was.
func (c *flowSet) note(f int, host string) error {
	for i := range c.n.links {
		if host4(i) != host {
			continue
		}
		if c.link[f] != unknown && c.link[f] != int8(i) {
			return fmt.Errorf("flow %d goes by link %d, and went by %d", f, i, c.link[f])
		}
		c.link[f] = int8(i)
		return nil
	}
	return fmt.Errorf("flow %d is from %s", f, host)
}

// answered says whether a packet of a flow is.
func (c *flowSet) answered(f int) bool {
	c.round++
	return c.exchange([]int{f}, 200*time.Millisecond) == nil
}

// spread requires that links have as many flows as their weights say.
func (c *flowSet) spread(what string, flows []int, weights ...int) {
	c.n.t.Helper()
	got, sum := make([]int, len(c.n.links)), 0
	for _, f := range flows {
		got[c.link[f]]++
	}
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		if got[i] != len(flows)*w/sum {
			c.n.t.Errorf("%s: flows by links %v, want them as %v", what, got, weights)
			return
		}
	}
}

// without forgets which link the flows of one have, and returns those.
func (c *flowSet) without(link int8) (list []int) {
	for f, l := range c.link {
		if l == link {
			c.link[f] = unknown
			list = append(list, f)
		}
	}
	return list
}

// counted requires that the command line reports this many flows.
func (c *flowSet) counted(b *running, flows int) {
	c.n.t.Helper()
	began := time.Now()
	var s api.BalanceStatus
	lab.Eventually(c.n.t, soon, func() error { // the links' are as of the last count
		out, err := c.n.baton("balance", "status", "--control", b.socket, "-o", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), &s)
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		sum := uint64(0)
		for _, l := range s.Links {
			sum += l.Flows
		}
		if s.Flows.Used != flows || sum != uint64(flows) {
			return fmt.Errorf("%d flows, of links %d, want %d", s.Flows.Used, sum, flows)
		}
		return nil
	})
	c.n.t.Logf("the status reports %d flows after %v", flows, time.Since(began).Round(time.Millisecond))
}

// streams begins connections.
func (n *network) streams(many int) (list []*flow) {
	n.t.Helper()
	for range many {
		list = append(list, n.flow(server4))
	}
	return list
}

func works(list []*flow) {
	for _, f := range list {
		f.works()
	}
}

// resources logs what the process uses while flows are idle.
func (r *running) resources() {
	r.n.t.Helper()
	const during = 2 * time.Second
	lab.Eventually(r.n.t, soon, func() error {
		for _, l := range r.status().Links {
			if l.Active > 0 {
				return fmt.Errorf("%d flows of %s are active, though none has a packet", l.Active, l.Name)
			}
		}
		return nil
	})
	before, err := r.CPU()
	if err != nil {
		r.n.t.Fatal(err)
	}
	began := time.Now()
	lab.Eventually(r.n.t, soon, func() error {
		if time.Since(began) < during {
			return context.DeadlineExceeded
		}
		return nil
	})
	after, err := r.CPU()
	if err != nil {
		r.n.t.Fatal(err)
	}
	resident := r.resident()
	r.n.t.Logf("the process has %d MB, and takes %.1f%% of a processor", resident>>20, 100*float64(after-before)/float64(time.Since(began)))
	if resident > manyResident {
		r.n.t.Errorf("the process has %d bytes of memory", resident)
	}
}

// resident is the process's memory, in bytes.
func (r *running) resident() int {
	r.n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	if err != nil {
		r.n.t.Fatal(err)
	}
	kilobytes := 0
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			fmt.Sscanf(rest, "%d kB", &kilobytes)
		}
	}
	return kilobytes << 10
}
