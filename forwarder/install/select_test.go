package install

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"baton/forwarder/model"
	"baton/openflow"
	"baton/packet"
)

// nowhere is a port that is not there: buckets that only count.
const nowhere openflow.PortNo = 99

// spread has all packets go to a select group of buckets with those weights.
func (r *rig) spread(weights []uint16, bucket func(i int) openflow.Bucket) {
	r.t.Helper()
	g := &openflow.GroupMod{Command: openflow.GroupAdd, Kind: openflow.GroupTypeSelect, Group: 1}
	for i, weight := range weights {
		b := openflow.Bucket{WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: []openflow.Action{out(nowhere)}}
		if bucket != nil {
			b = bucket(i)
		}
		b.Weight = weight
		g.Buckets = append(g.Buckets, b)
	}
	if !r.do(g) {
		r.t.Fatalf("refused: %+v", g)
	}
	r.flow(0, 0, nil, apply(openflow.ActionGroup{Group: 1}))
}

// chosen sends a frame and returns the bucket that it was given to, -1 if to none.
func (r *rig) chosen(b []byte) int {
	r.t.Helper()
	_, before := r.installed.Group(1)
	r.send(1, b)
	for range 1 << 20 { // the packet has passed when the write returns, unless the machine is busy
		_, after := r.installed.Group(1)
		for i := range after {
			if after[i].Packets != before[i].Packets {
				return i
			}
		}
	}
	return -1
}

// flows are kinds of packets by what tells them apart.
var flows = map[string]func(w *world) []byte{
	"addresses of Ethernet": func(w *world) []byte {
		b := make([]byte, 60)
		binary.BigEndian.PutUint64(b, w.Uint64())
		binary.BigEndian.PutUint32(b[8:], w.Uint32())
		b[0] &^= 1
		b[6] &^= 1
		b[12], b[13] = 0x88, 0xb5
		return b
	},
	"addresses in ARP": func(w *world) []byte {
		b := append(make([]byte, 12), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
		b = append(b, make([]byte, 20)...)
		binary.BigEndian.PutUint32(b[28:], w.Uint32())
		binary.BigEndian.PutUint32(b[38:], w.Uint32())
		return append(b, make([]byte, 18)...)
	},
	"ports": func(w *world) []byte { return udp(uint16(w.Uint32()), 53) },
}

// udp is a packet of a flow that is told apart by its ports.
func udp(src, dst uint16) []byte {
	b := slices.Concat([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, []byte{0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2})
	binary.BigEndian.PutUint16(b[24:], packet.Checksum(b[14:34], 0))
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	return append(b, make([]byte, 22)...)
}

// TestSelectSharesByWeight: of many flows each bucket gets its share, as near as chance allows.
func TestSelectSharesByWeight(t *testing.T) {
	o := small
	o.Buckets, o.Slots = 512, 1<<16
	r := newRig(t, o)
	w := &world{Rand: newRand(t)}
	for name, frame := range flows {
		for _, weights := range [][]uint16{{1, 1}, {1, 2}, {1, 10}, slices.Repeat([]uint16{1}, 100)} {
			t.Run(fmt.Sprintf("%s, %d buckets, %d:%d", name, len(weights), weights[0], weights[1]), func(t *testing.T) {
				r.t = t
				r.spread(weights, nil)
				n := times(5000)
				for range n {
					r.send(1, frame(w))
				}
				total := 0
				for _, weight := range weights {
					total += int(weight)
				}
				_, each := r.installed.Group(1)
				for i, c := range each {
					share := float64(weights[i]) / float64(total)
					// five standard deviations, and what rounding to slots makes of a share
					chance := 5*math.Sqrt(float64(n)*share*(1-share)) + 0.02*share*float64(n)
					if off := math.Abs(float64(c.Packets) - share*float64(n)); off > chance {
						t.Errorf("bucket %d got %d packets of %d, want %.0f to %.0f more or less", i, c.Packets, n, share*float64(n), chance)
					}
				}
				r.deleteAll()
			})
		}
	}
}

// TestSelectKeepsFlowsTogether: what may differ between packets of one flow does not send them elsewhere.
func TestSelectKeepsFlowsTogether(t *testing.T) {
	r := newRig(t, small)
	w := &world{Rand: newRand(t)}
	r.spread(slices.Repeat([]uint16{1}, 16), nil)
	edit := func(change func(b []byte, n int)) func(b []byte) [][]byte {
		return func(b []byte) [][]byte {
			var all [][]byte
			for n := range 8 {
				c := slices.Clone(b)
				change(c, n)
				all = append(all, c)
			}
			return all
		}
	}
	tests := []struct {
		name  string
		kind  kind
		rest  func(b []byte) [][]byte
		plain bool // IPv4 without options, IPv6 without headers
	}{
		{"marks of congestion", kindUDP4, edit(func(b []byte, n int) { b[15] = byte(n & 3) }), true},
		{"service classes", kindTCP4, edit(func(b []byte, n int) { b[15] = byte(n << 2) }), true},
		{"time to live", kindTCP4, edit(func(b []byte, n int) { b[22] = byte(n) }), true},
		{"flags of TCP", kindTCP4, edit(func(b []byte, n int) { b[47] = byte(1 << n) }), true},
		{"flow labels", kindTCP6, edit(func(b []byte, n int) { b[17] = byte(n) }), true},
		{"traffic classes", kindTCP6, edit(func(b []byte, n int) { b[15] = byte(n << 4) }), true},
		{"parts of a datagram", kindUDP4, edit(func(b []byte, n int) {
			binary.BigEndian.PutUint16(b[20:], uint16(0x2000+n))
			if n > 0 {
				copy(b[34:], []byte{byte(n), byte(n), byte(n), byte(n)})
			}
		}), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			for range 50 {
				b := w.plain(tt.kind)
				want := -1
				for _, c := range tt.rest(b) {
					got := r.chosen(c)
					if want < 0 {
						want = got
					}
					if got != want || got < 0 {
						t.Fatalf("bucket %d for\n%x, but %d for the first", got, c, want)
					}
				}
			}
		})
	}
	t.Run("parts of an IPv6 datagram", func(t *testing.T) {
		r.t = t
		for range 50 {
			src, dst := w.addr6(), w.addr6()
			var all [][]byte
			for n := range 4 {
				b := slices.Concat([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 5, 0, 24, 44, 64}, src, dst)
				// destination options in the first part, before UDP
				b = append(b, 60, 0, 0, byte(n*8)|1, 0, 0, 0, 9)
				if n == 0 {
					b = append(b, 17, 0, 1, 4, 0, 0, 0, 0)
				}
				for len(b) < 78+8 {
					b = append(b, byte(w.Uint32()))
				}
				all = append(all, b)
			}
			want := r.chosen(all[0])
			for n, b := range all[1:] {
				if got := r.chosen(b); got != want {
					t.Fatalf("part %d went to bucket %d, the first to %d", n+1, got, want)
				}
			}
		}
	})
}

// plain makes an IP packet without options, tags, parts or lies.
func (w *world) plain(k kind) []byte {
	for {
		w.tags = 0
		b := w.ethernet(k, 0)
		whole := k.v4() && b[14] == 0x45 && b[20]&0x3f == 0 && b[21] == 0 || k.v6() && b[20] == k.protocol()
		if whole && len(b) > 14+40+20 {
			return b
		}
	}
}

// TestSelectMovesOnlyTheDead: when a port that a bucket watches goes down, the flows of that bucket go to others, and no flow else.
func TestSelectMovesOnlyTheDead(t *testing.T) {
	r := newRig(t, small)
	r.spread([]uint16{1, 1, 2, 1}, func(i int) openflow.Bucket {
		return openflow.Bucket{
			WatchPort: openflow.PortNo(1 + i), WatchGroup: openflow.GroupAny, Actions: []openflow.Action{out(nowhere)},
		}
	})
	where := func() []int {
		var list []int
		for n := range uint16(400) {
			list = append(list, r.chosen(udp(n, 53)))
		}
		return list
	}
	before := where()
	r.setPort(model.Port{No: 3, There: true})
	during := where()
	r.setPort(model.Port{No: 3, There: true, Live: true})
	after := where()
	moved := make(map[int]int)
	for n := range before {
		if before[n] == 2 {
			moved[during[n]]++
		} else if during[n] != before[n] {
			t.Errorf("flow %d of bucket %d moved to %d, though 2 is the dead one", n, before[n], during[n])
		}
		if after[n] != before[n] {
			t.Errorf("flow %d is in bucket %d, and was in %d before the port went down", n, after[n], before[n])
		}
	}
	if moved[2] > 0 || moved[0] < 10 || moved[1] < 10 || moved[3] < 10 {
		t.Errorf("the flows of the dead bucket went to %v", moved)
	}
}
