package handoff_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"baton/experiments/handoff"
	"baton/lab"
)

// TestRun puts every measure to the contenders that need nothing of Baton, as briefly as can be, over both families:
// the figures mean nothing, but every request must be answered by the byte.
func TestRun(t *testing.T) {
	for _, family := range []struct {
		name string
		v6   bool
	}{{"IPv4", false}, {"IPv6", true}} {
		t.Run(family.name, func(t *testing.T) {
			report, err := handoff.Run(t.Context(), lab.New(t), handoff.Options{Rounds: 1, Duration: 100 * time.Millisecond,
				Bulk: "/100m", Probes: 20, Surrogates: 3, IPv6: family.v6})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Rows) != 4 {
				t.Fatalf("%d rows, want 4", len(report.Rows))
			}
			for _, row := range report.Rows {
				if len(row.Cells) != 4 {
					t.Fatalf("%s: %d cells, want 4", row.Measure, len(row.Cells))
				}
				for _, c := range row.Cells {
					if c.Value <= 0 || c.Ratio <= 0 || c.Errors != 0 {
						t.Errorf("%s, %s: %+v", row.Measure, c.Contender, c)
					}
				}
				if row.Cells[0].Ratio != 1 {
					t.Errorf("%s: direct is %v × itself", row.Measure, row.Cells[0].Ratio)
				}
			}
			if text := report.Markdown(); !strings.Contains(text, "| haproxy |") {
				t.Errorf("no HAProxy in the table:\n%s", text)
			}
			b, err := json.Marshal(report)
			var back handoff.Report
			if err != nil || json.Unmarshal(b, &back) != nil || back.Rows[0].Cells[0].Value != report.Rows[0].Cells[0].Value {
				t.Errorf("JSON does not carry the report: %v", err)
			}
		})
	}
}

// TestContenderThatFailsEndsTheRun: a benchmark must not go on without one of its columns.
func TestContenderThatFailsEndsTheRun(t *testing.T) {
	broken := handoff.Contender{Name: "broken", Start: func(t *handoff.Topology, v6 bool) (*handoff.Running, error) {
		r := &handoff.Running{Targets: t.Addresses(v6)}
		r.Targets[0] = handoff.VIP(v6) // nobody answers there
		r.Targets = r.Targets[:1]
		return r, nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := handoff.Run(ctx, lab.New(t), handoff.Options{Contenders: []handoff.Contender{broken}, Rounds: 1, Duration: time.Millisecond, Surrogates: 1})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v, want one that names the contender", err)
	}
}

// BenchmarkContenders is the experiment without Baton: go test -run ^$ -bench . ./experiments/handoff
func BenchmarkContenders(b *testing.B) {
	for range b.N {
		err := lab.Run(os.Stderr, func(l *lab.Lab) error {
			report, err := handoff.Run(b.Context(), l, handoff.Options{})
			if err == nil {
				fmt.Print("\n", report.Markdown()) // a benchmark's own log is cut short
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
