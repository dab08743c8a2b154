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

func wired(t *testing.T, aToB, bToA lab.Impairment) (a, b *lab.Host, w *lab.Wire) {
	t.Helper()
	l := lab.New(t)
	a, b = l.Host("a"), l.Host("b")
	_, _, w = l.Wire(lab.End{Host: a, Addrs: []string{"10.1.0.1/24", "fd01::1/64"}},
		lab.End{Host: b, Addrs: []string{"10.1.0.2/24", "fd01::2/64"}}, lab.LinkOptions{}, aToB, bToA)
	return a, b, w
}

// quiet keeps every frame but the test's own off the wire, for tests that count frames: no ARP, no IPv6.
func quiet(a, b *lab.Host) {
	for _, h := range []*lab.Host{a, b} {
		h.Sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")
	}
	a.Neighbour(a.Interface("eth0"), "10.1.0.2", b.Interface("eth0").MAC)
	b.Neighbour(b.Interface("eth0"), "10.1.0.1", a.Interface("eth0").MAC)
}

func TestWireLosesAndDuplicates(t *testing.T) {
	a, b, w := wired(t, lab.Impairment{Loss: 0.05, Duplicate: 0.05}, lab.Impairment{})
	quiet(a, b)
	before := w.AtoB.Lost.Load() - w.AtoB.Duplicated.Load()
	const sent = 5000
	got := datagrams(t, a, b, "10.1.0.2:9", sent, func() int {
		return int(w.AtoB.Lost.Load() - w.AtoB.Duplicated.Load() - before)
	})
	slices.Sort(got)
	near(t, "lost", sent-len(slices.Compact(got)), sent, 0.05)
	near(t, "duplicated", int(w.AtoB.Duplicated.Load()), sent, 0.05*0.95)
}

func TestWireReordersExactly(t *testing.T) {
	a, b, w := wired(t, lab.Impairment{Every: 10, Behind: 3, Within: 200 * time.Millisecond}, lab.Impairment{})
	quiet(a, b)
	got := datagrams(t, a, b, "10.1.0.2:9", 1003, func() int { return 0 })
	late := 0
	for i, n := range got {
		if i > 2 && got[i-3] == n+1 && got[i-1] == n+3 {
			late++
		}
	}
	// At the end of each of the 11 batches a frame may find no three later ones.
	if held := int(w.AtoB.Held.Load()); late < held-11 || held < 99 {
		t.Errorf("%d datagrams came behind three later ones, %d were held; want about 100 of both", late, held)
	}
}

func TestWireReleasesInTime(t *testing.T) {
	a, b, _ := wired(t, lab.Impairment{Every: 1, Behind: 1 << 30, Within: time.Millisecond}, lab.Impairment{})
	got := datagrams(t, a, b, "10.1.0.2:9", 10, func() int { return 0 })
	if len(got) != 10 {
		t.Errorf("%d of 10 datagrams came", len(got))
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

func TestWireCarriesTCP(t *testing.T) {
	tests := []struct {
		name string
		wire lab.Impairment
	}{
		{"clean", lab.Impairment{}},
		{"two percent loss and reordering", lab.Impairment{Loss: 0.02, Every: 50, Behind: 4, Duplicate: 0.01}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b, w := wired(t, tt.wire, tt.wire)
			for _, address := range []string{"10.1.0.2:80", "[fd01::2]:80"} {
				began := time.Now()
				stream(t, a, b, address, 8<<20)
				t.Logf("%s: %v, a to b: %d passed, %d lost, %d duplicated, %d held", address, time.Since(began),
					w.AtoB.Passed.Load(), w.AtoB.Lost.Load(), w.AtoB.Duplicated.Load(), w.AtoB.Held.Load())
			}
			if (w.AtoB.Lost.Load() > 0) != (tt.wire.Loss > 0) || (w.AtoB.Held.Load() > 0) != (tt.wire.Every > 0) {
				t.Errorf("lost %d, held %d", w.AtoB.Lost.Load(), w.AtoB.Held.Load())
			}
		})
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
