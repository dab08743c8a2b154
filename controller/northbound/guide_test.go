package northbound

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"baton/exporter"
)

// TestGuide: the guide has every call and topic with its role, every code, and every metric.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/northbound.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(want string) {
		t.Helper()
		if !strings.Contains(string(text), want) {
			t.Errorf("the guide lacks %s", want)
		}
	}
	s := New(Config{})
	for method, call := range s.methods {
		has(fmt.Sprintf("| `%s` | %s |", method, call.role))
	}
	for topic, role := range topics {
		has(fmt.Sprintf("| `%s` | %s |", topic, role))
	}
	for code, name := range results {
		if name != "ok" {
			has(fmt.Sprintf("| %d |", code))
		}
	}
	s.counts.call("topology", 0)
	s.counts.refuse("host")
	var n exporter.Numbers
	s.Series(&n)
	for _, x := range n {
		if x.Name != "northbound_unencodable_events_total" { // a bug's
			has("`" + x.Name)
		}
	}
	has(fmt.Sprintf("%d KiB", s.limits.Message>>10))
	has(fmt.Sprintf("up to %d", s.limits.Batch))
	has("1,024 events")
	if subscriberQueue != 1024 || mostItems != 1000 || maxWeight != 1000 {
		t.Error("the guide has other limits")
	}
}
