package kerneltest

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
)

// cost is what the verifier went through for a program. Verifiers differ from kernel to kernel: the ceiling leaves room, and
// is far below the kernel's limit of 1,000,000.
type cost struct {
	Instructions int `json:"instructions"`
	Ceiling      int `json:"ceiling"`
}

const costs = "testdata/verifier.json"

var processed = regexp.MustCompile(`processed (\d+) insns`)

// VerifierCost holds the programs of a spec, whose maps are small, to what testdata has of them, or writes that.
func VerifierCost(t *testing.T, update bool, spec *ebpf.CollectionSpec) {
	t.Helper()
	Need(t)
	want := make(map[string]cost)
	b, err := os.ReadFile(costs)
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil && !update {
		t.Fatal(err)
	}
	got := make(map[string]cost)
	for name, n := range measured(t, spec) {
		got[name] = cost{n, (2*n/1000 + 2) * 1000}
	}
	for name, is := range got {
		c, ok := want[name]
		if !update && !ok {
			t.Errorf("%s is not in %s: run with -update", name, costs)
		}
		t.Logf("%s: %d instructions, recorded %d", name, is.Instructions, c.Instructions)
		if !update && is.Instructions > c.Ceiling {
			t.Errorf("%s: %d instructions, ceiling %d", name, is.Instructions, c.Ceiling)
		}
	}
	if !update {
		return
	}
	b, err = json.MarshalIndent(got, "", "\t")
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
