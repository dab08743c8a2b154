// Command counters holds what may only become less: it counts, part by part, and compares with the committed bounds.
// A figure above its bound is a failure, and so is a bound above its figure, which -update lowers. Only an edit by hand
// raises a bound.
//
//	counters                          compare
//	counters -update                  compare, and lower the bounds to the figures
//	counters -list                    print the figures, as in the file of bounds
//	counters -list router one-word    print what a figure counts
//	counters -findings FILE           count what Vale finds in comments (packaging/prose.sh writes it), not the sources
//
// It runs in the module's folder. CONTRIBUTING.md says what counts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// Places in the module.
const (
	boundsPath = "packaging/counters/bounds"
	ranksPath  = "packaging/counters/ranks"
)

type options struct {
	root, findings string
	list, update   bool
	subject, name  string // what to list; "": the figures
}

func main() {
	o := options{root: "."}
	flag.BoolVar(&o.list, "list", false, "print the figures, or what that of a `part and counter` counts")
	flag.BoolVar(&o.update, "update", false, "lower the bounds to the figures")
	flag.StringVar(&o.findings, "findings", "", "count the findings of this `file` instead of the sources")
	flag.Parse()
	switch {
	case o.list && flag.NArg() == 2:
		o.subject, o.name = flag.Arg(0), flag.Arg(1)
	case flag.NArg() != 0:
		fmt.Fprintln(os.Stderr, "counters: write a part and a counter: go run ./packaging/counters -list router one-word")
		os.Exit(2)
	}
	if err := countAndCompare(o); err != nil {
		fmt.Fprintln(os.Stderr, "counters:", err)
		os.Exit(1)
	}
}

func countAndCompare(o options) error {
	c, err := takeCount(o)
	if err != nil {
		return err
	}
	if o.list {
		c.printPlaces(o.subject, o.name)
		return nil
	}
	return compareWithBounds(o, c)
}

// takeCount counts in the sources, or in a file of findings.
func takeCount(o options) (*count, error) {
	if o.findings != "" {
		c := newCount()
		return c, c.addFindings(o.findings)
	}
	files, err := readFiles(o.root)
	if err != nil {
		return nil, err
	}
	c := newCount(oneWord, proseLock, longLine, longFunction, upwardUse)
	for _, f := range files {
		c.addLongLines(f)
		if f.syntax != nil && !f.isTest() {
			c.addOneWordNames(f)
			c.addProseLocks(f)
			c.addLongFunctions(f)
		}
	}
	ranks, err := readRanks(o.root, files, o.update)
	if err != nil {
		return nil, err
	}
	return c, c.addUpwardUses(o.root, ranks)
}

func compareWithBounds(o options, c *count) error {
	path := filepath.Join(o.root, boundsPath)
	b, err := readBounds(path)
	if err != nil {
		return err
	}
	above, below := b.compareFigures(c)
	if len(below) > 0 && o.update {
		if err := b.lowerBounds(path, c, below); err != nil {
			return err
		}
		below = nil
	}
	if len(above)+len(below) == 0 {
		return nil
	}
	changed, err := changedLines(o.root)
	if err != nil {
		return err
	}
	for _, k := range above {
		fmt.Fprint(os.Stderr, c.explainRise(k, b.figures[k], changed))
	}
	for _, k := range below {
		fmt.Fprintf(os.Stderr, "%s %s: %d, and its bound is %d\n", k.counter, k.subject, c.figureOf(k), b.figures[k])
	}
	if len(below) > 0 {
		fmt.Fprintf(os.Stderr, "Lower these bounds in %s: go run ./packaging/counters -update%s\n", boundsPath, c.flags)
	}
	return errors.New("figures differ from " + boundsPath)
}
