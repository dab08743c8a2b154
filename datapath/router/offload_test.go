package router

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
	"baton/packet/packettest"
	"baton/splice"
)

func (k *rig) wires() *kerneltest.Wires {
	k.t.Helper()
	w := &kerneltest.Wires{T: k.t, Counts: k.counts}
	for _, tap := range []**datapath.Tap{&w.In, &w.Out} {
		made, err := datapath.OpenTap("offload%d")
		k.must(err)
		k.t.Cleanup(func() { made.Close() })
		*tap = made
	}
	k.attach(w.In.Ifindex)
	return w
}

// attach attaches the program to an interface without pinning it.
func (k *rig) attach(ifindex int) {
	k.t.Helper()
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: k.programs.RouterIngress, Attach: ebpf.AttachTCXIngress})
	k.must(err)
	k.t.Cleanup(func() { l.Close() })
}

func partial(f family, frame []byte, mss int) kerneltest.Vnet {
	p, _ := packet.Parse(frame)
	h := kerneltest.Vnet{Flags: kerneltest.VnetNeedsCsum, CsumStart: uint16(p.L4), CsumOffset: 16}
	if mss > 0 {
		h.GSOSize, h.HdrLen, h.GSOType = uint16(mss), uint16(p.Data), kerneltest.VnetTCPv6
		if f.client.Addr().Is4() {
			h.GSOType = kerneltest.VnetTCPv4
		}
	}
	return h
}

// Packets with CHECKSUM_PARTIAL and GSO packets of up to 64 KiB leave as the model translates them, and keep these properties.
func TestOffloadedPacketsAreTranslated(t *testing.T) {
	r := kerneltest.Rand(t)
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		w := k.wires()
		client, server := f.legs()
		s := spliceOf(client, server)
		s.ClientRequests, s.ToServer.Ifindex, s.ToClient.Ifindex = 2, uint32(w.Out.Ifindex), uint32(w.Out.Ifindex)
		k.must(k.SetPaths(s.Surrogate, []int{w.In.Ifindex}))
		k.put(0, s)
		model := splice.New(client, server)
		for _, options := range []packet.Options{
			nil,
			packet.Options{}.AppendNOP(2).AppendTimestamps(1, 2),
			packet.Options{}.AppendNOP(2).AppendTimestamps(1, 2).AppendNOP(2).AppendSACK(packet.SACKBlock{Left: 5, Right: 9}),
		} {
			for _, size := range []int{0, 1, 1399, 1400, 20001, 65000} {
				for _, toServer := range []bool{true, false} {
					direction, spec := model.ToClient, f.fromSurrogate("")
					if toServer {
						direction, spec = model.ToServer, f.fromClient("")
					}
					spec.Payload, spec.Options, spec.Checksum = randomBytes(r, size), options, packet.SumPartial
					if r.IntN(2) == 0 {
						spec.Flags, spec.Urgent = spec.Flags|packet.URG, 7
					}
					mss := 0
					if size > 1400 {
						mss = 1400 - len(options)
					}
					frame := packet.Build(spec)
					w.Send(partial(f, frame, mss), frame)
					h, got := w.Receive()
					want := bytes.Clone(frame)
					if reason := direction.TranslatePartial(want); reason != splice.Translated {
						t.Fatal(reason)
					}
					if h.Flags&kerneltest.VnetNeedsCsum == 0 || int(h.GSOSize) != mss {
						t.Fatalf("%d bytes: left with %+v", size, h)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("%d bytes:\ngot  % x\nwant % x", size, got[:min(len(got), 100)], want[:min(len(want), 100)])
					}
				}
			}
		}
	})
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// A GSO response is tracked like any other, though only its head is parsed.
func TestFramingOfOffloadedPackets(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for _, tc := range []struct {
			name, response string
			want           framing
		}{
			{"length", ok + "Content-Length: 60000\r\n\r\n" + strings.Repeat("x", 60000), quiet},
			{"chunked", chunkedHead + strings.Repeat("2000\r\n"+strings.Repeat("x", 0x2000)+"\r\n", 7) + "0\r\n\r\n", quiet},
			{"more chunks than are followed", chunkedHead + strings.Repeat("1\r\nx\r\n", 10000) + "0\r\n\r\n", opaque},
		} {
			t.Run(tc.name, func(t *testing.T) {
				k := newRig(t)
				w := k.wires()
				client, server := f.legs()
				s := spliceOf(client, server)
				s.ToServer.Ifindex, s.ToClient.Ifindex = uint32(w.In.Ifindex), uint32(w.Out.Ifindex)
				s.Request, s.Response = uint8(routerFramingFRAMING_DONE), uint8(routerFramingFRAMING_HEAD)
				k.put(0, s)
				spec := f.fromSurrogate(tc.response)
				spec.Checksum = packet.SumPartial
				frame := packet.Build(spec)
				w.Send(partial(f, frame, 1400), frame)
				w.Receive()
				got := k.splice(0)
				if at := (framing{routerFraming(got.Request), routerFraming(got.Response)}); at != tc.want {
					t.Errorf("got %v, want %v", at, tc.want)
				}
				if got.RcvNxt != uint32(surrogateNext)+uint32(len(tc.response)) {
					t.Errorf("rcv_nxt: %d", got.RcvNxt)
				}
			})
		}
	})
}

// Our replies to packets with CHECKSUM_PARTIAL have valid checksums, or ones that the device completes.
func TestAnswersToOffloadedPackets(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		w := k.wires()
		w.Out = w.In // replies go back
		k.vip(f)
		for _, c := range []struct {
			name    string
			spec    packet.Spec
			verdict routerVerdict
			mss     int
		}{
			{"SYN", newClient(k, f, fullOptions).syn(), routerVerdictSYN_ANSWERED, 0},
			{"SYN without timestamps", newClient(k, f, bareOptions).syn(), routerVerdictSYN_ANSWERED, 0},
			{"ACK of nothing", f.nth(1).fromClient(""), routerVerdictRESET_SENT, 0},
			{"data of nothing", f.nth(1).fromClient(strings.Repeat("x", 30000)), routerVerdictRESET_SENT, 1400},
		} {
			c.spec.Checksum = packet.SumPartial
			frame := packet.Build(c.spec)
			before := k.counts()
			w.Send(partial(f, frame, c.mss), frame)
			h, got := w.Receive()
			if n := k.counts()[c.verdict] - before[c.verdict]; n != 1 {
				t.Errorf("%s: verdict %v counted %d times", c.name, Verdict(c.verdict), n)
			}
			if h.GSOSize != 0 {
				t.Errorf("%s: answer left with %+v", c.name, h)
			}
			if h.Flags&kerneltest.VnetNeedsCsum != 0 {
				packettest.Check(t, got, packettest.PartialChecksum())
				if p, _ := packet.Parse(got); int(h.CsumStart) != p.L4 || h.CsumOffset != 16 {
					t.Errorf("%s: answer left with %+v", c.name, h)
				}
				continue
			}
			packettest.Check(t, got, packettest.Checksums())
		}
	})
}

// Other packets reach the next programs, as do the packets of sockets.
func TestProgramsBehind(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		w := k.wires()
		etherType := int32(unix.ETH_P_IPV6)
		if f.client.Addr().Is4() {
			etherType = unix.ETH_P_IP
		}
		seen := kerneltest.CountBehind(t, w.In.Ifindex, ebpf.AttachTCXIngress, etherType)
		other := newClient(k, f, f.usual()).syn()
		other.Dst = f.surrogate
		const n = 40
		for range n {
			w.Send(kerneltest.Vnet{}, packet.Build(other))
		}
		if got := seen(); got != n {
			t.Errorf("a program behind ours saw %d packets of %d", got, n)
		}
		dropped := newClient(k, f, f.usual()).syn()
		dropped.Checksum = packet.SumWrong
		w.Send(kerneltest.Vnet{}, packet.Build(dropped))
		if got := seen(); got != n {
			t.Errorf("it saw a packet that was dropped")
		}
	})
}
