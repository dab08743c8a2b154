package anycast

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/anycast/exchange"
	"baton/api"
	"baton/document"
)

// The instructions of an operator.
const (
	instructionNone        = "none"
	instructionDrain       = "drain"
	instructionMaintenance = "maintenance"
	instructionLevel       = "level"
)

// instruct puts an operator's instruction in force.
func (s *site) instruct(o api.AnycastInstruction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return fmt.Errorf("%w: the site is stopping", api.ErrConflict)
	}
	switch o.Kind {
	case instructionNone, instructionDrain, instructionMaintenance:
		if o.Level != "" {
			return fmt.Errorf("%w: instruction %s takes no level", api.ErrInvalid, o.Kind)
		}
	case instructionLevel:
		if s.cfg.Control.Find(o.Level) < 0 {
			return fmt.Errorf("%w: level %q is not on this site's ladder (%s)", api.ErrInvalid, o.Level, document.Meant(o.Level, s.cfg.Control.Names()))
		}
	default:
		return fmt.Errorf("%w: %q is not an instruction: drain, maintenance, level or none", api.ErrInvalid, o.Kind)
	}
	withdraws := o.Kind == instructionMaintenance || o.Kind == instructionLevel && s.cfg.Control.Find(o.Level) == s.cfg.Control.Withdrawn()
	if any, alive, _ := s.others.state(time.Now()); withdraws && any && alive == 0 && !o.Force {
		return fmt.Errorf("%w: no other site is known to be up; --force withdraws this one nevertheless", api.ErrConflict)
	}
	o.Site, o.At = "", time.Now()
	if o.Kind == instructionNone {
		o = api.AnycastInstruction{}
	}
	s.instruction = o
	s.log.Info("instruction", "instruction", o.Kind, "level", o.Level, "force", o.Force)
	s.save(time.Now())
	s.stir()
	return nil
}

// handlers serves other sites and the planner.
func (s *site) handlers() exchange.Site {
	return exchange.Site{
		Planner: func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.cfg.Planner
		},
		Report:  s.report,
		Propose: s.propose,
		Instruct: func(i exchange.Instruction) error {
			return s.instruct(api.AnycastInstruction{Kind: i.Kind, Level: i.Level, Force: i.Force})
		},
	}
}

// propose stores the planner's proposal. A proposal is a level of the ladder, and never withdraws the site.
func (s *site) propose(p exchange.Proposal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Level < 0 || p.Level > s.cfg.Control.Drain() {
		return fmt.Errorf("level %d is out of range (from 0 to %d)", p.Level, s.cfg.Control.Drain())
	}
	if p.Level != s.proposal.level || s.proposal.at.IsZero() {
		s.log.Info("planner proposes a level", "level", s.cfg.Control.Ladder[p.Level].Name)
	}
	s.proposal = proposal{p.Level, time.Now()}
	s.stir()
	return nil
}

// report is how the site is.
func (s *site) report() exchange.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	c := &s.cfg.Control
	load, _ := s.checker.Load(now)
	r := exchange.Report{
		Site: s.name, Health: s.checker.Health().Health.String(), Level: s.decision.Level, Drain: c.Drain(),
		Name: c.Ladder[s.decision.Level].Name, Held: s.decision.Held, Load: load, Instruction: s.instruction.Kind,
	}
	for i := range c.Ladder {
		r.Levels = append(r.Levels, c.Ladder[i].Name)
		if c.Ladder[i].Enter > 0 {
			r.Steps = append(r.Steps, i)
		}
	}
	if s.leaving {
		r.Instruction = "stop"
		return r
	}
	if !c.Ladder[s.decision.Level].Announcement.Withdrawn {
		r.Announces = s.speaker == nil // in a map, forwarders lead here
		for _, session := range s.sessions() {
			r.Announces = r.Announces || session.Established()
		}
	}
	return r
}

// Instruct applies an operator's instruction to this site, or forwards it from a planner to another site.
func (a *Anycast) Instruct(ctx context.Context, o api.AnycastInstruction) (api.AnycastStatus, error) {
	var err error
	switch own := a.site != nil && (o.Site == "" || o.Site == a.current().Name); {
	case own:
		if err = a.site.instruct(o); err == nil {
			a.site.step(time.Now()) // so that the response shows it
		}
	case a.planning != nil && o.Site != "":
		err = a.planning.instruct(ctx, o)
	case a.planning != nil:
		err = fmt.Errorf("%w: name a site (one of %s)", api.ErrInvalid, strings.Join(a.planning.siteNames(), ", "))
	default:
		err = fmt.Errorf("site %q: %w: this process is site %s, and no planner", o.Site, api.ErrNotFound, a.current().Name)
	}
	if err != nil {
		return api.AnycastStatus{}, err
	}
	return a.Status()
}

// instruct forwards an instruction to a site.
func (p *planning) instruct(ctx context.Context, o api.AnycastInstruction) error {
	client := p.client(o.Site)
	if client == nil {
		return fmt.Errorf("site %q: %w (%s)", o.Site, api.ErrNotFound, document.Meant(o.Site, p.siteNames()))
	}
	_, err := client.Instruct(ctx, exchange.Instruction{Kind: o.Kind, Level: o.Level, Force: o.Force})
	var refused *exchange.RefusedError
	if errors.As(err, &refused) {
		return api.Refused(err)
	}
	return err
}
