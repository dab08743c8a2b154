package balance

import (
	"slices"
	"testing"

	"baton/balance/config"
	"baton/datapath"
)

// TestNeeds: Open vSwitch forwards without Baton's programs, and only rules by application mark sockets.
func TestNeeds(t *testing.T) {
	must := func(text string) []string {
		var cfg *config.Config
		if text != "" {
			var err error
			if cfg, err = config.Parse("b.yaml", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, n := range Needs(cfg) {
			if n.Without == "" {
				names = append(names, n.Feature.Name)
			}
		}
		return names
	}
	const application = "\nrules: [{name: r, application: {cgroup: /a}}]"
	for _, tt := range []struct {
		text               string
		tcx, cgroups, bpfs bool
	}{
		{"", false, false, false},
		{"links: [a, b]", true, false, true},
		{"links: [a, b]\ndatapath: ovs", false, false, false},
		{"links: [a, b]\ndatapath: ovs" + application, false, true, false},
		{"links: [a, b]" + application, true, true, true},
	} {
		names := must(tt.text)
		for feature, want := range map[*datapath.Feature]bool{
			datapath.TCX: tt.tcx, datapath.Cgroup2: tt.cgroups, datapath.BPFFileSystem: tt.bpfs, datapath.CapNetAdmin: true,
		} {
			if slices.Contains(names, feature.Name) != want {
				t.Errorf("%q: %s needed: %v, want %v", tt.text, feature.Name, !want, want)
			}
		}
	}
}
