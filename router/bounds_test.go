package router

import (
	"fmt"
	"os"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/route"
)

// TestBoundsAreTheKernels: package route has its own constants, as it does not import the data path.
func TestBoundsAreTheKernels(t *testing.T) {
	for _, tt := range []struct {
		name         string
		ours, kernel int
	}{
		{"host", route.MaxKernelHost, kernel.HostBytes - 1},
		{"prefix", route.MaxKernelPrefix, kernel.RouteBytes},
		{"members", route.KernelMembers, kernel.PoolMembers},
		{"tables of pools", route.PoolTables, kernel.MaxPools},
		{"tables", route.KernelTables, kernel.MaxTables},
		{"zones", route.KernelZones, kernel.MaxZones},
		{"any method", route.AnyMethod, kernel.AnyMethod},
	} {
		if tt.ours != tt.kernel {
			t.Errorf("%s: the routes are compiled for %d, the kernel has %d", tt.name, tt.ours, tt.kernel)
		}
	}
	shared, err := os.ReadFile("../bpf/router/types.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]int{"HEAD_BYTES": route.MaxKernelHead, "HASH_BYTES": route.MaxKernelPath + 1} {
		if line := fmt.Sprintf("\t%s = %d,", name, value); !strings.Contains(string(shared), line) {
			t.Errorf("bpf/router/types.h does not have %q", line)
		}
	}
	maps, err := os.ReadFile("../bpf/router/maps.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, entries := range []int{route.LeastHosts, route.MaxPrefixes} {
		if size := fmt.Sprintf("__uint(max_entries, GENERATIONS * %d);", entries); !strings.Contains(string(maps), size) {
			t.Errorf("bpf/router/maps.h does not have %q", size)
		}
	}
}
