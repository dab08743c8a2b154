package test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet"
)

// flooded is a router with small tables, a client of each kind, and an attacker.
type flooded struct {
	*network
	r     *running
	plain *lab.Host // a client without timestamps, whose options need an entry
	evil  *lab.Host
	side  *lab.Interface // evil's, whose neighbour is front
	front *lab.Interface
}

// fewPending is limits.pending of these tests.
const fewPending = 200

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	f := &flooded{network: newNetwork(t)}
	s := f.site("a", lab.LinkOptions{})
	serve(t, s.Host, "a")
	plain, plainFront := f.clientHost("plain", lab.LinkOptions{})
	plain.Sysctl("net.ipv4.tcp_timestamps", "0")
	f.plain = plain
	f.evil, f.front = f.clientHost("evil", lab.LinkOptions{})
	f.side = f.evil.Interface("eth0")
	f.r = f.start(fmt.Sprintf("limits: {pending: %d}\ntimeouts: {handshake: %v, closing: 2s}\nvips:\n  - address: %q\n    interfaces: [%s, %s, %s]\n"+
		"    routes: [{match: {path_regex: '^/upcall$'}, pool: a}, {match: {host: a.test}, pool: a}]\npools: {a: {legs: {min: 8, max: 2000}, surrogates: [{name: a, address: %q}]}}\n",
		fewPending, handshake, vip4, f.network.front.Name, plainFront.Name, f.front.Name, s.v4))
	return f
}

// crowds are clients of the kernel's decisions, with and without timestamps.
func (f *flooded) crowds(t *testing.T) []*crowd {
	t.Helper()
	var out []*crowd
	for _, from := range []*lab.Host{f.client, f.plain} {
		c := &crowd{n: f.network, from: from, host: "a.test", path: "/bytes/20000", want: patternText(20_000), requests: 2, pause: 5 * time.Millisecond}
		out = append(out, c.come(t, 3))
	}
	return out
}

// memory is the router's resident memory, in bytes.
func (r *running) memory(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// moreMemory bounds the process's growth in a flood (bytes): its heap varies by some megabytes anyway.
const moreMemory = 32 << 20

// TestSYNFlood sends SYNs from unused addresses, while clients come and go.
func TestSYNFlood(t *testing.T) {
	f := newFlooded(t)
	memory := f.r.memory(t)
	crowds := f.crowds(t)
	before := f.r.verdicts()
	const each = 50_000
	for _, options := range []packet.Options{
		packet.Options{}.AppendMSS(1460).AppendSACKPermitted().AppendTimestamps(1, 0).AppendWindowScale(7),
		packet.Options{}.AppendMSS(1460).AppendNOP(1).AppendWindowScale(7),
	} {
		if err := f.syns(t.Context(), each, options); err != nil {
			t.Fatal(err)
		}
		for _, c := range crowds {
			c.turns()
		}
	}
	for _, c := range crowds {
		c.leave()
		c.unharmed()
	}
	after := f.r.verdicts()
	if got := after["syn_answered"] + after["syn_cookie"] - before["syn_answered"] - before["syn_cookie"]; got < 2*each {
		t.Errorf("%v SYNs were answered, of %d", got, 2*each)
	}
	if got := after["syn_cookie"] - before["syn_cookie"]; got < each-fewPending {
		t.Errorf("%v of %d clients that have to be remembered were not, want all but %d", got, each, fewPending)
	}
	if more := f.r.memory(t) - memory; more > moreMemory {
		t.Errorf("the router holds %d bytes more", more)
	}
	if s := f.r.status(); s.Sessions > 0 {
		t.Errorf("%d sessions are left", s.Sessions)
	}
}

// syns floods the VIP.
func (f *flooded) syns(ctx context.Context, count int, options packet.Options) error {
	vip := netip.MustParseAddrPort(vip4)
	b := packet.Build(packet.Spec{
		SrcMAC: packet.MAC(f.side.MAC), DstMAC: packet.MAC(f.front.MAC), Dst: vip, Src: netip.MustParseAddrPort("198.18.0.0:1024"),
		Flags: packet.SYN, Window: 64240, Options: options,
	})
	frame, err := packet.Parse(b)
	if err != nil {
		return err
	}
	ip, tcp := frame.IPv4(), frame.TCP()
	var fd int
	err = f.evil.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Ifindex: f.side.Index}
	random := rand.New(rand.NewPCG(1, uint64(len(options))))
	for i := range count {
		src := binary.BigEndian.AppendUint32(nil, 198<<24|18<<16|random.Uint32N(1<<17)) // of RFC 2544
		frame.Src = netip.AddrPortFrom(netip.AddrFrom4([4]byte(src)), uint16(1024+random.IntN(60000)))
		ip.SetSrc(frame.Src.Addr())
		tcp.SetSrcPort(frame.Src.Port())
		tcp.SetSeq(packet.Seq(random.Uint32()))
		ip.SetChecksum(0)
		ip.SetChecksum(packet.Checksum(ip, 0))
		tcp.SetChecksum(0)
		tcp.SetChecksum(frame.TransportChecksum())
		if err := unix.Sendto(fd, b, 0, to); err != nil && err != unix.ENOBUFS {
			return fmt.Errorf("SYN %d: %w", i, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// TestConnectionFlood opens connections without a request, and then some with half a request. Clients of the kernel's decisions
// do not notice; others wait until there is space.
func TestConnectionFlood(t *testing.T) {
	t.Parallel() // mostly waits
	f := newFlooded(t)
	memory := f.r.memory(t)
	crowds := f.crowds(t)
	const silent, half, sources = 1500, 2 * fewPending, 40
	from := addresses(t, f.evil, 2, sources) // a single source has only its share
	var open []*connection
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for i := range silent + half {
		c, err := dialFrom(f.evil, from[i%sources], vip4)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		open = append(open, c)
		if i >= silent {
			if _, err := io.WriteString(c, "GET /upcall HTTP/1.1\r\nHo"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range crowds {
		c.turns()
	}
	var work errgroup.Group
	for _, from := range []*lab.Host{f.client, f.plain} {
		work.Go(func() error {
			c, err := dial(t.Context(), from, vip4)
			if err != nil {
				return err
			}
			defer c.Close()
			got, err := c.get("a.test", "/upcall")
			if err == nil && got.StatusCode != http.StatusOK {
				err = fmt.Errorf("client of an upcall: %s", got.Status)
			}
			return err
		})
	}
	for i, c := range open[silent:] {
		work.Go(func() error {
			got, err := c.read("GET")
			if err == nil && got.StatusCode != http.StatusRequestTimeout {
				err = fmt.Errorf("%s", got.Status)
			}
			if err != nil {
				return fmt.Errorf("half a head %d: %w", i, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	for _, c := range crowds {
		c.leave()
		c.unharmed()
	}
	if more := f.r.memory(t) - memory; more > moreMemory {
		t.Errorf("the router holds %d bytes more", more)
	}
	// A client with timestamps that has sent nothing leaves no state: its late request is served.
	got, err := open[0].get("a.test", "/bytes/1000")
	got.expect(t, err, "a", http.StatusOK, patternText(1000))
}
