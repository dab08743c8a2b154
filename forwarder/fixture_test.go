package forwarder_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/build"
	of "baton/openflow"
	"baton/openflow/channel"
)

// patience bounds what a test waits for that should take milliseconds: machines that run tests are busy.
const patience = 20 * time.Second

// stage is a forwarder and hosts h1, h2, … at its ports 1, 2, …, of the addresses 10.7.0.1, 10.7.0.2, … IPv4 alone, and no host asks
// for another's MAC: every packet is the test's.
type stage struct {
	*lab.Lab
	t       *testing.T
	node    *lab.Host
	hosts   []*lab.Host
	cables  []*lab.Link // A: the forwarder's end, p1, …
	name    string      // of the forwarder
	file    string
	process *lab.Process
}

func (s *stage) host(port int) *lab.Host         { return s.hosts[port-1] }
func (s *stage) outside(port int) *lab.Interface { return s.cables[port-1].B }
func address(port int) netip.Addr                { return netip.AddrFrom4([4]byte{10, 7, 0, byte(port)}) }
func (s *stage) must(err error)                  { s.t.Helper(); must(s.t, err) }
func (s *stage) within() context.Context         { return within(s.t) }
func (s *stage) path(name string) string         { return filepath.Join(s.Dir(), name) }
func (s *stage) pins() string                    { return "/sys/fs/bpf/baton-forwarder/" + s.name }
func (s *stage) log() string                     { return s.process.Log() }

// silence keeps a host from sending what no test asks for.
func silence(h *lab.Host) {
	h.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
	h.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
}

// exec runs a program on the forwarder's host.
func (s *stage) exec(name string, a ...string) (string, error) {
	return s.node.Exec(s.within(), name, a...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within is a context that ends long after anything of a test should.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

// newStage builds the hosts. Nothing runs yet.
func newStage(t *testing.T, ports int, o lab.LinkOptions) *stage {
	t.Helper()
	var id [4]byte
	_, _ = rand.Read(id[:])
	s := &stage{Lab: lab.New(t), t: t, name: fmt.Sprintf("t%x", id)}
	s.node = s.Host("switch")
	silence(s.node)
	for port := 1; port <= ports; port++ {
		s.join(port, o)
	}
	for i, n := range s.cables {
		for j := range s.cables {
			if i != j {
				s.hosts[i].Neighbour(n.B, address(j+1).String(), s.cables[j].B.MAC)
			}
		}
	}
	return s
}

// join makes the host and the cable of a port.
func (s *stage) join(port int, o lab.LinkOptions) {
	s.t.Helper()
	h := s.Host(fmt.Sprintf("h%d", port))
	silence(h)
	s.hosts = append(s.hosts, h)
	s.cables = append(s.cables, s.Link(lab.End{Host: s.node, Name: fmt.Sprintf("p%d", port)},
		lab.End{Host: h, Name: "eth0", Addrs: []string{address(port).String() + "/24"}}, o))
}

// endpoint is where the forwarder listens, unless a configuration says otherwise.
const endpoint = "tcp:127.0.0.1:6654"

// configure writes the configuration: these lines, and what they leave out.
func (s *stage) configure(lines string) {
	s.t.Helper()
	text := fmt.Sprintf("name: %s\ncontrol: %s\n", s.name, s.path("forwarder.sock"))
	for key, value := range map[string]string{
		"ports":       "{" + strings.Join(s.portList(), ", ") + "}",
		"datapath_id": "0x7",
		"listen":      "[" + endpoint + "]",
		"metrics":     "127.0.0.1:9410",
		"limits":      "{entries: 4096, groups: 64, meters: 16, cache: 1024}",
	} {
		if !strings.Contains("\n"+lines, "\n"+key+":") {
			text += key + ": " + value + "\n"
		}
	}
	s.file = s.path("forwarder.yaml")
	s.must(os.WriteFile(s.file, []byte(text+lines+"\n"), 0o600))
}

func (s *stage) portList() []string {
	var list []string
	for i := range s.cables {
		list = append(list, fmt.Sprintf("%d: p%d", i+1, i+1))
	}
	return list
}

// start runs the forwarder with these lines of configuration until it listens.
func (s *stage) start(lines string) {
	s.t.Helper()
	s.configure(lines)
	s.run()
}

// run runs the forwarder with the configuration as it is until it listens. What is left in the end is taken away.
func (s *stage) run() {
	s.t.Helper()
	s.process = s.launch()
	lab.Eventually(s.t, patience, func() error {
		select {
		case <-s.process.Done():
			s.t.Fatalf("the forwarder has ended:\n%s", s.log())
		default:
		}
		if !strings.Contains(s.log(), "forwarder is up") {
			return fmt.Errorf("the forwarder is not up:\n%s", s.log())
		}
		return nil
	})
}

// launch starts the forwarder and does not wait.
func (s *stage) launch() *lab.Process { return s.command("run") }

// command starts a command of the forwarder's.
func (s *stage) command(verb string) *lab.Process {
	s.t.Helper()
	path, err := build.Program("baton")
	s.must(err)
	p, err := s.node.Start(lab.Program{Path: path, Args: []string{"forwarder", verb, "-c", s.file}, Name: "forwarder"})
	s.must(err)
	return p
}

// end is SIGTERM, and a good end.
func (s *stage) end() {
	s.t.Helper()
	s.must(s.process.Signal(unix.SIGTERM))
	if err := s.process.Wait(s.within()); err != nil {
		s.t.Fatalf("the forwarder does not end well: %v\n%s", err, s.log())
	}
}

// cleanup takes away what a forwarder that has ended has left.
func (s *stage) cleanup() {
	s.t.Helper()
	p := s.command("cleanup")
	if err := p.Wait(s.within()); err != nil {
		s.t.Fatalf("cleanup: %v\n%s", err, p.Log())
	}
}

// ofctl runs a command of ovs-ofctl on the forwarder.
func (s *stage) ofctl(command string, args ...string) string {
	s.t.Helper()
	out, err := s.tryOfctl(command, args...)
	s.must(err)
	return out
}

func (s *stage) tryOfctl(command string, args ...string) (string, error) {
	s.Need("ovs-ofctl")
	return s.exec("ovs-ofctl", append([]string{"-O", "OpenFlow13", command, endpoint}, args...)...)
}

// connect opens a channel as a controller does that connects by itself.
func (s *stage) connect() *channel.Conn {
	s.t.Helper()
	conn, err := s.node.Dial(s.within(), "tcp", strings.TrimPrefix(endpoint, "tcp:"))
	s.must(err)
	c := channel.Start(conn, channel.Options{})
	s.t.Cleanup(func() { c.Close() })
	s.must(c.Up(s.within()))
	return c
}

// commit sends messages and a barrier, which must all be taken.
func (s *stage) commit(c *channel.Conn, m ...of.Message) {
	s.t.Helper()
	s.must(c.Commit(s.within(), m...))
}

// ask is a multipart request whose reply has one part.
func ask[T of.MultipartBody](s *stage, c *channel.Conn, body of.MultipartBody) T {
	s.t.Helper()
	parts, err := c.Multipart(s.within(), body)
	s.must(err)
	if len(parts) != 1 {
		s.t.Fatalf("%T: %d parts", body, len(parts))
	}
	return parts[0].(T)
}

// receive waits for a message of a type that no one asked for, and that ok takes.
func receive[T of.Message](s *stage, c *channel.Conn, what string, ok func(T) bool) T {
	s.t.Helper()
	var seen []string
	for ctx := s.within(); ; {
		r, err := c.Receive(ctx)
		if err != nil {
			s.t.Fatalf("no %s: %v; there came %v", what, err, seen)
		}
		if m, is := r.Message.(T); is && ok(m) {
			return m
		}
		seen = append(seen, fmt.Sprintf("%T %+v", r.Message, r.Message))
	}
}

// add is a flow mod that adds an entry whose actions are applied.
func add(priority uint16, match of.Match, actions ...of.Action) *of.FlowMod {
	m := of.NewFlowMod(of.FlowAdd)
	m.Priority, m.Match = priority, match
	if len(actions) > 0 {
		m.Instructions = []of.Instruction{of.InstructionApplyActions{Actions: actions}}
	}
	return m
}

func output(port of.PortNo) of.Action { return of.ActionOutput{Port: port, MaxLen: 0xffff} }

// udp is a match on UDP of a port to a port of the transport.
func udp(in of.PortNo, dst uint64) of.Match {
	return of.Match{}.Port(in).Uint(of.FieldEthType, 0x0800).Uint(of.FieldIPProto, 17).Uint(of.FieldUDPDst, dst)
}

// inject sends a frame out of an interface as it is.
func inject(t *testing.T, n *lab.Interface, frame []byte) {
	t.Helper()
	must(t, n.Host.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: n.Index})
	}))
}

// frame is an Ethernet frame of a size, its payload counting on from its seed.
func frame(dst, src [6]byte, etherType uint16, size int, seed byte) []byte {
	b := slices.Concat(dst[:], src[:], binary.BigEndian.AppendUint16(nil, etherType), make([]byte, size-14))
	for i := range b[14:] {
		b[14+i] = seed + byte(i)
	}
	return b
}

var (
	nobody    = [6]byte{2, 0, 0, 0, 0, 0x99}
	somebody  = [6]byte{2, 0, 0, 0, 0, 0x11}
	localType = uint16(0x88b5) // IEEE 802 local experimental
)
