package forwarder

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// chooser is what the kernel's choice is compared with: the pure form of bpf/forwarder/choose.h.
type chooser struct {
	method uint8
	total  int // of the weights when it was last chosen
	earned [rigLinks]int
	active [rigLinks]int
	peak   [rigLinks]int // us of a flow; 0: not known
}

// mostTime bounds what handshakes count, in us.
const mostTime = 1 << 22

// choose returns the link for a new flow, -1 for none.
func (c *chooser) choose(weights []int, live []bool) int {
	var among []int
	total, fastest := 0, mostTime
	for link, w := range weights {
		if w > 0 && live[link] {
			among = append(among, link)
			total += w
			if c.peak[link] > 0 {
				fastest = min(fastest, c.peak[link])
			}
		}
	}
	if len(among) == 0 {
		for link, w := range weights {
			if w == 0 && live[link] {
				c.active[link]++
				return link
			}
		}
		return -1
	}
	if c.total != 0 {
		for link := range c.earned {
			c.earned[link] = c.earned[link] * total / c.total
		}
	}
	c.total = total
	cost := func(link int) int {
		switch {
		case c.method == BindLeast, c.method == BindEven:
			return c.active[link] + 1
		case c.method != BindFastest:
			return 0
		case c.peak[link] == 0 && c.active[link] == 0:
			return 0
		case c.peak[link] == 0:
			return fastest * (c.active[link] + 1)
		}
		return c.peak[link] * (c.active[link] + 1)
	}
	least := among[0]
	for _, link := range among {
		if cost(link)*weights[least] < cost(least)*weights[link] {
			least = link
		}
	}
	best, sum := -1, 0
	idle := slices.ContainsFunc(among, func(link int) bool { return cost(link) == 1 })
	for _, link := range among {
		mine, others := cost(link)*weights[least], cost(least)*weights[link]
		if c.method != BindEven && mine != others {
			continue
		}
		passed := c.method == BindEven && (idle && cost(link) != 1 || !idle && mine > 2*others)
		c.earned[link] = max(min(c.earned[link], total), -total) + weights[link]
		sum += weights[link]
		if !passed && (best < 0 || c.earned[link] > c.earned[best]) {
			best = link
		}
	}
	c.earned[best] -= sum
	c.active[best]++
	return best
}

// TestBindIsTheModel: on any flows that begin and end in any order, with links and weights that change, the kernel chooses as the model.
func TestBindIsTheModel(t *testing.T) {
	for _, method := range []uint8{BindRoundRobin, BindLeast, BindFastest, BindEven} {
		t.Run(fmt.Sprint("method ", method), func(t *testing.T) {
			r, rnd := newBindRig(t, 4096), kerneltest.Rand(t)
			op := bindOp(bindHead, method, 0)
			c := &chooser{method: method}
			weights, live := []int{1, 2, 3}, []bool{true, true, true, true, true, true}
			r.group(bindHead, false, weights...)
			var open []testPacket
			went, ends := make(map[testPacket]int), make(map[testPacket]*closing)
			for n := range 3000 {
				switch k := rnd.IntN(100); {
				case k < 2:
					weights = weights[:0:0]
					for range 1 + rnd.IntN(rigLinks) {
						weights = append(weights, rnd.IntN(5))
					}
					r.group(bindHead, false, weights...)
				case k < 6:
					link := rnd.IntN(rigLinks)
					live[link] = !live[link]
					r.live(link, live[link])
				case k < 8 && method == BindFastest:
					setPeaks(r, c, rnd)
				case k < 50 && len(open) > 0:
					i := rnd.IntN(len(open))
					p := open[i]
					link := went[p]
					if link >= len(weights) || !live[link] {
						break
					}
					change, over := ends[p].segment(r, op, p, link, rnd)
					if c.active[link] += change; over {
						open = slices.Delete(open, i, i+1)
					}
				default:
					p := flowNumber(packet.ProtocolTCP, n, false)
					want := c.choose(weights, live)
					got, verdict := r.out(op, p)
					if got != want {
						t.Fatalf("flow %d: link %d (%s), want %d; weights %v, live %v, %+v", n, got, verdict, want, weights, live, c)
					}
					if got >= 0 {
						open = append(open, p)
						went[p], ends[p] = got, &closing{active: 1}
					}
				}
			}
			for link := range rigLinks {
				if got := r.port(link).Active; got != uint64(c.active[link]) {
					t.Errorf("link %d: %d flows are active, want %d", link, got, c.active[link])
				}
			}
		})
	}
}

// setPeaks has handshakes take other times.
func setPeaks(r *bindRig, c *chooser, rnd *rand.Rand) {
	var all forwarderBinder
	r.must(r.objects.Binders.Lookup(uint32(0), &all))
	for link := range rigLinks {
		us := rnd.IntN(4) * rnd.IntN(50_000)
		seat := &all.Seat[r.Ports[linkPlace+link].Seat]
		seat.Peak, c.peak[link] = 0, 0
		if us > 0 {
			seat.Peak, c.peak[link] = uint64(us)*1000, us+1
		}
	}
	r.must(r.objects.Binders.Put(uint32(0), &all))
}

// TestBindLeastShares: with n flows open each link has its share of them, also when flows have ended in any order.
func TestBindLeastShares(t *testing.T) {
	r, rnd := newBindRig(t, 4096), kerneltest.Rand(t)
	weights := []int{1, 2, 4}
	r.group(bindHead, false, weights...)
	op := bindOp(bindHead, BindLeast, 0)
	var open []testPacket
	went := make(map[testPacket]int)
	counts := make([]int, len(weights))
	for n := range 2000 {
		p := flowNumber(packet.ProtocolTCP, n, false)
		link, _ := r.out(op, p)
		// no other would have had fewer for its weight with this one
		for other, w := range weights {
			if (counts[other]+1)*weights[link] < (counts[link]+1)*w {
				t.Fatalf("flow %d went to link %d of %v", n, link, counts)
			}
		}
		open, went[p] = append(open, p), link
		counts[link]++
		for len(open) > 69 {
			i := rnd.IntN(len(open))
			p := open[i]
			open = slices.Delete(open, i, i+1)
			counts[went[p]]--
			p.flags = packet.FIN | packet.ACK
			r.out(op, p)
			p.flags = packet.SYN
			r.reply(went[p], p, packet.FIN|packet.ACK)
		}
	}
	for link := range weights {
		if got := int(r.port(link).Active); got != counts[link] {
			t.Errorf("link %d: %d are active, want %d", link, got, counts[link])
		}
	}
	// flows that only begin
	n := 5000
	for _, p := range open {
		p.flags = packet.RST
		r.out(op, p)
	}
	clear(counts)
	for range 70 {
		link, _ := r.out(op, flowNumber(packet.ProtocolTCP, n, false))
		counts[link]++
		n++
	}
	if !slices.Equal(counts, []int{10, 20, 40}) {
		t.Errorf("of 70 flows: %v", counts)
	}
}
