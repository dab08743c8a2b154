// Command rings runs all tests of the modules and says, ring by ring, what ran (docs: the five rings of tests). The
// ring of a test follows from its file: *_long_test.go is ring 5, one that imports baton/lab ring 4, one of
// datapath ring 3, a fuzz target ring 2, all others ring 1. A skipped test makes the run fail where CI=true or
// BATON_RINGS=all. Ring 5 runs with BATON_RINGS=long only; BATON_RINGS=check runs ring 1 and the seeds of ring 2,
// except what has not changed since it passed. With a part in BATON_PART it runs these of the part, and its ring 3.
// `rings packages` prints the packages of that part.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Times of one run: a package may take this long (the router takes 7 minutes), and each fuzz target runs for that long after its seeds.
const (
	packageTimeout = 12 * time.Minute
	fuzzTime       = 5 * time.Second
)

func main() {
	do := run
	if len(os.Args) == 2 && os.Args[1] == "packages" {
		do = printPackages
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "rings:", err)
		os.Exit(1)
	}
}

func run() error {
	strict := os.Getenv("CI") == "true" || os.Getenv("BATON_RINGS") == "all"
	all, err := listPackages()
	if err != nil {
		return err
	}
	tests, err := findTests(all)
	if err != nil {
		return err
	}
	isChosen := func(t test) bool { return t.ring <= 2 } // needs neither root nor a network
	if part := os.Getenv("BATON_PART"); part != "" {
		packages, err := packagesOf(part, all)
		if err != nil {
			return err
		}
		isChosen = ofPart(packages)
	}
	began := time.Now()
	s := newSummary(tests)
	switch os.Getenv("BATON_RINGS") {
	case "long":
		err = lane{packages: []string{"./...", "baton/kubernetes/..."}}.run(s, "$^")
	case "check":
		err = check(tests, s, isChosen)
	default:
		both, last := makeLanes(tests)
		err = runLanes(both, last, s, pattern(fromRing(tests, 5)))
	}
	if err != nil {
		return err
	}
	fmt.Printf("\n%s", s.table())
	fmt.Printf("%d packages, %.0f s\n", len(s.packages), time.Since(began).Seconds())
	return s.verdict(strict)
}

// goCommand runs the go that the environment names in GO, or the one on the PATH.
func goCommand(args ...string) *exec.Cmd {
	return exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
}
