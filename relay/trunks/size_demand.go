package trunks

import (
	"sort"
	"time"
)

// takes is a ring of the last times at which a trunk was taken.
type takes struct {
	at   []time.Duration
	next int // next index
	n    int // entries
}

func (t *takes) add(now time.Duration) {
	t.at[t.next] = now
	t.next = (t.next + 1) % len(t.at)
	t.n = min(t.n+1, len(t.at))
}

// since counts the entries after a time, up to the ring's size.
func (t *takes) since(after time.Duration) int {
	oldest := t.next - t.n + len(t.at)
	return t.n - sort.Search(t.n, func(i int) bool { return t.at[(oldest+i)%len(t.at)] > after })
}

// peak is the maximum of the current peakLife, and of the previous one.
type peak struct {
	now, before int
	began       time.Duration // start of the current one
}

func (p *peak) rotate(now time.Duration) {
	switch passed := now - p.began; {
	case passed >= 2*peakLife:
		p.now, p.before, p.began = 0, 0, now
	case passed >= peakLife:
		p.now, p.before, p.began = 0, p.now, now
	}
}

func (p *peak) add(now time.Duration, n int) {
	p.rotate(now)
	p.now = max(p.now, n)
}

func (p *peak) most(now time.Duration) int {
	p.rotate(now)
	return max(p.now, p.before)
}
