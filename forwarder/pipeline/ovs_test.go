package pipeline_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// TestOpenVSwitchReadsFeatures: ovs-ofctl, which wants all properties that are required, understands what the tables, groups and
// meters say that they can do.
func TestOpenVSwitchReadsFeatures(t *testing.T) {
	ofctl, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		t.Skip("ovs-ofctl is not installed (make deps)")
	}
	p := pipeline.New(pipeline.Limits{Tables: 2})
	for _, tt := range []struct {
		body openflow.MultipartBody
		want string // words in this order
	}{
		{p.TableFeatures(), "table 0: max_entries=131072 (table miss and others) next tables: 1 meter apply_actions " +
			"Write-Actions and Apply-Actions output group set_field arbitrary mask: tun_id exact match or wildcard: table 1: ditto"},
		{p.GroupFeatures(), "Capabilities: 0xf all group: select group: actions: output group indirect group: fast failover group:"},
		{p.MeterFeatures(), "max_meter:4096 max_bands:8 drop dscp_remark kbps pktps burst stats"},
	} {
		for _, r := range openflow.Split(tt.body) {
			b, err := openflow.Append(nil, 1, r)
			if err != nil {
				t.Fatal(err)
			}
			said, err := exec.Command(ofctl, "ofp-print", fmt.Sprintf("%x", b)).CombinedOutput()
			if err != nil {
				t.Fatalf("ovs-ofctl: %v", err)
			}
			rest := string(said)
			for _, word := range strings.Fields(tt.want) {
				var found bool
				if _, rest, found = strings.Cut(rest, word); !found {
					t.Fatalf("%T: ovs-ofctl does not say %q where it should in:\n%s", tt.body, word, said)
				}
			}
		}
	}
}
