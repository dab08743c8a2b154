package kerneltest

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// costs has how many instructions a verifier goes through for each program, by the kernel's series ("6.18"): verifiers differ by more than
// programs do from one change to the next.
const costs = "testdata/verifier.json"

// mostCost holds for every kernel, recorded or not. The limit is 1,000,000. Of the series that were measured, Linux 6.19 is the dearest by
// far: it goes through up to seven times as many instructions as its neighbours.
const mostCost = 700_000

// ceiling leaves room for changes of a program, and for those of a series' verifier.
func ceiling(recorded int) int { return min((2*recorded/1000+2)*1000, mostCost) }

var (
	processed = regexp.MustCompile(`processed (\d+) insns`)
	series    = regexp.MustCompile(`^\d+\.\d+`)
)

// VerifierCost holds the programs of a spec, whose maps are small, to what testdata has of them for this kernel's series, or writes that.
func VerifierCost(t *testing.T, update bool, spec *ebpf.CollectionSpec) {
	t.Helper()
	Need(t)
	var host unix.Utsname
	if err := unix.Uname(&host); err != nil {
		t.Fatal(err)
	}
	kernel := series.FindString(unix.ByteSliceToString(host.Release[:]))
	recorded := make(map[string]map[string]int) // by program and kernel
	b, err := os.ReadFile(costs)
	if err == nil {
		err = json.Unmarshal(b, &recorded)
	}
	if err != nil && !update {
		t.Fatal(err)
	}
	next := make(map[string]map[string]int)
	for name, n := range measured(t, spec) {
		most := mostCost
		if was, ok := recorded[name][kernel]; ok {
			most = ceiling(was)
		} else if len(recorded[name]) == 0 && !update {
			t.Errorf("%s is not in %s: run with -update", name, costs)
		}
		t.Logf("%s: %d instructions on Linux %s, recorded %v", name, n, kernel, recorded[name])
		if n > most && (!update || n > mostCost) {
			t.Errorf("%s: %d instructions on Linux %s, ceiling %d", name, n, kernel, most)
		}
		next[name] = map[string]int{kernel: n}
		for other, n := range recorded[name] {
			if other != kernel {
				next[name][other] = n
			}
		}
	}
	if !update {
		return
	}
	b, err = json.MarshalIndent(next, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(costs, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// measured loads programs and returns how many instructions the verifier went through for each.
func measured(t *testing.T, spec *ebpf.CollectionSpec) map[string]int {
	t.Helper()
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	each := make(map[string]int)
	for name, p := range all.Programs {
		m := processed.FindStringSubmatch(p.VerifierLog)
		if m == nil {
			t.Fatalf("%s: no count in %q", name, p.VerifierLog)
		}
		each[name], _ = strconv.Atoi(m[1])
	}
	return each
}
