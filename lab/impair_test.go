package lab_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/emulator"
)

// datagrams sends numbered datagrams from one host to another, some at a time, and returns the numbers in the order
// in which they came. gone says how many of those sent so far will not come (or come twice: negative).
func datagrams(t *testing.T, from, to *lab.Host, address string, count int, gone func() int) []int {
	t.Helper()
	in, err := to.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := from.Dial(t.Context(), "udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var got []int
	buffer := make([]byte, 64)
	for sent := 0; sent < count; {
		for range min(100, count-sent) {
			if _, err := out.Write(binary.BigEndian.AppendUint32(nil, uint32(sent))); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		lab.Eventually(t, long, func() error {
			in.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
			for {
				n, _, err := in.ReadFrom(buffer)
				if err != nil {
					break
				}
				if n == 4 {
					got = append(got, int(binary.BigEndian.Uint32(buffer)))
				}
			}
			if missing := sent - len(got) - gone(); missing != 0 {
				return fmt.Errorf("of %d datagrams %d came, and %d are unaccounted for", sent, len(got), missing)
			}
			return nil
		})
	}
	return got
}

func near(t *testing.T, what string, got, of int, share float64) {
	t.Helper()
	want := share * float64(of)
	if slack := 6 * math.Sqrt(want*(1-share)); math.Abs(float64(got)-want) > slack {
		t.Errorf("%s: %d of %d, want %.0f ± %.0f", what, got, of, want, slack)
	}
}

func TestLoss(t *testing.T) {
	l := lab.New(t)
	a, b := l.Host("a"), l.Host("b")
	at := l.Link(lab.End{Host: a, Addrs: []string{"10.1.0.1/24"}}, lab.End{Host: b, Addrs: []string{"10.1.0.2/24"}}, lab.LinkOptions{}).B
	const sent = 5000
	quiet(a, b)
	at.Lose(0.1)
	got := datagrams(t, a, b, "10.1.0.2:9", sent, func() int {
		lost, err := at.Lost()
		if err != nil {
			t.Fatal(err)
		}
		return lost
	})
	near(t, "lost", sent-len(got), sent, 0.1)
	at.Lose(1)
	all := func() int {
		lost, err := at.Lost()
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	if got := datagrams(t, a, b, "10.1.0.2:9", sent, all); len(got) != 0 {
		t.Errorf("of a loss of all, %d of %d came", len(got), sent)
	}
	at.Lose(0)
	if got := datagrams(t, a, b, "10.1.0.2:9", sent, func() int { return 0 }); len(got) != sent {
		t.Errorf("after the loss %d of %d came", len(got), sent)
	}
	if _, err := at.Lost(); err == nil {
		t.Error("losses are counted where none are made")
	}
}

// emulated is two hosts with an emulated link between them.
func emulated(t *testing.T, o lab.LinkOptions) (a, b *lab.Host, k *lab.Link) {
	t.Helper()
	l := lab.New(t)
	a, b = l.Host("a"), l.Host("b")
	o.Emulated = true
	k = l.Link(lab.End{Host: a, Addrs: []string{"10.1.0.1/24", "fd01::1/64"}}, lab.End{Host: b, Addrs: []string{"10.1.0.2/24", "fd01::2/64"}}, o)
	return a, b, k
}

func TestEmulatedLossAndRepetition(t *testing.T) {
	a, b, k := emulated(t, lab.LinkOptions{AtoB: emulator.Shape{Loss: 0.05, Duplicate: 0.05}})
	quiet(a, b)
	passed(t, a, b) // what IPv6 said when it was disabled is counted
	before, _ := k.Counts()
	count := func() emulator.Counts {
		c, _ := k.Counts()
		c.Lost -= before.Lost
		c.Duplicated -= before.Duplicated
		return c
	}
	const sent = 5000
	got := datagrams(t, a, b, "10.1.0.2:9", sent, func() int { c := count(); return int(c.Lost - c.Duplicated) })
	slices.Sort(got)
	near(t, "lost", sent-len(slices.Compact(got)), sent, 0.05)
	near(t, "duplicated", int(count().Duplicated), sent, 0.05*0.95)
	if _, back := k.Counts(); back.Lost+back.Duplicated > 0 {
		t.Errorf("%+v in the direction that has no shape", back)
	}
}

func TestEmulatedReordering(t *testing.T) {
	a, b, k := emulated(t, lab.LinkOptions{AtoB: emulator.Shape{Reorder: 0.1, Behind: 3, Within: 200 * time.Millisecond}})
	quiet(a, b)
	const sent = 2000
	got := datagrams(t, a, b, "10.1.0.2:9", sent, func() int { return 0 })
	late, highest := 0, -1
	for _, n := range got {
		if n < highest {
			late++
		}
		highest = max(highest, n)
	}
	near(t, "came late", late, sent, 0.1)
	if c, _ := k.Counts(); int(c.Held) < late {
		t.Errorf("%d came late, %d were held back", late, c.Held)
	}
}

// stream sends random bytes over TCP and checks what comes out.
func stream(t *testing.T, from, to *lab.Host, address string, size int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	ln, err := to.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sum := make(chan error, 1)
	want := sha256.New()
	data := make([]byte, size)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], random.Uint64())
	}
	want.Write(data)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			sum <- err
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		got := sha256.New()
		if n, err := io.Copy(got, c); err != nil || n != int64(size) {
			sum <- fmt.Errorf("%d bytes of %d: %w", n, size, err)
		} else if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
			sum <- errors.New("the bytes differ")
		} else {
			sum <- nil
		}
	}()
	c, err := from.Dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	if err := <-sum; err != nil {
		t.Error(err)
	}
	c.Close()
}

func TestEmulatedLinkCarriesTCP(t *testing.T) {
	bad := emulator.Shape{Loss: 0.02, Reorder: 0.02, Behind: 4, Duplicate: 0.01, Corrupt: 0.002}
	tests := []struct {
		name    string
		options lab.LinkOptions
		longest int // frame, up to
	}{
		{"clean", lab.LinkOptions{}, 70_000},
		{"clean, without offloads", lab.LinkOptions{NoOffloads: true}, 1514},
		{"losses, reordering and corruption", lab.LinkOptions{AtoB: bad, BtoA: bad}, 70_000},
		{"the same without offloads", lab.LinkOptions{AtoB: bad, BtoA: bad, NoOffloads: true}, 1514},
		{"a narrow link with jitter", lab.LinkOptions{
			AtoB: emulator.Shape{Rate: 200e6, Delay: 5 * time.Millisecond, Jitter: 2 * time.Millisecond, Queue: emulator.Queue{Discipline: emulator.CoDel}},
			BtoA: emulator.Shape{Rate: 100e6, Delay: 2 * time.Millisecond, Queue: emulator.Queue{Packets: 50}},
		}, 70_000},
		{"jumbo frames", lab.LinkOptions{MTU: 9000, NoOffloads: true}, 9014},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b, k := emulated(t, tt.options)
			capture := k.B.Capture(lab.CaptureOptions{SnapLen: 60})
			for _, address := range []string{"10.1.0.2:80", "[fd01::2]:80"} {
				stream(t, a, b, address, 8<<20)
				stream(t, b, a, strings.NewReplacer("0.2", "0.1", "::2", "::1").Replace(address), 1<<20)
			}
			longest := 0
			for _, p := range capture.Stop() {
				if !p.Outgoing {
					longest = max(longest, p.Length)
				}
			}
			// Frames stay as long as they were made, unless they must be cut.
			if least := min(tt.longest, 1400); longest > tt.longest || longest < least || tt.options.AtoB == (emulator.Shape{}) && tt.longest > 9014 && longest < 9014 {
				t.Errorf("the longest frame has %d bytes, want up to %d", longest, tt.longest)
			}
			there, back := k.Counts()
			t.Logf("a to b %+v, b to a %+v", there, back)
			for _, c := range []emulator.Counts{there, back} {
				if c.Packets == 0 || c.Overrun > 0 || (c.Lost > 0) != (tt.options.AtoB.Loss > 0) || (c.Held > 0) != (tt.options.AtoB.Reorder > 0) {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}

// TestSetLink changes a link under a connection that is open all the time.
func TestSetLink(t *testing.T) {
	a, b, k := emulated(t, lab.LinkOptions{})
	echo(t, b, "10.1.0.2:7")
	c, err := a.Dial(t.Context(), "tcp", "10.1.0.2:7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, delay := range []time.Duration{0, 30 * time.Millisecond, 100 * time.Millisecond, 0} {
		k.Set(emulator.Shape{Delay: delay}, emulator.Shape{})
		if best := roundTrip(t, c); best < delay || best > delay+25*time.Millisecond {
			t.Errorf("with a delay of %v one way, the best round trip takes %v", delay, best)
		}
	}
}

// TestLinkDown pulls the cable and plugs it in again: both ends see it, addresses and routes stay, and TCP goes on.
func TestLinkDown(t *testing.T) {
	a, b, k := emulated(t, lab.LinkOptions{AtoB: emulator.Shape{Delay: time.Millisecond}})
	echo(t, b, "[fd01::2]:7")
	c, err := a.Dial(t.Context(), "tcp", "[fd01::2]:7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	roundTrip(t, c)
	carrier := func(want string) error {
		for _, h := range []*lab.Host{a, b} {
			out, err := h.Exec(t.Context(), "ip", "-br", "link", "show", "eth0")
			if err != nil || strings.Fields(out)[1] != want {
				return fmt.Errorf("%s: %q, want %s: %w", h.Name(), out, want, err)
			}
		}
		return nil
	}
	k.Down()
	lab.Eventually(t, long, func() error { return carrier("DOWN") })
	if _, err := c.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came over a link that is down", n)
	}
	k.Up()
	lab.Eventually(t, long, func() error { return carrier("UP") })
	c.SetReadDeadline(time.Now().Add(long))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("after the link was up again: %v", err)
	}
}

// echo answers every connection with what it sends, until the test ends.
func echo(t *testing.T, h *lab.Host, address string) {
	t.Helper()
	ln, err := h.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
}

// roundTrip is the shortest of some round trips of a byte.
func roundTrip(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	best := time.Hour
	b := make([]byte, 1)
	for range 10 {
		began := time.Now()
		c.SetDeadline(began.Add(long))
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, b); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	return best
}

// TestLinkRefuses: what cannot be is said at once.
func TestLinkRefuses(t *testing.T) {
	tests := []struct {
		name string
		act  func(l *lab.Lab, a, b *lab.Host)
		want string
	}{
		{"impossible shape", func(l *lab.Lab, a, b *lab.Host) {
			l.Link(lab.End{Host: a}, lab.End{Host: b}, lab.LinkOptions{BtoA: emulator.Shape{Loss: 2}})
		}, "lab: link a-b: b to a: loss 200%"},
		{"shape for a veth pair", func(l *lab.Lab, a, b *lab.Host) {
			l.Link(lab.End{Host: a}, lab.End{Host: b}, lab.LinkOptions{}).Set(emulator.Shape{Delay: 1}, emulator.Shape{})
		}, "a.eth0-b.eth0: it is a veth pair"},
		{"impossible change", func(l *lab.Lab, a, b *lab.Host) {
			l.Link(lab.End{Host: a}, lab.End{Host: b}, lab.LinkOptions{Emulated: true}).Set(emulator.Shape{Rate: 1}, emulator.Shape{})
		}, "a to b: rate 1bit"},
		{"interface that is there", func(l *lab.Lab, a, b *lab.Host) {
			for range 2 {
				l.Link(lab.End{Host: a, Name: "up0"}, lab.End{Host: b}, lab.LinkOptions{Emulated: true})
			}
		}, "make tap up0"},
	}
	lab.NeedRoot(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := lab.Run(io.Discard, func(l *lab.Lab) error {
				tt.act(l, l.Host("a"), l.Host("b"))
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestEmulatorDies: what needs it says so, and the lab ends clean.
func TestEmulatorDies(t *testing.T) {
	lab.NeedRoot(t)
	err := lab.Run(io.Discard, func(l *lab.Lab) error {
		k := l.Link(lab.End{Host: l.Host("a")}, lab.End{Host: l.Host("b")}, lab.LinkOptions{Emulated: true})
		pids, err := exec.Command("pgrep", "-P", fmt.Sprint(os.Getpid()), "-f", "^baton-link-emulator").Output()
		if err != nil {
			return fmt.Errorf("find the emulator: %w", err)
		}
		if err := exec.Command("kill", append([]string{"-9"}, strings.Fields(string(pids))...)...).Run(); err != nil {
			return err
		}
		k.Counts()
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "link emulator: its process has ended") {
		t.Errorf("error %v, want one that names the emulator", err)
	}
}

func TestCaptureAndOffloads(t *testing.T) {
	tests := []struct {
		name     string
		options  lab.LinkOptions
		offloads bool
	}{
		{"with offloads", lab.LinkOptions{}, true},
		{"without offloads", lab.LinkOptions{NoOffloads: true}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := lab.New(t)
			a, b := l.Host("a"), l.Host("b")
			k := l.Link(lab.End{Host: a, Addrs: []string{"10.1.0.1/24"}}, lab.End{Host: b, Addrs: []string{"10.1.0.2/24"}}, tt.options)
			tcp := func(f []byte) bool { return len(f) > 34 && f[12] == 8 && f[13] == 0 && f[23] == 6 }
			sent, received := k.A.Capture(lab.CaptureOptions{Keep: tcp}), k.B.Capture(lab.CaptureOptions{Keep: tcp, SnapLen: 54})
			stream(t, a, b, "10.1.0.2:80", 4<<20)
			longest, partial, payload := 0, 0, 0
			packets := sent.Stop()
			for _, p := range packets {
				if p.Outgoing {
					longest = max(longest, p.Length)
					payload += p.Length - 14 - 20 - int(p.Data[46]>>4)*4
				}
				if p.Partial {
					partial++
				}
			}
			if sent.Missed() > 0 {
				t.Errorf("%d packets missed", sent.Missed())
			}
			if payload < 4<<20 {
				t.Errorf("%d bytes of payload seen, 4 MiB were sent", payload)
			}
			if tt.offloads && (longest <= 1514 || partial == 0) {
				t.Errorf("longest frame %d, %d partial checksums; want GSO packets", longest, partial)
			}
			if !tt.offloads && (longest > 1514 || partial > 0) {
				t.Errorf("longest frame %d, %d partial checksums; want wire frames", longest, partial)
			}
			for _, p := range received.Stop() {
				if len(p.Data) > 54 {
					t.Fatalf("%d bytes kept, want 54", len(p.Data))
				}
			}
			checkPcap(t, packets)
		})
	}
}

func checkPcap(t *testing.T, packets []lab.Packet) {
	t.Helper()
	if _, err := exec.LookPath("tcpdump"); err != nil {
		t.Skip("SKIP: tcpdump is not installed")
	}
	path := filepath.Join(t.TempDir(), "x.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lab.WritePcap(f, packets), f.Close()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tcpdump", "-Z", "root", "-nr", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(out), "\n"); lines != len(packets) {
		t.Errorf("tcpdump reads %d packets, want %d", lines, len(packets))
	}
}
