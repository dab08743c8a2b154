package level

import (
	"math"
	"time"
)

// What route flap damping counts (RFC 2439, section 4.4.3; the numbers are those that routers have as defaults).
const (
	WithdrawPenalty  = 1000
	AttributePenalty = 500
)

// Flaps bound how often a site changes what it announces. Routers that damp routes (RFC 2439) suppress one whose penalty is above a
// threshold, for long; the budget keeps below it whatever happens.
type Flaps struct {
	Suppress float64       // the routers' threshold; 0: nobody damps, and nothing is bounded
	HalfLife time.Duration // in which a penalty halves
	// Share of Suppress that changes of one's own choice may use. What is left is for a death, which cannot wait.
	Share float64
}

// budget is the penalty that routers have for the site, as far as the site knows.
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

// until is when the penalty will have fallen to a bound.
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
