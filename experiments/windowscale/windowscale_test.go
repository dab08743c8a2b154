package windowscale

import (
	"os"
	"strings"
	"testing"
	"time"

	"baton/experiments"
	"baton/lab"
)

// TestUnscaled: 64 KiB a round-trip time are 2.6 MB/s over 25 ms, and a slow machine makes that no more. How fast the other is,
// depends on the machine.
func TestUnscaled(t *testing.T) {
	lab.NeedRoot(t)
	e := Experiment()
	e.Parameters[0].Values = []float64{25}
	r, err := e.Run(t.Context(), experiments.Options{Quick: true, Duration: time.Second, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	scaled, unscaled := r.Value("rtt 25 ms", "scaled", "download").Median, r.Value("rtt 25 ms", "unscaled", "download").Median
	if unscaled > 65.536/25*1.1 || unscaled <= 0 || scaled <= 0 {
		t.Errorf("%.2f MB/s scaled, %.2f MB/s unscaled", scaled, unscaled)
	}
	for _, s := range r.Samples {
		if s.Errors > 0 {
			t.Errorf("%s: %d errors, the first %s", s.Contender, s.Errors, s.First)
		}
	}
}

// TestDocument: the document shows the experiment as it is, and it is as short as the document says.
func TestDocument(t *testing.T) {
	source, err := os.ReadFile("windowscale.go")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(document), "```go\n"+string(source)+"```\n") {
		t.Error("docs/experiments.md does not show windowscale.go as it is")
	}
	if lines := strings.Count(string(source), "\n"); lines >= 60 {
		t.Errorf("%d lines, the document says fewer than 60", lines)
	}
}
