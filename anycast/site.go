package anycast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"baton/anycast/check"
	"baton/anycast/config"
	"baton/anycast/exchange"
	"baton/anycast/level"
	"baton/anycast/speaker"
	"baton/api"
)

// tick is how often a site runs without an event.
const tick = time.Second

// site announces the service.
type site struct {
	log      *slog.Logger
	identity *exchange.Identity
	began    time.Time        // on the monotonic clock
	speaker  *speaker.Speaker // nil: no BGP
	wake     chan struct{}    // capacity 1: something has changed

	mu          sync.Mutex
	name        string
	cfg         *config.Site
	checker     *check.Checker
	others      *others
	addresses   *addresses // nil: none of its own
	machine     *level.Machine
	decision    level.Decision
	since       time.Time // of the level
	changes     uint64
	fault       string // why the routers could not be updated
	instruction api.AnycastInstruction
	proposal    proposal
	leaving     bool // the process ends
}

// proposal is the planner's last one.
type proposal struct {
	level int
	at    time.Time // zero: never
}

func newSite(cfg *config.Config, identity *exchange.Identity, log *slog.Logger) (_ *site, err error) {
	s := &site{
		log: log, identity: identity, began: time.Now(), wake: make(chan struct{}, 1), name: cfg.Name, cfg: cfg.Site,
		machine: level.New(cfg.Site.Control), since: time.Now(),
	}
	s.decision = level.Decision{Level: cfg.Site.Control.Withdrawn(), Reason: "it has just begun"}
	s.remember()
	if s.addresses, err = addAddresses(cfg.Site.Addresses); err != nil {
		return nil, fmt.Errorf("%s: site.addresses: %w", cfg.File, err)
	}
	if cfg.Site.BGP.AS != 0 {
		if s.speaker, err = speaker.New(cfg.Site.BGP, cfg.Site.Prefixes, log); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: site.bgp: %w", cfg.File, err), s.addresses.close())
		}
	}
	s.look(cfg.Site)
	return s, nil
}

// look starts the checks, the measurements and the polling of the other sites.
func (s *site) look(cfg *config.Site) {
	s.checker = check.New(check.Options{Checks: cfg.Checks, Measures: cfg.Loads, Stale: cfg.Stale, Changed: s.stir})
	s.others = watchOthers(cfg, s.identity, s.stir)
}

// stir wakes the site.
func (s *site) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run follows health, load, instructions and proposals until ctx is done, then leaves.
func (s *site) run(ctx context.Context) error {
	beat := time.NewTicker(tick)
	defer beat.Stop()
	for {
		s.step(time.Now())
		select {
		case <-ctx.Done():
			return errors.Join(s.leave(), s.close())
		case <-beat.C:
		case <-s.wake:
		}
	}
}

// step runs the machine and advertises its decision.
func (s *site) step(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving { // leave controls the announcement now
		return
	}
	if err := s.addresses.renew(now); err != nil {
		s.log.Error("cannot renew the service's addresses", "err", err)
	}
	before := s.decision
	s.decision = s.machine.Step(now.Sub(s.began), s.input(now))
	s.advertise(now, before)
}

// advertise logs a decision and announces its level to the routers. s.mu is held.
func (s *site) advertise(now time.Time, before level.Decision) {
	d, ladder := s.decision, s.cfg.Control.Ladder
	if d.Changed {
		s.since = now
		s.changes++
		s.log.Info("level", "from", ladder[min(before.Level, len(ladder)-1)].Name, "to", ladder[d.Level].Name, "because", d.Reason,
			"penalty", int(d.Penalty))
		defer s.save(now)
	} else if d.Held != "" && d.Held != before.Held {
		s.log.Info("level is held", "level", ladder[d.Level].Name, "wanted", ladder[d.Want].Name, "by", d.Held,
			"for", (d.Until - now.Sub(s.began)).Round(time.Second))
	}
	fault := ""
	if err := s.announce(ladder[d.Level].Announcement); err != nil {
		fault = err.Error()
	}
	if fault != s.fault && fault != "" {
		s.log.Error("routers not updated", "err", fault)
	}
	s.fault = fault
}

// input collects the input of the machine. s.mu is held.
func (s *site) input(now time.Time) level.Input {
	health := s.checker.Health()
	load, _ := s.checker.Load(now)
	in := level.Input{
		Health: health.Health, Cause: health.Cause, Load: load, Instruction: level.NoInstruction, DrainFor: s.cfg.Drain, Force: s.instruction.Force,
		Planned: s.cfg.Planner != "", Proposal: level.NoProposal,
	}
	switch s.instruction.Kind {
	case instructionDrain:
		in.Instruction = level.Drain
	case instructionMaintenance:
		in.Instruction = level.Maintenance
	case instructionLevel:
		if i := s.cfg.Control.Find(s.instruction.Level); i >= 0 { // a reload may have removed it
			in.Instruction, in.Pin = level.Pin, i
		}
	}
	if s.fresh(now) {
		in.Proposal = s.proposal.level
	}
	in.Others, in.Alive, in.Headroom = s.others.state(now)
	return in
}

// fresh reports whether the planner's proposal is still valid. s.mu is held.
func (s *site) fresh(now time.Time) bool {
	return !s.proposal.at.IsZero() && now.Sub(s.proposal.at) < s.cfg.Stale
}

// leave drains for site.stop and withdraws; if the service dies meanwhile, it withdraws at once. Reports say from now on that the site is
// stopping.
func (s *site) leave() error {
	s.mu.Lock()
	cfg, now := s.cfg, s.decision.Level
	s.leaving = true
	s.mu.Unlock()
	if cfg.Stop > 0 && now < cfg.Control.Drain() {
		s.log.Info("stopping: draining", "for", cfg.Stop)
		if err := s.announce(cfg.Control.Ladder[cfg.Control.Drain()].Announcement); err != nil {
			s.log.Error("routers not updated", "err", err)
		}
		s.linger(time.Now().Add(cfg.Stop))
	}
	s.log.Info("stopping: withdrawing")
	return s.announce(level.Announcement{Withdrawn: true})
}

// linger waits until a deadline, or until the service is dead, and renews the service's addresses meanwhile.
func (s *site) linger(until time.Time) {
	beat := time.NewTicker(tick)
	defer beat.Stop()
	for {
		now := time.Now()
		s.mu.Lock()
		dead := s.checker.Health().Health == level.Down
		if err := s.addresses.renew(now); err != nil {
			s.log.Error("cannot renew the service's addresses", "err", err)
		}
		s.mu.Unlock()
		if left := until.Sub(now); dead || left <= 0 {
			return
		} else if left < tick {
			beat.Reset(left)
		}
		select {
		case <-beat.C:
		case <-s.wake:
		}
	}
}

func (s *site) announce(a level.Announcement) error {
	if s.speaker == nil {
		return nil
	}
	return s.speaker.Announce(a)
}

// sessions are those with routers.
func (s *site) sessions() []speaker.Session {
	if s.speaker == nil {
		return nil
	}
	return s.speaker.Sessions()
}

// close releases everything that newSite has acquired.
func (s *site) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checker.Close()
	s.others.close()
	s.save(time.Now())
	err := s.addresses.close()
	if s.speaker != nil {
		err = errors.Join(s.speaker.Close(), err)
	}
	return err
}
