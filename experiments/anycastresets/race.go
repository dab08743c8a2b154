package anycastresets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// race is the downloads of all contenders in a case, which run at the same time: one after the other they would take hours.
type race struct{ ends map[string]chan end }

// end is how a download went.
type end struct {
	bytes  int64
	took   time.Duration
	resets int
	err    error
}

// Turn is a contender's turn.
type Turn = experiments.Turn[*Topology]

// start begins all downloads of a case.
func start(ctx context.Context, t *Turn) *race {
	r := &race{ends: make(map[string]chan end)}
	for name, w := range t.Topology.paths {
		done := make(chan end, 1)
		r.ends[name] = done
		every := time.Duration(t.Case.At["every"] * float64(time.Second))
		go func() { done <- w.run(ctx, t.Options, t.Lab.Dir(), every) }()
	}
	return r
}

// goodput downloads the file, or as much of it as there is time for.
func goodput() experiments.Measure[*Topology] {
	return experiments.Measure[*Topology]{
		Name: "goodput", Title: "Goodput of the download", Unit: "Mbit/s",
		Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
			if t.Topology.race == nil {
				t.Topology.race = start(ctx, t)
			}
			e := <-t.Topology.race.ends[t.Topology.turn]
			if e.err != nil {
				return experiments.Sample{}, e.err
			}
			return experiments.Sample{Value: float64(e.bytes) * 8 / e.took.Seconds() / 1e6, Work: 1,
				Also: map[string]float64{"bytes": float64(e.bytes), "resets": float64(e.resets)}}, nil
		},
	}
}

// run downloads once.
func (w *path) run(ctx context.Context, o experiments.Options, folder string, every time.Duration) (e end) {
	dir, err := os.MkdirTemp(folder, "download")
	if err != nil {
		return end{err: err}
	}
	defer os.RemoveAll(dir)
	if !w.resets {
		every = 0
	}
	w.origin.Reset(every, w.all)
	defer func() { e.resets = w.origin.Reset(0, false) }()
	ctx, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	file := filepath.Join(dir, "file")
	began := time.Now()
	p, err := w.host.Start(w.program(o.Program, "http://"+w.server+"/file", file))
	if err != nil {
		return end{err: err}
	}
	failed := p.Wait(ctx)
	e.took = time.Since(began)
	switch {
	case failed != nil && ctx.Err() == nil:
		return end{err: fmt.Errorf("%s: %w: %s", w.name, failed, p.Log())}
	case failed != nil:
		if err := p.Kill(); err != nil {
			return end{err: err}
		}
		file += w.unfinished
	}
	if e.bytes, err = check(file, failed == nil); err != nil {
		return end{err: fmt.Errorf("%s: %w", w.name, err)}
	}
	return e
}

// check returns how many bytes of the file exist; each must be correct.
func check(file string, whole bool) (int64, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) && !whole {
		return 0, nil // nothing has come yet
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if whole && st.Size() != size {
		return 0, fmt.Errorf("it has %d bytes of %d, and says that it is complete", st.Size(), size)
	}
	return st.Size(), peers.CheckPattern(f, st.Size())
}

// client is a program that downloads, and the file that it writes to while it does.
type client struct {
	name, is   string
	resets     bool
	all        bool // of its connections at once
	program    func(baton, url, file string) lab.Program
	needs      string // program to be installed
	unfinished string // what is behind the name of the file until it is whole
}
