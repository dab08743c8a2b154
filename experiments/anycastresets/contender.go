package anycastresets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// Contender is a way to download.
type Contender = experiments.Contender[*Topology]

// Turn is a contender's turn.
type Turn = experiments.Turn[*Topology]

// client is a program that downloads, and the file that it writes to while it does.
type client struct {
	name, is   string
	resets     bool
	all        bool
	program    func(t *Turn, file string) lab.Program
	unfinished string // what is behind the name of the file until it is whole
}

// clients by the name of their contender, the baseline first.
func clients() []client {
	curl := func(t *Turn, file string) lab.Program {
		return lab.Program{Path: "curl", Args: []string{"-q", "-sS", "-o", file, t.Topology.URL()}}
	}
	baton := func(more ...string) func(t *Turn, file string) lab.Program {
		return func(t *Turn, file string) lab.Program {
			return lab.Program{Path: t.Options.Program, Args: append([]string{"get", "--json", "-o", file, t.Topology.URL()}, more...)}
		}
	}
	return []client{
		{name: "undisturbed", is: "curl, and no resets", program: curl},
		{name: "baton", is: "`baton get`", resets: true, program: baton(), unfinished: ".part"},
		{name: "baton-route", is: "`baton get`, whose connections are all reset at once", resets: true, all: true, program: baton(), unfinished: ".part"},
		{name: "baton-single", is: "`baton get --connections 1`: the paper's client", resets: true, program: baton("--connections", "1"), unfinished: ".part"},
		{name: "curl", is: "`curl -C -` in a loop", resets: true, program: func(t *Turn, file string) lab.Program {
			return lab.Program{Path: "sh", Args: []string{"-c", `until curl -q -sS -C - -o "$0" "$1"; do :; done`, file, t.Topology.URL()}}
		}},
		{name: "wget", is: "`wget --tries 0 --waitretry 0`", resets: true, program: func(t *Turn, file string) lab.Program {
			return lab.Program{Path: "wget", Args: []string{"-q", "--tries", "0", "--waitretry", "0", "-O", file, t.Topology.URL()}}
		}},
		{name: "aria2", is: "`aria2c --max-tries=0`, one connection", resets: true, program: func(t *Turn, file string) lab.Program {
			return lab.Program{Path: "aria2c", Args: []string{"--no-conf", "-q", "--max-tries=0", "--retry-wait=0", "-x1", "-s1", "--file-allocation=none",
				"--allow-overwrite", "-d", filepath.Dir(file), "-o", filepath.Base(file), t.Topology.URL()}}
		}},
	}
}

func contenders() []Contender {
	var all []Contender
	for _, c := range clients() {
		all = append(all, Contender{Name: c.name, Is: c.is, Start: func(_ context.Context, t *Turn) error {
			every := time.Duration(0)
			if c.resets {
				every = time.Duration(t.Case.At["every"] * float64(time.Second))
			}
			t.Topology.Origin.Reset(every, c.all)
			t.Topology.client = c
			t.OnEnd(func() error { t.Topology.Origin.Reset(0, false); return nil })
			return nil
		}})
	}
	return all
}

// goodput downloads the file, or as much of it as there is time for.
func goodput() experiments.Measure[*Topology] {
	return experiments.Measure[*Topology]{
		Name: "goodput", Title: "Goodput of the download", Unit: "Mbit/s",
		Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
			dir, err := os.MkdirTemp(t.Lab.Dir(), "download")
			if err != nil {
				return experiments.Sample{}, err
			}
			defer os.RemoveAll(dir)
			got, took, err := t.Topology.client.download(ctx, t, filepath.Join(dir, "file"))
			if err != nil {
				return experiments.Sample{}, err
			}
			resets := t.Topology.Origin.Reset(0, false)
			return experiments.Sample{Value: float64(got) * 8 / took.Seconds() / 1e6, Work: 1,
				Also: map[string]float64{"bytes": float64(got), "resets": float64(resets)}}, nil
		},
	}
}

func (c *client) download(ctx context.Context, t *Turn, file string) (got int64, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Options.Duration)
	defer cancel()
	began := time.Now()
	p, err := t.Topology.Client.Start(c.program(t, file))
	if err != nil {
		return 0, 0, err
	}
	failed := p.Wait(ctx)
	took = time.Since(began)
	if failed != nil && ctx.Err() == nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", c.name, failed, p.Log())
	}
	if failed != nil {
		_ = p.Kill()
		file += c.unfinished
	}
	f, err := os.Open(file)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	if failed == nil && st.Size() != size {
		return 0, 0, fmt.Errorf("%s: it has %d bytes of %d, and says that it is complete", c.name, st.Size(), size)
	}
	if err := peers.CheckPattern(f, st.Size()); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", c.name, err)
	}
	return st.Size(), took, nil
}
