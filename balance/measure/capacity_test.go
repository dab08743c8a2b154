package measure

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const mbit = 1e6

func near(t *testing.T, when string, got Capacity, want float64) {
	t.Helper()
	if !got.Known() || math.Abs(got.Rate-want) > want/10 {
		t.Errorf("%s: %.3g Mbit/s (a bound: %v), the link has %.3g", when, got.Rate/mbit, got.Bound, want/mbit)
	}
}

// TestCapacity: the estimate is within a tenth of the link's rate, whatever the rate, if some connections use what there is.
func TestCapacity(t *testing.T) {
	for _, rate := range []float64{0.2, 1, 10, 20, 100, 1000} {
		for _, flows := range []int{1, 2, 5, 20} {
			t.Run(fmt.Sprint(rate, " Mbit/s ", flows), func(t *testing.T) {
				n := newSimulation(rate*mbit, 100*ms)
				for range flows {
					n.connect(30*ms, 0)
				}
				n.run(15 * time.Second)
				near(t, "after 15 s", n.down(), rate*mbit)
				for range 10 {
					n.run(5 * time.Second)
					near(t, "later", n.down(), rate*mbit)
				}
			})
		}
	}
}

// TestUpload: the other direction is measured as well, and neither is taken for the other.
func TestUpload(t *testing.T) {
	n := newSimulation(8*mbit, 100*ms)
	n.upload = true
	n.connect(30*ms, 0)
	n.run(20 * time.Second)
	f := n.measure.Figures()[0]
	near(t, "upload", f.Up, 8*mbit)
	if f.Down.Known() {
		t.Errorf("what acknowledges is taken for a measure: %+v", f.Down)
	}
	if f.SentRate < 7*mbit || f.SentRate > 9*mbit || f.Loss <= 0 || f.Loss > 0.05 || f.MinRTT != 30*ms || f.RTT < f.MinRTT {
		t.Errorf("%+v", f)
	}
}

// TestShortFlows: connections that are over before they fill the link alone measure it if there are several at any time.
func TestShortFlows(t *testing.T) {
	n := newSimulation(20*mbit, 100*ms)
	n.finished = func(*connection) { n.connect(20*ms, 20e3+n.random.Float64()*180e3) }
	for range 8 {
		n.connect(20*ms, 100e3)
	}
	n.run(20 * time.Second)
	near(t, "8 at any time", n.down(), 20*mbit)
}

// TestShallow: a link whose queue is too short to be seen.
func TestShallow(t *testing.T) {
	n := newSimulation(50*mbit, 3*ms)
	for range 6 {
		n.connect(20*ms, 0)
	}
	n.run(20 * time.Second)
	near(t, "queue of 3 ms", n.down(), 50*mbit)
}

// TestNotLimited: what servers send slowly says that the link has as much at least, no more.
func TestNotLimited(t *testing.T) {
	n := newSimulation(100*mbit, 100*ms)
	for range 6 {
		n.connect(30*ms, 0).most = 3 * mbit
	}
	n.run(time.Minute)
	if c := n.down(); c.Known() || c.Rate < 17*mbit || c.Rate > 19*mbit {
		t.Errorf("%+v", c)
	}
}

// TestDrop: the estimate follows a link that becomes slower within seconds, and one that becomes faster as soon as that is used.
func TestDrop(t *testing.T) {
	for _, flows := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(flows), func(t *testing.T) {
			n := newSimulation(40*mbit, 200*ms)
			for range flows {
				n.connect(20*ms, 0)
			}
			n.run(20 * time.Second)
			near(t, "before", n.down(), 40*mbit)
			n.rate = 8 * mbit
			patience := 8 * time.Second
			if flows == 1 {
				patience = 16 * time.Second
			}
			n.run(patience)
			near(t, "after a drop", n.down(), 8*mbit)
			n.rate = 40 * mbit
			n.run(30 * time.Second)
			near(t, "after a rise", n.down(), 40*mbit)
		})
	}
}

// TestSlightDrop: a drop that is too small to distinguish from noise is followed within the window.
func TestSlightDrop(t *testing.T) {
	n := newSimulation(40*mbit, 200*ms)
	for range 4 {
		n.connect(20*ms, 0)
	}
	n.run(20 * time.Second)
	n.rate = 35 * mbit
	n.run(window + 10*time.Second)
	if c := n.down(); math.Abs(c.Rate-n.rate) > n.rate/20 {
		t.Errorf("%+v", c)
	}
}

// TestIdle: a link that is idle, or little used, stays as it was known, for an hour, too.
func TestIdle(t *testing.T) {
	tests := []struct {
		name string
		use  func(*network)
	}{
		{"nothing", func(*network) {}},
		{"a slow server", func(n *network) { n.connect(50*ms, 0).most = 2 * mbit }},
		{"a video in pieces", func(n *network) {
			c := n.connect(50*ms, 0)
			c.on, c.off = 300*ms, 3700*ms
		}},
		{"two videos, paced", func(n *network) {
			n.connect(50*ms, 0).most = 6 * mbit
			n.connect(20*ms, 0).most = 4 * mbit
		}},
		{"many talks", func(n *network) {
			for range 6 {
				n.connect(50*ms, 0).most = 0.05 * mbit
			}
		}},
		{"pages", func(n *network) {
			c := n.connect(50*ms, 0)
			c.on, c.off, c.most = 100*ms, 900*ms, 10*mbit
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newSimulation(40*mbit, 100*ms)
			for range 2 {
				n.connect(20*ms, 50e6)
			}
			n.run(30 * time.Second)
			near(t, "before", n.down(), 40*mbit)
			if len(n.flows) > 0 {
				t.Fatal("the first transfers are not over")
			}
			tt.use(n)
			for range 20 {
				n.run(time.Minute)
				near(t, "then", n.down(), 40*mbit)
			}
		})
	}
}

// TestRandom: many links and uses.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 60 {
		rate := mbit * math.Exp2(random.Float64()*10-1) // 0.5 to 512
		buffer := time.Duration(20+random.IntN(300)) * ms
		n := newSimulation(rate, buffer)
		n.random = random
		flows := 1 + random.IntN(12)
		for range flows {
			n.connect(time.Duration(5+random.IntN(100))*ms, 0)
		}
		n.run(30 * time.Second)
		if c := n.down(); c.Rate > 1.1*rate || c.Rate < 0.9*rate {
			t.Errorf("link %d of %.3g Mbit/s, queue %v, %d flows: %+v", i, rate/mbit, buffer, flows, c)
		}
	}
}
