package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/experiments/experimentstest"
	"baton/lab"
	"baton/lab/peers"
)

// TestRun is the demo, briefly: every check of it must hold.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	var commands []Command
	o := Options{Program: experimentstest.Program(t), Progress: t.Output(), Runs: 2, Largest: 100 << 20}
	o.Keep = func(r *Report, c []Command) {
		commands = c
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", c[0].Line).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(peers.Header)) {
			t.Errorf("%s: %v\n%s", c[0].Line, err, out)
		}
	}
	r, err := Run(t.Context(), o)
	if r == nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("check fails: %s", c.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if len(commands) == 0 {
		t.Error("Keep was not called")
	}
	if got, want := len(r.Rows), 4; got != want {
		t.Fatalf("%d rows, want %d", got, want)
	}
	for _, row := range r.Rows {
		for _, c := range row.Cells {
			if c.Total <= 0 || c.FirstByte <= 0 || c.TotalRatio <= 0 || c.Requests != 3 || c.Hashed == 0 {
				t.Errorf("%s: %+v", row.Path, c)
			}
		}
		if c := row.cell(handoff); c.Translated == 0 {
			t.Errorf("%s: no packets were translated", row.Path)
		}
	}
	var text strings.Builder
	r.Text(&text)
	for _, want := range []string{"s1 s2", "mode: handoff", "checks hold", "haproxy"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, text.String())
		}
	}
	b, err := json.Marshal(r)
	var back Report
	if err != nil || json.Unmarshal(b, &back) != nil {
		t.Fatalf("JSON: %v", err)
	}
	if diff := cmp.Diff(r.Rows, back.Rows); diff != "" {
		t.Errorf("rows in JSON (-want +got):\n%s", diff)
	}
}

// TestRunIsInterrupted ends a run in the middle: the error says so, and the lab's own check finds nothing left.
func TestRunIsInterrupted(t *testing.T) {
	lab.NeedRoot(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &watcher{when: "times each", do: func() { cancel(cause) }}
	r, err := Run(ctx, Options{Program: experimentstest.Program(t), Progress: out, Largest: 128})
	if !errors.Is(err, cause) || r != nil {
		t.Errorf("report %v, error %v, want %v\n%s", r, err, cause, out.text.String())
	}
	if err != nil && strings.Contains(err.Error(), "leak") || strings.Contains(out.text.String(), "--- log of") {
		t.Errorf("%v\n%s", err, out.text.String())
	}
}

// watcher calls do when what is written to it contains when.
type watcher struct {
	when string
	do   func()
	text strings.Builder
}

func (w *watcher) Write(b []byte) (int, error) {
	w.text.Write(b)
	if bytes.Contains(b, []byte(w.when)) {
		w.do()
	}
	return len(b), nil
}

// TestRouterThatDoesNotStart: the run ends with the reason and the router's words.
func TestRouterThatDoesNotStart(t *testing.T) {
	lab.NeedRoot(t)
	var out bytes.Buffer
	started := time.Now()
	_, err := Run(t.Context(), Options{Program: "/bin/false", Progress: &out, Largest: 128})
	if err == nil || !strings.Contains(err.Error(), "the router has ended") {
		t.Errorf("error %v, want that the router has ended\n%s", err, out.String())
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("it took %v to see that", took)
	}
}

func transfer(surrogate string, total time.Duration) run {
	return run{Transfer: peers.Transfer{Status: 200, Surrogate: surrogate, Bytes: 128, FirstByte: total / 2, Total: total}, hashed: true}
}

func TestCounterOfTCP(t *testing.T) {
	const text = "TcpExt: SyncookiesSent BeyondWindow PFMemallocDrop\nTcpExt: 1 23 4\nIpExt: BeyondWindow\nIpExt: 99\n"
	for name, want := range map[string]struct {
		n       uint64
		counted bool
	}{"BeyondWindow": {23, true}, "PFMemallocDrop": {4, true}, "Missing": {}} {
		if n, counted, err := tcpExt(text, name); n != want.n || counted != want.counted || err != nil {
			t.Errorf("%s = %d, %v, %v, want %+v", name, n, counted, err, want)
		}
	}
	d := &demo{report: &Report{}}
	d.checkWindows(nil, nil) // a kernel that does not count
	d.checkWindows([]uint64{1, 2}, []uint64{1, 2})
	d.checkWindows([]uint64{1, 2}, []uint64{1, 3})
	if len(d.report.Checks) != 2 || d.report.Failed() != 1 {
		t.Errorf("checks %+v, want one that holds and one that fails", d.report.Checks)
	}
}

func TestNewCell(t *testing.T) {
	first := transfer("s2", time.Hour)
	first.first = true
	first.kernel = counts{"upcall": 1, "to_client": 99}
	second := transfer("s1", 4*time.Millisecond)
	second.kernel = counts{"upcall": 1, "to_client": 2, "handoff": 1}
	bad := transfer("s1", 2*time.Millisecond)
	bad.wrong, bad.hashed = "status 500", false
	got := newCell("x", []run{first, second, bad})
	want := Cell{
		Way: "x", Surrogates: []string{"s1", "s2"}, Requests: 3, Hashed: 2, Wrong: []string{"status 500"}, Bytes: 128,
		FirstByte: 1500 * time.Microsecond, Total: 3 * time.Millisecond, Translated: 1, Upcalls: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("newCell (-want +got):\n%s", diff)
	}
}

// TestChecksFail: what the demo is there to find is found.
func TestChecksFail(t *testing.T) {
	good := func() Row {
		return Row{Path: "/video/1m", Pool: "video", Decides: byKernel, Size: 1 << 30, Cells: []Cell{
			{Way: viaDirect, Surrogates: []string{"s1", "s2"}, Requests: 2, Hashed: 1},
			{Way: handoff, Surrogates: []string{"s2"}, Requests: 2, Hashed: 1},
		}}
	}
	tests := []struct {
		name   string
		change func(r *Row)
		failed int
	}{
		{"nothing", func(*Row) {}, 0},
		{"wrong body", func(r *Row) { r.Cells[1].Wrong = []string{"the body differs from the file"} }, 1},
		{"surrogate of another pool", func(r *Row) { r.Cells[1].Surrogates = []string{"s1", "s3"} }, 1},
		{"no surrogate named", func(r *Row) { r.Cells[1].Surrogates = []string{""} }, 1},
		{"nothing hashed", func(r *Row) { r.Cells[1].Hashed = 0 }, 1},
		{"bytes through user space", func(r *Row) { r.Cells[1].Upcalls = 1 }, 1},
		{"no upcalls", func(r *Row) { r.Decides = byRouter }, 1},
		{"busy router", func(r *Row) { r.Cells[1].CPU = time.Second }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &demo{report: &Report{}}
			row := good()
			tt.change(&row)
			d.checkRow(request{path: row.Path, pool: row.Pool, file: "/1m"}, row)
			d.checkKernel(row)
			if got := d.report.Failed(); got != tt.failed {
				t.Errorf("%d checks failed, want %d: %+v", got, tt.failed, d.report.Checks)
			}
		})
	}
}
