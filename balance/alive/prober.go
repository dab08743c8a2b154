package alive

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"baton/balance/config"
	"baton/balance/links"
)

// The timeout for a server's answer is the probe interval, within these bounds.
const (
	leastWait = time.Second
	mostWait  = 10 * time.Second
)

// Options of New. Heard may be nil.
type Options struct {
	// Ask probes a link's gateway; the result is to be passed to Answered.
	Ask func(link string)
	// Heard returns when the host's traffic last got a reply over a link; zero: never.
	Heard func(link string) time.Time
	// Report is called from one goroutine with the verdicts on all links, in the order of Update, whenever one changes. It must not call
	// Close.
	Report func([]Verdict)
	Log    *slog.Logger
}

// Prober probes links.
type Prober struct {
	o      Options
	wake   chan struct{} // capacity 1: something has changed
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	probed   []*probed // in the order of Update
	reported []Verdict
}

// probed is a link with its state. Prober.mu guards it.
type probed struct {
	link    links.Link
	probe   config.Probe
	machine *Machine
	round   int // identifies answers to earlier probes
}

// New probes the links of Update until ctx ends. The caller owes Close.
func New(ctx context.Context, o Options) *Prober {
	p := &Prober{o: o, wake: make(chan struct{}, 1)}
	ctx, p.cancel = context.WithCancel(ctx)
	p.ended.Go(func() { p.run(ctx) })
	return p
}

// Close stops probing.
func (p *Prober) Close() {
	p.cancel()
	p.ended.Wait()
}

// Update sets the links. After a change of the configuration they may still be those of the previous one.
func (p *Prober) Update(c *config.Config, list []links.Link) {
	now := time.Now()
	p.mu.Lock()
	next := make([]*probed, len(list))
	for i, l := range list {
		probe := probeOf(c, l.Interface)
		rules := Rules{Off: probe.Off, URL: probe.URL != "", Every: probe.Every, Dead: probe.Dead}
		j := slices.IndexFunc(p.probed, func(o *probed) bool { return o.link.Interface == l.Interface })
		if j < 0 {
			next[i] = &probed{link: l, probe: probe, machine: NewMachine(rules, now)}
			continue
		}
		next[i] = p.probed[j]
		next[i].update(l, probe, rules, now)
	}
	p.probed = next
	p.mu.Unlock()
	p.rouse()
}

func probeOf(c *config.Config, device string) config.Probe {
	for _, l := range c.Links {
		if l.Interface == device && l.Probe != nil {
			return *l.Probe
		}
	}
	return c.Probe
}

func (q *probed) update(l links.Link, probe config.Probe, rules Rules, now time.Time) {
	another := q.probe.URL != probe.URL
	q.machine.Change(rules, now)
	if another || !same(q.link, l) {
		q.machine.Restart(now)
		q.round++
	}
	q.link, q.probe = l, probe
}

// same reports whether a link leads to the same network: a gateway's MAC may change within it.
func same(a, b links.Link) bool {
	return a.Index == b.Index && a.Usable() == b.Usable() && a.V4.Address == b.V4.Address && a.V4.Gateway == b.V4.Gateway &&
		a.V6.Address == b.V6.Address && a.V6.Gateway == b.V6.Gateway
}

// Answered records a gateway's answer.
func (p *Prober) Answered(link string, answers bool) {
	if !answers {
		return // the timeout decides
	}
	p.mu.Lock()
	for _, q := range p.probed {
		if q.link.Name == link && q.probe.URL == "" && !q.probe.Off {
			q.machine.Answered(time.Now())
		}
	}
	p.mu.Unlock()
	p.rouse()
}

func (p *Prober) verdicts() []Verdict {
	out := make([]Verdict, len(p.probed))
	for i, q := range p.probed {
		out[i] = q.machine.Verdict()
	}
	return out
}

func (p *Prober) rouse() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Prober) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
		timer.Reset(p.step(ctx))
	}
}

// step sends due probes, reports changes, and returns how long nothing is due.
func (p *Prober) step(ctx context.Context) time.Duration {
	now := time.Now()
	pause := time.Hour
	var gateways []string
	p.mu.Lock()
	for _, q := range p.probed {
		if !q.link.Usable() {
			continue // its state is known without a probe
		}
		if p.o.Heard != nil {
			q.machine.Heard(p.o.Heard(q.link.Name), now)
		}
		if q.machine.Tick(now) {
			q.machine.Asked(now)
			if q.probe.URL == "" {
				gateways = append(gateways, q.link.Name)
			} else {
				p.ended.Go(func() { p.askServer(ctx, q, q.link, q.probe, q.round) })
			}
		}
		pause = min(pause, max(q.machine.Next(now).Sub(now), time.Millisecond))
	}
	verdicts := p.verdicts()
	report := !slices.Equal(verdicts, p.reported)
	p.reported = verdicts
	p.mu.Unlock()
	if report {
		p.o.Report(slices.Clone(verdicts))
	}
	for _, link := range gateways {
		p.o.Ask(link)
	}
	return pause
}

func (p *Prober) askServer(ctx context.Context, q *probed, l links.Link, probe config.Probe, round int) {
	ctx, cancel := context.WithTimeout(ctx, min(max(probe.Every, leastWait), mostWait))
	defer cancel()
	a := askServer(ctx, l, probe.URL)
	now := time.Now()
	p.mu.Lock()
	if q.round == round {
		switch {
		case a.alive:
			q.machine.Answered(now)
		case a.portal != "":
			q.machine.Captured(now, a.portal)
		default:
			q.machine.Unanswered()
		}
	}
	p.mu.Unlock()
	if a.err != nil && ctx.Err() != context.Canceled {
		p.o.Log.Debug("a probe was not answered", "link", l.Name, "error", a.err)
	}
	p.rouse()
}
