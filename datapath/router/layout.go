package router

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// layout is the layout of the pinned maps.
func layout() (datapath.Layout, error) {
	spec, err := loadRouter()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	return layoutOf(spec)
}

func layoutOf(spec *ebpf.CollectionSpec) (datapath.Layout, error) {
	return datapath.LayoutOf(spec, datapath.Stored{
		Maps: slices.Collect(maps.Keys((&Router{}).named())),
		Types: []string{
			"ended", "leg_event", "splice_state", "splice_flag", "framing", "side", "client_state", "client_flag", "band", "policy", "mode", "vip_flag",
			"reuse", "header", "field_mark", "method", "event_kind", "leg_end", "request_log", "log_state", "log_flag",
		},
		Constants: []string{"LEG_CLASSES", "LEG_BANDS", "MAX_POOLS", "MAX_TABLES", "SOURCES", "LOG_PAGE", "WATCHES"},
	})
}
