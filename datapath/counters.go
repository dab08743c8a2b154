package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// Sums adds up what the processors have counted, by the place in an array that each of them has of its own. An array that an earlier version
// has left may be shorter: what it does not have was never counted.
func Sums(counters *ebpf.Map, places int) ([]uint64, error) {
	sums := make([]uint64, places)
	for i := range min(places, int(counters.MaxEntries())) {
		var each []uint64
		if err := counters.Lookup(uint32(i), &each); err != nil {
			return nil, fmt.Errorf("read the counters: %w", err)
		}
		for _, n := range each {
			sums[i] += n
		}
	}
	return sums, nil
}

// Verdicts are such sums by their names, which are in the order of the places.
func Verdicts(counters *ebpf.Map, names []string) (map[string]uint64, error) {
	sums, err := Sums(counters, len(names))
	if err != nil {
		return nil, err
	}
	all := make(map[string]uint64, len(names))
	for i, name := range names {
		all[name] += sums[i]
	}
	return all, nil
}
