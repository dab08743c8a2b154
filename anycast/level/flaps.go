package level

import (
	"math"
	"time"
)

// The penalties of route flap damping (RFC 2439, section 4.4.3), with the routers' default values.
const (
	WithdrawPenalty  = 1000
	AttributePenalty = 500
)

// Flaps limit how often a site changes its announcement. Routers with route flap damping (RFC 2439) suppress a route for a long time once
// its penalty exceeds a threshold; the budget stays below it.
type Flaps struct {
	Suppress float64       // no router damps, no limit
	HalfLife time.Duration // half-life of a penalty
	// Share is the part of Suppress that voluntary changes may use. The rest is reserved for a death, which cannot wait.
	Share float64
}

// budget estimates the penalty that routers have counted for the site.
type budget struct {
	Flaps
	penalty float64
	at      time.Duration
}

func (b *budget) now(at time.Duration) float64 {
	if b.penalty == 0 || at <= b.at {
		return b.penalty
	}
	return b.penalty * math.Exp2(-float64(at-b.at)/float64(b.HalfLife))
}

func (b *budget) spend(at time.Duration, cost float64) {
	if b.Suppress == 0 {
		return
	}
	b.penalty, b.at = b.now(at)+cost, max(at, b.at)
}

// until returns when the penalty will have decayed to a limit.
func (b *budget) until(at time.Duration, bound float64) time.Duration {
	p := b.now(at)
	if b.Suppress == 0 || p <= bound {
		return at
	}
	wait := math.Log2(p/bound) * float64(b.HalfLife)
	if bound <= 0 || wait > float64(math.MaxInt64/2) {
		return math.MaxInt64
	}
	return at + time.Duration(math.Ceil(wait))
}
