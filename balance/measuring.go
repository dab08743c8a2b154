package balance

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"baton/balance/config"
	"baton/balance/measure"
	"baton/balance/policy"
	"baton/balance/tables"
	"baton/balance/weigh"
	kernel "baton/datapath/forwarder"
)

// countEvery is how often the links' counters are read.
const countEvery = 200 * time.Millisecond

// measuring is the loop's measurements.
type measuring struct {
	measure *measure.Measure
	reader  *measure.Reader
	weigher weigh.Weigher
	meters  *policy.Meters // nil: no link has a cap
	figures []measure.Figures
	seats   []kernel.BindingPort // by place; only with Baton's data plane
	carried []measure.Counters   // by place
}

// openMeasuring starts measuring.
func (b *Balance) openMeasuring() (err error) {
	b.measuring.weigher.Config = b.state.cfg.Weights
	var bindings measure.Bindings
	if b.state.cfg.Datapath == config.Baton {
		bindings = func(visit func(uint8, netip.AddrPort, netip.AddrPort, uint32) bool) error {
			return b.bindings(func(p kernel.Binding) bool { return visit(p.Protocol, p.Internal, p.Remote, p.Port) })
		}
	}
	b.measuring.reader, err = measure.NewReader(b.own(), bindings)
	return err
}

// bindings visits the switch's bindings. A switch that has just started has none.
func (b *Balance) bindings(visit func(kernel.Binding) bool) error {
	err := kernel.ReadBindings(b.o.Pins(b.state.cfg.Name), visit)
	if errors.Is(err, kernel.ErrNoBindings) {
		return nil
	}
	return err
}

// metered starts counting bytes if a link has a cap.
func (b *Balance) metered() error {
	cfg := b.state.cfg
	if b.measuring.meters != nil || !slices.ContainsFunc(cfg.Links, func(l config.Link) bool { return l.Cap != nil }) {
		return nil
	}
	if err := os.MkdirAll(cfg.State, 0o700); err != nil {
		return fmt.Errorf("%s: state: %w", cfg.File, err)
	}
	meters, err := policy.OpenMeters(filepath.Join(cfg.State, "caps.json"))
	if err != nil {
		b.log.Warn("caps", "err", err)
	}
	b.measuring.meters = meters
	return nil
}

// grow adds places for links that a reload has added.
func (m *measuring) grow(places int) {
	if have := len(m.seats); m.measure == nil || have < places {
		next := measure.New(places)
		for i := range have {
			next.Take(i, m.measure, i)
		}
		m.measure = next
		m.seats = append(m.seats, make([]kernel.BindingPort, places-have)...)
		m.carried = append(m.carried, make([]measure.Counters, places-have)...)
		m.figures = next.Figures()
	}
}

// forget drops the measurements of a link that leads elsewhere now.
func (m *measuring) forget(place int) {
	if m.measure != nil && place < len(m.seats) {
		m.measure.Forget(place)
	}
}

// count reads the links' counters and computes their weights.
func (b *Balance) count() {
	m, now := &b.measuring, monotonic()
	m.grow(len(b.state.places))
	b.report("cannot measure the links", b.sample(now))
	m.figures = m.measure.Figures()
	b.noteHeard()
	list := make([]weigh.Link, len(b.state.places))
	for i := range list {
		list[i] = weigh.Link{Fixed: b.state.places[i].cfg.Weight, Figures: m.figures[i]}
	}
	weights, _ := m.weigher.Weigh(now, list)
	for i := range b.state.places {
		b.state.places[i].weight = weights[i]
	}
}

// noteHeard publishes when data last arrived over each link, for the prober.
func (b *Balance) noteHeard() {
	heard := make(map[string]time.Time)
	for i := range b.state.places {
		if at := b.measuring.figures[i].Heard; at > 0 && !b.state.places[i].gone {
			heard[b.state.places[i].cfg.Name] = time.Now().Add(at - monotonic())
		}
	}
	b.mu.Lock()
	b.heard = heard
	b.mu.Unlock()
}

// heardOf returns when a server last answered over a link; zero: never, or Open vSwitch, which does not know which link a connection uses.
func (b *Balance) heardOf(link string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard[link]
}

// monotonic reads CLOCK_MONOTONIC.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return time.Duration(t.Nano())
}

func (b *Balance) sample(now time.Duration) error {
	m := &b.measuring
	s := measure.Sample{At: now}
	var errs []error
	if b.state.cfg.Datapath == config.Baton {
		errs = append(errs, b.readSeats())
	}
	for i := range b.state.places {
		p, c := &b.state.places[i], &m.carried[i]
		if index := p.now.Index; index != 0 {
			counters, err := measure.ReadCounters(index)
			if err == nil {
				*c = counters
			}
			errs = append(errs, err)
		}
		c.SYNs, c.SYNRepeats, c.RTT = m.seats[i].SYNs, m.seats[i].SYNRepeats, m.seats[i].RTT
		s.Links = append(s.Links, *c)
		if p.usage = (policy.Usage{}); m.meters != nil && p.cfg.Cap != nil && !p.gone {
			p.usage = m.meters.Count(time.Now(), p.cfg, c.Sent+c.Received)
		}
	}
	if m.meters != nil {
		errs = append(errs, m.meters.Save(time.Now(), false))
	}
	var err error
	s.Flows, s.Listed, err = m.reader.Flows(now)
	m.measure.Add(s)
	return errors.Join(append(errs, err)...)
}

// closeMeasuring saves what counts against caps.
func (b *Balance) closeMeasuring() error {
	var errs []error
	if b.measuring.reader != nil {
		errs = append(errs, b.measuring.reader.Close())
	}
	if b.measuring.meters != nil {
		errs = append(errs, b.measuring.meters.Save(time.Now(), true))
	}
	return errors.Join(errs...)
}

// readSeats reads the switch's counters of each link.
func (b *Balance) readSeats() error {
	list, err := kernel.ReadBindingPorts(b.o.Pins(b.state.cfg.Name))
	if err != nil && !errors.Is(err, kernel.ErrNoBindings) {
		return err
	}
	for _, p := range list {
		if i := int(p.Port) - tables.FirstLink; i >= 0 && i < len(b.measuring.seats) {
			b.measuring.seats[i] = p
		}
	}
	return nil
}
