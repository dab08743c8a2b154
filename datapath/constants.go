package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// SetConstants gives a program the values that are fixed while it is loaded, by the names of its variables.
func SetConstants(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, v := range values {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
