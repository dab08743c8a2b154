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

	// Build makes what all contenders share, once. Enter, if set, changes it for a case before the turns of each round.
	Build func(ctx context.Context, s *Setup) (T, error)
	Enter func(ctx context.Context, t T, c Case) error

	Rounds   int           // default: 5
	Duration time.Duration // of a sample that is timed; default: 3 s
	IPv6     bool          // it can be asked over IPv6 as well
	Emulated bool          // it needs emulated links that do what they promise

	Claims  []Claim
	Caveats []string // sentences of Markdown: what the figures do not show
	Plots   []Plot   // default: one a measure, over the first parameter, a panel for each value of the others
}

// Contender is one way of doing what is measured.
type Contender[T any] struct {
	Name string
	Is   string // a few words for the report
	// Start brings it up and returns when it can be measured; nil: there is nothing to bring up. It tells the turn of its
	// processes, and how it is taken down.
	Start func(ctx context.Context, t *Turn[T]) error
	// Skips says which measures of a case it is not asked for; nil: none. It is not started where none is left.
	Skips func(c Case, measure string) bool
}

// Measure is what is asked of every contender.
type Measure[T any] struct {
	Name  string
	Title string // of its plots: what is counted, in words; default: the name
	Unit  string
	Less  bool   // less is better
	Per   string // unit of work of the processor time ("request"); empty: processor time is not reported

	Warm func(ctx context.Context, t *Turn[T]) error // before the processors' clock starts: what only the first requests pay
	Take func(ctx context.Context, t *Turn[T]) (Sample, error)
}

// Options of a run. The zero value of each field takes the experiment's default.
type Options struct {
	Rounds     int
	Duration   time.Duration
	Quick      bool     // whether it works, not how fast: one round, short samples, few cases
	Cases      []string // only these names; so the next two
	Contenders []string
	Measures   []string
	IPv6       bool
	Seed       uint64 // of what an experiment draws at random, where it does; 0: the experiment's

	Program  string    // path of the program baton
	Progress io.Writer // default: nowhere
}

// Runnable is an experiment, whatever its topology is.
type Runnable interface {
	About() About
	// Check says what is wrong with the options, before anything is built.
	Check(o Options) error
	// Run answers the question. Results come with an error too, once there is a sample: what was seen until then.
	Run(ctx context.Context, o Options) (*Results, error)
}

// About is what can be said of an experiment without running it.
type About struct {
	Name       string          `json:"name"`
	Question   string          `json:"question"`
	Cases      []Case          `json:"cases"`
	Contenders []ContenderInfo `json:"contenders"`
	Measures   []MeasureInfo   `json:"measures"`
	IPv6       bool            `json:"ipv6"`

	Parameters []Parameter `json:"parameters,omitempty"`
	Method     string      `json:"-"`
	Claims     []Claim     `json:"-"`
	Caveats    []string    `json:"-"`
	Plots      []Plot      `json:"-"`
}

// About says what the experiment is.
func (e Experiment[T]) About() About {
	a := About{Name: e.Name, Question: e.Question, Cases: e.Cases, Parameters: e.Parameters, IPv6: e.IPv6,
		Method: e.Method, Claims: e.Claims, Caveats: e.Caveats, Plots: e.Plots}
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
