// Package exchange is what sites and the planner say to each other: HTTP with JSON over TLS 1.3, both ends with certificates. A site
// reports its state to any peer with a certificate of the same authority; it accepts
// proposals and instructions only from the planner that its configuration names.
//
//	GET  /v1/report       Report
//	PUT  /v1/proposal     Proposal → Report
//	POST /v1/instruction  Instruction → Report
package exchange

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Report is the state of a site.
type Report struct {
	Site        string   `json:"site"`
	Health      string   `json:"health"`                // up, down or unknown
	Announces   bool     `json:"announces"`             // at least one router has the announcement
	Level       int      `json:"level"`                 // on its ladder; 0: a plain announcement
	Drain       int      `json:"drain"`                 // the last level that is an announcement
	Steps       []int    `json:"steps,omitempty"`       // levels entered by load
	Name        string   `json:"name"`                  // of the level
	Levels      []string `json:"levels,omitempty"`      // names of the ladder's
	Held        string   `json:"held,omitempty"`        // why the level is not another
	Load        float64  `json:"load"`                  // share of the capacity; negative: it is not known
	Instruction string   `json:"instruction,omitempty"` // of an operator, or "stop" while the process ends
}

// Serves reports whether the site can serve clients. A site with unknown health serves while its level announces: it was up before, and its
// checks have just changed.
func (r *Report) Serves() bool {
	return r.Health == "up" || r.Health == "unknown" && r.Level <= r.Drain
}

// Alive reports whether the site can serve clients and is announced.
func (r *Report) Alive() bool { return r.Serves() && r.Announces }

// Proposal is the level that a planner proposes for a site. The planner repeats it before it becomes stale.
type Proposal struct {
	Level int `json:"level"`
}

// Instruction is an operator's, given at the planner.
type Instruction struct {
	Kind  string `json:"kind"` // drain, maintenance, level or none
	Level string `json:"level,omitempty"`
	Force bool   `json:"force,omitempty"`
}

// Limits on what a report may contain.
const (
	mostLevels = 32
	mostLoad   = 1000
	mostText   = 64 // bytes, of each text
)

var errBounds = errors.New("it is out of bounds")

// check rejects invalid reports.
func (r *Report) check(site string) error {
	switch {
	case r.Site != site:
		return fmt.Errorf("it is of site %.64q, not of %s", r.Site, site)
	case r.Health != "up" && r.Health != "down" && r.Health != "unknown":
		return fmt.Errorf("health %.20q: %w", r.Health, errBounds)
	case r.Drain < 1 || r.Drain > mostLevels || r.Level < 0 || r.Level > r.Drain+1 || len(r.Steps) > mostLevels || len(r.Levels) > mostLevels+1:
		return fmt.Errorf("level %d of %d: %w", r.Level, r.Drain, errBounds)
	case math.IsNaN(r.Load) || r.Load > mostLoad:
		return fmt.Errorf("load %v: %w", r.Load, errBounds)
	}
	for _, s := range append([]string{r.Name, r.Held, r.Instruction}, r.Levels...) {
		if !plain(s) {
			return fmt.Errorf("%.64q is no name: %w", s, errBounds)
		}
	}
	for i, s := range r.Steps {
		if s <= 0 || s > r.Drain || i > 0 && s <= r.Steps[i-1] {
			return fmt.Errorf("steps %v: %w", r.Steps, errBounds)
		}
	}
	return nil
}

// plain reports whether a text can be displayed safely.
func plain(s string) bool {
	return len(s) <= mostText && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}
