package adversary

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/experiments/adversary/script"
	"baton/experiments/experimentstest"
	"baton/lab"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "seed of the drawn scripts (0: fixed ones, and one at random that is printed)")
	forFlag      = flag.Duration("for", 24*time.Second, "how long scripts are drawn")
	classFlag    = flag.String("class", "", "client, surrogate or stranger alone")
	scriptFlag   = flag.String("script", "", "play this script alone, as a finding prints it")
	eachFlag     = flag.String("each", "", "play each directed script whose name has this text in a batch of its own (\"all\": every one)")
	withFlag     = flag.String("with", "baton", "the contender")
	shrinkFlag   = flag.Bool("shrink", false, "leave out of a batch with a finding what it does not need")
	programFlag  = flag.String("program", "", "the program baton (default: it is built)")
	keepGoing    = flag.Bool("keep-going", false, "go on after a finding")
	scriptsFlag  = flag.Int("scripts", 60, "scripts of a batch")
	patienceFlag = flag.Duration("patience", answerWithin, "how long an innocent waits for an answer: less makes -shrink quicker")
)

// trial is a test's campaign.
type trial struct {
	*testing.T
	*campaign
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	answerWithin = *patienceFlag
	n := build(lab.New(t))
	all := contenders()
	at := slices.IndexFunc(all, func(c contender) bool { return c.name == *withFlag })
	if at < 0 {
		t.Fatalf("no contender %q", *withFlag)
	}
	c := &campaign{n: n, with: all[at], program: *programFlag}
	if c.program == "" {
		c.program = experimentstest.Program(t)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	return &trial{t, c}
}

// batch plays a batch, and fails the test for its findings. False: the campaign should end.
func (t *trial) batch(b Batch) bool {
	t.Helper()
	b, err := t.run(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(b)
	if len(b.Findings) == 0 {
		return true
	}
	t.Errorf("finding of %s", b.name())
	if *shrinkFlag {
		t.shrink(b)
	}
	t.Log(b.Dump)
	return *keepGoing
}

// shrink finds the scripts of a batch, and their steps, that suffice for a finding.
func (t *trial) shrink(b Batch) {
	kinds := b.Counts
	fails := func(scripts []script.Script) bool {
		again, err := t.run(t.Context(), Batch{Class: b.Class, Seed: b.Seed, Scripts: scripts})
		if err != nil {
			t.Fatal(err)
		}
		for k := range again.Counts {
			if kinds[k] > 0 {
				return true
			}
		}
		return false
	}
	scripts := script.Shrink(b.Scripts, 60, fails)
	for i := range scripts {
		scripts[i].Steps = script.Shrink(scripts[i].Steps, 30, func(steps []script.Step) bool {
			tried := slices.Clone(scripts)
			tried[i].Steps = steps
			return fails(tried)
		})
	}
	for _, s := range scripts {
		t.Logf("enough: %s", s)
	}
}

func (t *trial) classes() []script.Class {
	if *classFlag == "" {
		return script.Classes
	}
	return []script.Class{script.Class(*classFlag)}
}

// TestAdversary plays the directed scripts, and then drawn ones for as long as -for says: fixed seeds first, so that a run can be compared with
// the last one, and then seeds of this run's own. A finding prints how it is repeated:
//
//	go test ./experiments/adversary -run TestAdversary -seed N -class client -shrink
//	go test ./experiments/adversary -run TestAdversary -for 1h -timeout 2h
func TestAdversary(t *testing.T) {
	a := newTrial(t)
	if err := a.calm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *scriptFlag != "" {
		s, err := script.Parse(*scriptFlag)
		if err != nil {
			t.Fatal(err)
		}
		s.Times = max(s.Times, 10)
		a.batch(Batch{Class: s.Class, Scripts: []script.Script{s}})
		return
	}
	if *eachFlag != "" {
		for _, c := range a.classes() {
			for _, s := range script.DirectedOf(c) {
				if strings.Contains(s.Name, *eachFlag) || *eachFlag == "all" {
					a.batch(Batch{Class: c, Scripts: []script.Script{s}})
				}
			}
		}
		return
	}
	if *seedFlag != 0 {
		for _, c := range a.classes() {
			if !a.batch(drawn(c, *seedFlag)) {
				return
			}
		}
		if !explicit("for") {
			return
		}
	} else if !a.directed() {
		return
	}
	a.drawn()
}

func explicit(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

func drawn(c script.Class, seed uint64) Batch {
	return Batch{Class: c, Seed: seed, Scripts: script.DrawAll(c, seed, *scriptsFlag)}
}

// attribution bounds the search for the script of a batch that caused a finding.
const attribution = 4 * time.Minute

// directed plays the directed scripts of each class in some batches; after a finding it replays each script of the batch alone.
func (t *trial) directed() bool {
	for _, c := range t.classes() {
		for _, scripts := range script.Apart(script.DirectedOf(c)) {
			b, err := t.run(t.Context(), Batch{Class: c, Scripts: scripts})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("directed %s", b)
			if len(b.Findings) == 0 {
				continue
			}
			t.Errorf("a directed script of class %s has a finding", c)
			t.Log(b.Dump)
			for i, end := 0, time.Now().Add(attribution); i < len(scripts) && time.Now().Before(end); i++ {
				t.batch(Batch{Class: c, Scripts: scripts[i : i+1]})
			}
			if !*keepGoing {
				return false
			}
		}
	}
	return true
}

// drawn plays random scripts.
func (t *trial) drawn() {
	seeds := rand.New(rand.NewPCG(rand.Uint64(), 0))
	end := time.Now().Add(*forFlag)
	for i := uint64(0); time.Now().Before(end) && t.Context().Err() == nil; i++ {
		seed := 1 + i/uint64(len(t.classes())) // fixed for the first half
		if time.Until(end) < *forFlag/2 || *seedFlag != 0 {
			seed = seeds.Uint64()
		}
		c := t.classes()[i%uint64(len(t.classes()))]
		if !t.batch(drawn(c, seed)) {
			return
		}
	}
}

// TestBatchTellsHowItIsRepeated: a finding contains its seed, or its name.
func TestBatchTellsHowItIsRepeated(t *testing.T) {
	b := drawn(script.Client, 77)
	b.Findings, b.Counts = []Finding{{Wrong, "bytes"}}, map[Kind]int{Wrong: 5}
	for _, want := range []string{"client -seed 77", "5 wrong", "wrong: bytes"} {
		if !strings.Contains(fmt.Sprint(b), want) {
			t.Errorf("%q is not in %q", want, b)
		}
	}
}
