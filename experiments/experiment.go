package experiments

import (
	"context"
	"io"
	"time"
)

// Experiment is a question over a topology of type T.
type Experiment[T any] struct {
	Name     string
	Question string // one sentence, with its question mark
	Method   string // a few sentences of Markdown

	Cases      []Case // default: the grid of the Parameters, or a single case without a name
	Parameters []Parameter
	Contenders []Contender[T] // the first is the baseline
	Measures   []Measure[T]

	// Build makes what all contenders share, once. Enter, if set, prepares it for a case in each round.
	Build func(ctx context.Context, s *Setup) (T, error)
	Enter func(ctx context.Context, t T, c Case) error

	Rounds   int           // default: 5
	Duration time.Duration // of a timed sample; default: 3 s
	IPv6     bool          // it also runs over IPv6
	Emulated bool          // it needs accurate emulated links

	Claims  []Claim
	Caveats []string              // sentences of Markdown: limits of the figures
	Summary func(*Results) string // Markdown of its own, behind the answer
	Plots   []Plot                // default: one for each measure, over the first parameter, with a panel for each value of the others
}

// Contender is one way of doing the measured task.
type Contender[T any] struct {
	Name string
	Is   string // a few words for the report
	// Start starts it, and returns when it is ready to be measured; nil: nothing to start. It registers its processes and its cleanup with
	// the turn.
	Start func(ctx context.Context, t *Turn[T]) error
	// Skips reports which measures of a case do not apply; nil: none. If none is left it is not started.
	Skips func(c Case, measure string) bool
}

// Measure is a measured quantity.
type Measure[T any] struct {
	Name  string
	Title string // of its plots: the quantity in words; default: the name
	Unit  string
	Less  bool   // less is better
	Per   string // unit of work for CPU time ("request"); empty: CPU time is not reported

	Warm func(ctx context.Context, t *Turn[T]) error // runs before CPU time is counted: setup that only the first requests need
	Take func(ctx context.Context, t *Turn[T]) (Sample, error)
}

// Options of a run. Zero values mean the experiment's defaults.
type Options struct {
	Rounds     int
	Duration   time.Duration
	Quick      bool     // test that it works, not how fast: one round, short samples, few cases
	Cases      []string // only these names; the same for the next two
	Contenders []string
	Measures   []string
	IPv6       bool
	Seed       uint64 // of random choices, if any; 0: the experiment's

	// Connections is how many each contender is given, where an experiment counts them; 0: the experiment's.
	Connections int

	Program  string    // path of the program baton
	Progress io.Writer // default: none
}

// Runnable is an experiment with any topology.
type Runnable interface {
	About() About
	// Check returns what is wrong with the options, before anything is built.
	Check(o Options) error
	// Run runs the experiment. If it fails after the first sample, it returns the results so far with the error.
	Run(ctx context.Context, o Options) (*Results, error)
}

// About describes an experiment without running it.
type About struct {
	Name       string          `json:"name"`
	Question   string          `json:"question"`
	Cases      []Case          `json:"cases"`
	Contenders []ContenderInfo `json:"contenders"`
	Measures   []MeasureInfo   `json:"measures"`
	IPv6       bool            `json:"ipv6"`

	Parameters []Parameter           `json:"parameters,omitempty"`
	Method     string                `json:"-"`
	Claims     []Claim               `json:"-"`
	Caveats    []string              `json:"-"`
	Summary    func(*Results) string `json:"-"`
	Plots      []Plot                `json:"-"`
}

// About returns the description.
func (e Experiment[T]) About() About {
	a := About{Name: e.Name, Question: e.Question, Cases: e.Cases, Parameters: e.Parameters, IPv6: e.IPv6,
		Method: e.Method, Claims: e.Claims, Caveats: e.Caveats, Summary: e.Summary, Plots: e.Plots}
	if len(a.Cases) == 0 {
		a.Cases = grid(e.Parameters)
	}
	for _, c := range e.Contenders {
		a.Contenders = append(a.Contenders, ContenderInfo{c.Name, c.Is})
	}
	for _, m := range e.Measures {
		a.Measures = append(a.Measures, MeasureInfo{m.Name, m.Title, m.Unit, m.Less, m.Per})
	}
	return a
}
