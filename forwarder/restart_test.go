package forwarder_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"baton/lab"
	of "baton/openflow"
)

// pace of streams that must not lose a packet.
const pace = 200 * time.Microsecond

// crossing fills the forwarder with a bit of everything. UDP to port 5000 goes from 1 to 2 straight, to port 5001 by a group that changes one
// copy, so that it needs the loop device: that one arrives at port 6001.
func (s *stage) crossing() {
	s.t.Helper()
	c := s.connect()
	s.commit(c,
		&of.MeterMod{Command: of.MeterAdd, Flags: of.MeterFlagPktps, Meter: 3, Bands: []of.Band{{Kind: of.BandDrop, Rate: 1_000_000}}},
		&of.GroupMod{Command: of.GroupAdd, Kind: of.GroupTypeAll, Group: 9, Buckets: []of.Bucket{
			{WatchPort: of.PortAny, WatchGroup: of.GroupAny,
				Actions: []of.Action{of.ActionSetField{Field: of.Match{}.Uint(of.FieldUDPDst, 6001)}, output(2)}},
			{WatchPort: of.PortAny, WatchGroup: of.GroupAny, Actions: []of.Action{output(2)}},
		}},
		add(10, udp(1, 5000), output(2)),
		add(10, udp(1, 5001), of.ActionGroup{Group: 9}),
		add(5, of.Match{}.Port(2), output(1)),
	)
	metered := add(7, udp(1, 5002))
	metered.Cookie = 0x1234
	metered.Instructions = []of.Instruction{of.InstructionMeter{Meter: 3},
		of.InstructionApplyActions{Actions: []of.Action{output(2)}}, of.InstructionGotoTable{Table: 4}}
	later := add(1, of.Match{}.Port(1), output(2))
	later.Table = 4
	later.Hard, later.Flags = 3600, of.FlowSendFlowRem
	s.commit(c, metered, later)
}

var changing = regexp.MustCompile(`(duration|n_packets|n_bytes|packet_count|byte_count|ref_count)=[0-9.]+s?,?|xid=0x[0-9a-f]+|:? ?\n`)

// holds is what the forwarder holds, without times, counters and the order of a dump.
func (s *stage) holds() string {
	s.t.Helper()
	var lines []string
	for _, command := range []string{"dump-flows", "dump-groups", "dump-meters"} {
		for line := range strings.Lines(s.ofctl(command)) {
			lines = append(lines, changing.ReplaceAllString(line, ""))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestKilled: what is installed goes on without the forwarder, and while another takes over.
func TestKilled(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	state := "state: " + s.path("state")
	s.start(state)
	s.crossing()
	before := s.holds()
	from := backlog(t)
	sinks := []*sink{s.sink(2, 5000), s.sink(2, 5001), s.sink(2, 6001), s.sink(2, 5002)}
	streams := []*stream{s.send(1, 2, 5000, pace), s.send(1, 2, 5001, pace), nil, s.send(1, 2, 5002, 5*time.Millisecond)}
	streams[2] = streams[1] // the changed copy
	for round, end := range []func(){func() { s.must(s.process.Kill()) }, s.end, func() { s.must(s.process.Kill()) }} {
		streams[0].more(1000)
		t.Logf("round %d: ends at packet %d", round, streams[0].next.Load())
		end()
		t.Logf("round %d: has ended at packet %d", round, streams[0].next.Load())
		streams[0].more(1000)
		t.Logf("round %d: starts at packet %d", round, streams[0].next.Load())
		s.run()
		t.Logf("round %d: is up at packet %d", round, streams[0].next.Load())
		if after := s.holds(); after != before {
			t.Errorf("round %d: before\n%s\nafter\n%s", round, before, after)
		}
	}
	streams[0].more(1000)
	intact(t, from, sinks, streams)
}

// TestKilledWhileStarting: however far a start has come, what was installed goes on, and the next that comes to its end has all of it.
func TestKilledWhileStarting(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("state: " + s.path("state"))
	s.crossing()
	before := s.holds()
	from := backlog(t)
	sinks := []*sink{s.sink(2, 5000), s.sink(2, 5001), s.sink(2, 6001)}
	streams := []*stream{s.send(1, 2, 5000, pace), s.send(1, 2, 5001, pace)}
	streams = append(streams, streams[1]) // the changed copy
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s.must(s.process.Kill())
	for range 8 {
		p := s.launch()
		streams[0].more(random.Uint64N(1500)) // 0.3 s
		s.must(p.Kill())
	}
	s.run()
	if after := s.holds(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	streams[0].more(100)
	intact(t, from, sinks, streams)
	if n := len(s.traces()); n != 2+2 { // the ports, the loopback and a loop device
		t.Errorf("interfaces: %v", s.traces())
	}
}

// TestReplaced: without a state the next forwarder begins empty, and says so by what it forwards.
func TestReplaced(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	s.crossing()
	k, r := s.sink(2, 5000), s.send(1, 2, 5000, pace)
	r.more(50)
	k.arrived(t, 0)
	s.end()
	r.more(300)
	s.run()
	if flows := s.ofctl("dump-flows"); strings.Contains(flows, "cookie=") {
		t.Errorf("a new forwarder has flow entries:\n%s", flows)
	}
	from := r.next.Load()
	r.more(100)
	r.end()
	k.lostWithin(r, 100*time.Millisecond)
	k.mu.Lock()
	defer k.mu.Unlock()
	for n := range k.came {
		if n > from {
			t.Errorf("packet %d passed a forwarder without flow entries; it was empty from %d on", n, from)
		}
	}
}

// TestUnload: nothing of a forwarder is left, whichever way it ended.
func TestCleanup(t *testing.T) {
	for _, end := range []struct {
		name string
		end  func(*stage)
	}{
		{"SIGTERM", (*stage).end},
		{"SIGKILL", func(s *stage) { s.must(s.process.Kill()) }},
	} {
		t.Run(end.name, func(t *testing.T) {
			s := newStage(t, 2, lab.LinkOptions{})
			before := s.traces()
			s.start("local: sw0")
			s.crossing()
			if p := s.command("cleanup"); p.Wait(s.within()) == nil || !strings.Contains(p.Log(), "runs: stop it first") {
				t.Errorf("cleanup of a running forwarder:\n%s", p.Log())
			}
			end.end(s)
			if _, err := s.exec("ls", s.pins()); err != nil {
				t.Errorf("an ended forwarder has left no pins: %v", err)
			}
			s.cleanup()
			if after := s.traces(); !slices.Equal(before, after) {
				t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			if out, err := s.exec("ls", s.pins()); err == nil {
				t.Errorf("pins are left: %s", out)
			}
			s.cleanup() // of nothing
		})
	}
}

// traces are the interfaces of the forwarder's host, and the programs at them.
func (s *stage) traces() []string {
	s.t.Helper()
	links, err := s.node.Netlink().LinkList()
	s.must(err)
	var out []string
	s.must(s.node.Do(func() error {
		for _, l := range links {
			a := l.Attrs()
			n, err := programs(a.Index)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%s: %d programs, promiscuous %v, queueing %d", a.Name, n, a.Promisc != 0, queueing(s, l)))
		}
		return nil
	}))
	return out
}

// queueing counts the qdiscs that somebody has put at an interface.
func queueing(s *stage, l netlink.Link) int {
	list, err := s.node.Netlink().QdiscList(l)
	s.must(err)
	return len(slices.DeleteFunc(list, func(q netlink.Qdisc) bool { return q.Type() == "noqueue" }))
}

// programs counts the programs at the ingress of an interface of this thread's namespace (BPF_PROG_QUERY, BPF_TCX_INGRESS).
func programs(ifindex int) (int, error) {
	const query, ingress = 16, 46
	attr := struct {
		ifindex, attachType, queryFlags, attachFlags uint32
		ids                                          uint64
		count, _                                     uint32
		attachFlagsOut, linkIDs, linkFlags, revision uint64
	}{ifindex: uint32(ifindex), attachType: ingress}
	_, _, errno := unix.Syscall(unix.SYS_BPF, query, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 && errno != unix.ENOENT { // ENOENT: nothing was ever attached
		return 0, fmt.Errorf("query programs of interface %d: %w", ifindex, errno)
	}
	return int(attr.count), nil
}

// TestTwoOfOneName: the second says so and ends, and the first does not notice.
func TestTwoOfOneName(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("")
	s.crossing()
	from := backlog(t)
	k, r := s.sink(2, 5000), s.send(1, 2, 5000, pace)
	second := s.launch()
	err := second.Wait(s.within())
	if lab.ExitCode(err) != 1 || !strings.Contains(second.Stderr(), "another forwarder of this name is running") {
		t.Errorf("the second: %v\n%s", err, second.Log())
	}
	if n := strings.Count(strings.TrimSpace(second.Stderr()), "\n"); n > 0 {
		t.Errorf("an error of %d lines:\n%s", n+1, second.Stderr())
	}
	r.more(100)
	r.end()
	intact(t, from, []*sink{k}, []*stream{r})
}

// TestExpiredStaysGone: an entry that ran out of time is not there again after a restart, and one that is in use does not run out by it.
func TestExpiredStaysGone(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("state: " + s.path("state"))
	c := s.connect()
	short, used := add(10, udp(1, 5001), output(2)), add(10, udp(1, 5000), output(2))
	short.Hard = 1
	used.Idle = 2
	s.commit(c, short, used)
	k, r := s.sink(2, 5000), s.send(1, 2, 5000, 500*time.Millisecond)
	lab.Eventually(t, patience, func() error {
		if flows := s.ofctl("dump-flows"); strings.Contains(flows, "tp_dst=5001") {
			return fmt.Errorf("it has not expired:\n%s", flows)
		}
		return nil
	})
	r.more(5) // longer than the idle time since it was added
	s.must(s.process.Kill())
	s.run()
	if flows := s.ofctl("dump-flows"); strings.Contains(flows, "tp_dst=5001") {
		t.Errorf("it is there again:\n%s", flows)
	}
	r.more(3)
	r.end()
	if lost := k.lost(r); len(lost) > 0 {
		t.Errorf("packets %v of %d lost: the entry in use has expired", lost, r.next.Load())
	}
	if flows := s.ofctl("dump-flows"); !strings.Contains(flows, "tp_dst=5000") {
		t.Errorf("the entry in use has expired:\n%s", flows)
	}
}

// TestFailedStart: a forwarder that cannot start says why in a line, takes nothing over, and leaves nothing that cannot be taken away.
func TestFailedStart(t *testing.T) {
	for _, tt := range []struct{ name, lines, want string }{
		{"its endpoint is taken", "listen: ['tcp:127.0.0.1:9999']", "127.0.0.1:9999"},
		{"its metrics' port is taken", "metrics: 127.0.0.1:9999", "127.0.0.1:9999"},
		{"a folder that cannot be", "state: /proc/none", "/proc/none"},
		{"a port that is no Ethernet", "ports: [lo]", "lo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, 2, lab.LinkOptions{})
			before := s.traces()
			l, err := s.node.Listen("tcp", "127.0.0.1:9999")
			must(t, err)
			t.Cleanup(func() { l.Close() })
			fails := func() {
				t.Helper()
				s.configure(tt.lines)
				p := s.launch()
				err := p.Wait(s.within())
				if lab.ExitCode(err) != 1 || !strings.Contains(p.Stderr(), tt.want) || strings.Count(strings.TrimSpace(p.Stderr()), "\n") > 0 {
					t.Errorf("%v\n%s", err, p.Log())
				}
			}
			fails()
			s.cleanup()
			if after := s.traces(); !slices.Equal(before, after) {
				t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			s.start("")
			s.crossing()
			from := backlog(t)
			sinks := []*sink{s.sink(2, 5000), s.sink(2, 5001), s.sink(2, 6001)}
			streams := []*stream{s.send(1, 2, 5000, pace), s.send(1, 2, 5001, pace)}
			streams = append(streams, streams[1]) // the changed copy
			s.must(s.process.Kill())
			fails()
			streams[0].more(100)
			intact(t, from, sinks, streams)
		})
	}
}
