package endhost

import (
	"slices"
	"testing"

	"baton/balance/config"
	"baton/lab"
)

// TestConfig: what the contenders' balances read is right, and says what the settings do.
func TestConfig(t *testing.T) {
	topology := &Topology{}
	for i, rate := range []int64{10e6, 20e6} {
		u := &uplink{link: &lab.Link{A: &lab.Interface{Name: []string{"eth0", "eth1"}[i]}}}
		u.capacity.Store(rate)
		topology.used = append(topology.used, u)
	}
	tests := []struct {
		name     string
		o        settings
		datapath config.Datapath
		method   config.Method
		weights  []int
	}{
		{"as it comes", settings{measured: true}, config.Baton, config.Even, []int{0, 0}},
		{"round-robin", settings{method: "round-robin"}, config.Baton, config.RoundRobin, []int{10, 20}},
		{"the paper's controller", settings{datapath: "ovs", method: "controller", alike: true}, config.OpenVSwitch, config.Controller, []int{1, 1}},
		{"a select group", settings{datapath: "ovs", method: "hash"}, config.OpenVSwitch, config.Hash, []int{10, 20}},
		{"probes", settings{method: "fastest", probe: changeProbe}, config.Baton, config.Fastest, []int{10, 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := topology.config(tt.o)
			c, err := config.Parse("balance.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			var weights []int
			for i, l := range c.Links {
				weights = append(weights, l.Weight)
				if l.Interface != topology.used[i].name() {
					t.Errorf("link %d is %s", i, l.Interface)
				}
			}
			if c.Datapath != tt.datapath || c.Method != tt.method || !slices.Equal(weights, tt.weights) {
				t.Errorf("%s, %s, weights %v; want %s, %s, %v", c.Datapath, c.Method, weights, tt.datapath, tt.method, tt.weights)
			}
			usual, err := config.Parse("balance.yaml", []byte(topology.config(settings{})))
			if err != nil || (c.Probe != usual.Probe) != (tt.o.probe != "") {
				t.Errorf("probe %+v, %v", c.Probe, err)
			}
		})
	}
}
