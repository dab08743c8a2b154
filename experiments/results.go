package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// schema is the version of results.json. Readers refuse a newer one; added fields do not change it.
const schema = 1

// resultsFile is the name of the results in a run's folder.
const resultsFile = "results.json"

// Results are all samples of a run, with where it took place.
type Results struct {
	Schema     int             `json:"schema"`
	Experiment string          `json:"experiment"`
	Question   string          `json:"question"`
	Began      time.Time       `json:"began"`
	Took       float64         `json:"took_seconds"`
	Ended      Ending          `json:"ended"`
	Failure    string          `json:"failure,omitempty"` // why it Failed
	Options    RunOptions      `json:"options"`
	Parameters []Parameter     `json:"parameters,omitempty"`
	Cases      []Case          `json:"cases"`
	Contenders []ContenderInfo `json:"contenders"`
	Measures   []MeasureInfo   `json:"measures"`
	Samples    []Sample        `json:"samples"`

	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"` // of every program involved
	Source   Source            `json:"source"`
	Lab      *LabVerdict       `json:"lab,omitempty"` // for experiments with emulated links, except quick runs
}

// Ending is how a run ended.
type Ending string

const (
	Complete    Ending = "complete"
	Interrupted Ending = "interrupted"
	Failed      Ending = "failed"
)

// RunOptions are the options of a run, which repeat it.
type RunOptions struct {
	Rounds      int      `json:"rounds"`
	Duration    float64  `json:"duration_seconds"`
	Quick       bool     `json:"quick"`
	IPv6        bool     `json:"ipv6"`
	Seed        uint64   `json:"seed,omitempty"`
	Connections int      `json:"connections,omitempty"`
	Cases       []string `json:"cases,omitempty"` // only these; the same for the next two
	Contenders  []string `json:"contenders,omitempty"`
	Measures    []string `json:"measures,omitempty"`
	Defaults    bool     `json:"defaults"` // rounds and duration are the experiment's own
}

// ContenderInfo is a contender as the report names it.
type ContenderInfo struct {
	Name string `json:"name"`
	Is   string `json:"is,omitempty"`
}

// MeasureInfo is a measure as the report names it.
type MeasureInfo struct {
	Name  string `json:"name"`
	Title string `json:"title,omitempty"`
	Unit  string `json:"unit"`
	Less  bool   `json:"less_is_better"`
	Per   string `json:"per,omitempty"`
}

// Sample is one measure of one contender in one case and round.
type Sample struct {
	Round     int    `json:"round"` // from 1
	Case      string `json:"case,omitempty"`
	Contender string `json:"contender"`
	Measure   string `json:"measure"`

	Value  float64            `json:"value"`            // in the measure's unit
	Single *Distribution      `json:"single,omitempty"` // times of the individual requests that make up Value
	Work   float64            `json:"work,omitempty"`   // number of units of work: divisor of the CPU time
	CPU    *Usage             `json:"cpu,omitempty"`    // for a unit of work
	Errors int64              `json:"errors"`           // requests that failed
	First  string             `json:"first_error,omitempty"`
	Also   map[string]float64 `json:"also,omitempty"`  // further figures by name, stored but not reported
	Notes  map[string]string  `json:"notes,omitempty"` // words by name, for an experiment's Summary
	Course *Course            `json:"course,omitempty"`
}

// values returns one measure of one contender in a case, by round.
func (r *Results) values(kase, contender, measure string, of func(Sample) (float64, bool)) map[int]float64 {
	values := map[int]float64{}
	for _, s := range r.Samples {
		if s.Case != kase || s.Contender != contender || s.Measure != measure {
			continue
		}
		if v, ok := of(s); ok {
			values[s.Round] = v
		}
	}
	return values
}

// over returns the estimate of a figure over the rounds.
func (r *Results) over(kase, contender, measure string, of func(Sample) (float64, bool)) Estimate {
	var list []float64
	for _, v := range r.values(kase, contender, measure, of) {
		list = append(list, v)
	}
	return estimate(list)
}

// versus combines both contenders' samples of the same round, and returns the estimate; rounds that lack one are left out.
func (r *Results) versus(kase, contender, base, measure string, of func(Sample) (float64, bool),
	combine func(v, b float64) float64) Estimate {
	bases := r.values(kase, base, measure, of)
	var list []float64
	for round, v := range r.values(kase, contender, measure, of) {
		if b, ok := bases[round]; ok {
			if c := combine(v, b); !math.IsInf(c, 0) && !math.IsNaN(c) { // no ratio to a baseline of 0
				list = append(list, c)
			}
		}
	}
	return estimate(list)
}

func value(s Sample) (float64, bool) { return s.Value, true }

// Value is a contender's median in a case.
func (r *Results) Value(kase, contender, measure string) Estimate {
	return r.over(kase, contender, measure, value)
}

// Ratio is the median of the rounds' ratios of a contender to another.
func (r *Results) Ratio(kase, contender, base, measure string) Estimate {
	return r.versus(kase, contender, base, measure, value, func(v, b float64) float64 { return v / b })
}

// errors counts a contender's failed requests over all rounds of a case, and returns the first message.
func (r *Results) errors(kase, contender, measure string) (n int64, first string) {
	for _, s := range r.Samples {
		if s.Case == kase && s.Contender == contender && s.Measure == measure {
			n += s.Errors
			if first == "" {
				first = s.First
			}
		}
	}
	return n, first
}

func (r *Results) has(measure string) bool {
	return slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Measure == measure })
}

// Write writes results.json into the folder.
func (r *Results) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, resultsFile), append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// Read reads the results in a folder. A file of another kind, or with a newer schema, is an error.
func Read(dir string) (*Results, error) {
	path := filepath.Join(dir, resultsFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read results: %s does not exist", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var r Results
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read results: %s: %w", path, err)
	}
	if r.Schema < 1 || r.Schema > schema {
		return nil, fmt.Errorf("read results: %s: schema %d, this program reads 1 to %d", path, r.Schema, schema)
	}
	return &r, nil
}
