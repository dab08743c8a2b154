package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"

	"baton/api"
	"baton/cmd/cli"
)

// served has a daemon answer at a control socket.
func served(t *testing.T, name string, p api.Part) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	l, err := api.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, l, api.Backend{Part: p}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}

// busyRouter has 1000 more handoffs each time that it is asked for its status, of many surrogates.
func busyRouter(surrogates int) api.RouterBackend {
	var asked atomic.Uint64
	return api.RouterBackend{Status: func(context.Context) (api.RouterStatus, error) {
		n := asked.Add(1)
		s := api.RouterStatus{
			Process:  api.Process{Part: "router", PID: 42, Started: time.Now().Add(-time.Minute), Version: "v1"},
			Sessions: 77, Packets: map[string]uint64{"to_client": 5000 * n, "drop_window": 3},
		}
		pool := api.RouterPool{Name: "video"}
		for i := range surrogates {
			pool.Surrogates = append(pool.Surrogates, api.RouterSurrogate{
				Name: fmt.Sprintf("s%02d", i), Address: netip.MustParseAddrPort("192.0.2.7:80"), Up: i != 1, Phase: "down", Sessions: i, Handoffs: 1000 * n, BytesFrom: uint64(i) * n,
			})
		}
		s.Pools = []api.RouterPool{pool}
		return s, nil
	}}
}

// viewed is a terminal of 80 columns and 24 lines, as a person sees it. It knows the sequences that top uses.
type viewed struct {
	sync.Mutex
	lines       [24][]rune
	row, column int
	other       bool // screen
	rest        string
}

func (w *viewed) Write(text []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	s := w.rest + string(text)
	for w.rest = ""; s != ""; {
		if s[0] == 0x1b {
			end := strings.IndexFunc(s[1:], func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
			if end < 0 {
				w.rest = s
				return len(text), nil
			}
			w.sequence(s[1 : end+2])
			s = s[end+2:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch {
		case r == '\r':
			w.column = 0
		case r == '\n':
			if w.row++; w.row >= len(w.lines) {
				w.row = len(w.lines) - 1 // it would scroll
				copy(w.lines[:], w.lines[1:])
				w.lines[w.row] = nil
			}
		default:
			line := w.lines[w.row]
			for len(line) <= w.column {
				line = append(line, ' ')
			}
			line[w.column] = r
			w.lines[w.row] = line
			w.column++
		}
	}
	return len(text), nil
}

func (w *viewed) sequence(s string) {
	switch s {
	case "[H":
		w.row, w.column = 0, 0
	case "[K":
		w.lines[w.row] = w.lines[w.row][:min(w.column, len(w.lines[w.row]))]
	case "[?1049h":
		w.other = true
	case "[?1049l":
		w.other = false
	}
}

// text is what is seen.
func (w *viewed) text() string {
	w.Lock()
	defer w.Unlock()
	var all []string
	for _, line := range w.lines {
		all = append(all, strings.TrimRight(string(line), " "))
	}
	return strings.Join(all, "\n")
}

// seen waits until the window shows what is wanted.
func (w *viewed) seen(t *testing.T, what string, is func(text string) bool) {
	t.Helper()
	for end := time.Now().Add(long); !is(w.text()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is not seen in\n%s", what, w.text())
		}
	}
}

// items are the names of the surrogates that are seen, in their order.
func items(text string) (names []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "router surrogate video/"); ok {
			name, _, _ := strings.Cut(rest, " ")
			names = append(names, name)
		}
	}
	return names
}

// TestTop types at a terminal and looks at it.
func TestTop(t *testing.T) {
	router := served(t, "router.sock", busyRouter(30))
	purge := served(t, "purge.sock", api.PurgeBackend{Status: func(context.Context) (api.PurgeStatus, error) {
		return api.PurgeStatus{Process: api.Process{Part: "purge", PID: 43, Started: time.Now()}, Waiting: api.Usage{Used: 5, Limit: 10}}, nil
	}})
	c := command(t.Context(), t.TempDir(), "top", "--control", router, "--control", purge)
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	w, ended := new(viewed), make(chan error, 1)
	go func() {
		var b [4096]byte
		for {
			n, err := tty.Read(b[:])
			_, _ = w.Write(b[:n])
			if err != nil {
				ended <- c.Wait()
				return
			}
		}
	}()
	key := func(k string) {
		t.Helper()
		if _, err := tty.WriteString(k); err != nil {
			t.Fatal(err)
		}
	}
	w.seen(t, "the first screen", func(text string) bool {
		return strings.HasPrefix(text, "baton top  ") && strings.Contains(text, "77 sessions") && strings.Contains(text, "5 marked") && strings.HasSuffix(text, "q: quit")
	})
	w.seen(t, "a rate", func(text string) bool { return strings.Contains(text, "k handoffs/s") })
	text := w.text()
	for _, want := range []string{"LIVE*", "router to_client", "... and "} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	if names := items(text); len(names) < 5 || names[0] != "s29" || names[1] != "s28" {
		t.Errorf("by live sessions: %v", names)
	}
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("%q is longer than a line", line)
		}
	}
	key("n")
	w.seen(t, "the order of names", func(text string) bool {
		names := items(text)
		return strings.Contains(text, "ITEM*") && len(names) > 5 && names[0] == "s00" && slices.IsSorted(names)
	})
	key(" ")
	w.seen(t, "that it is paused", func(text string) bool { return strings.Contains(text, "paused") })
	still := w.text()
	time.Sleep(1500 * time.Millisecond)
	if w.text() != still {
		t.Errorf("it is paused, and has changed:\n%s\n%s", still, w.text())
	}
	if !w.other {
		t.Error("it is not on the other screen")
	}
	key("q")
	if err := <-ended; err != nil || w.other {
		t.Errorf("%v, on the other screen: %v", err, w.other)
	}
}

// TestTopOfSmallTerminals: whatever the size, the screen has as many lines and no longer ones.
func TestTopOfSmallTerminals(t *testing.T) {
	sampler := topSampler{sockets: func() []string { return []string{served(t, "r.sock", busyRouter(9))} }, now: time.Now}
	s := sampler.sample(t.Context())
	for height := range 60 {
		for _, width := range []int{1, 20, 80, 200} {
			lines := topScreen(&s, "live", false, width, height)
			if len(lines) > max(height, 1) {
				t.Errorf("%dx%d: %d lines", width, height, len(lines))
			}
			for _, line := range lines {
				if len([]rune(line)) > width {
					t.Errorf("%dx%d: %q", width, height, line)
				}
			}
		}
	}
}

// TestTopOnce: scripts get numbers, and the daemon that does not answer makes exit status 1.
func TestTopOnce(t *testing.T) {
	router := served(t, "router.sock", busyRouter(2))
	status, out, errs := said(t, "top", "--control", router, "-o", "json")
	var s topSample
	if err := json.Unmarshal([]byte(out), &s); err != nil || status != 0 || errs != "" {
		t.Fatalf("%v: status %d, %s%s", err, status, out, errs)
	}
	if len(s.Parts) != 1 || s.Parts[0].Live != 77 || s.Parts[0].Lives != "sessions" || s.Parts[0].Rate < 500 || len(s.Items) != 2 ||
		s.Items[0].Name != "video/s01" || s.Items[0].State != "down" || s.Items[1].State != "up" || s.Items[1].Rate < 250 || s.Verdicts[0].Verdict != "to_client" {
		t.Errorf("%s", out)
	}
	if status, out, errs = said(t, "top", "--once", "--sort", "name", "--control", router); status != 0 || !strings.Contains(out, "router surrogate video/s00") || errs != "" {
		t.Errorf("status %d, %s%s", status, out, errs)
	}
	none := filepath.Join(t.TempDir(), "none.sock")
	if status, out, errs = said(t, "top", "--once", "--control", none, "--control", router); status != cli.Failure || !strings.Contains(out, "77 sessions") || !strings.Contains(errs, none) {
		t.Errorf("status %d, %s%s", status, out, errs)
	}
	for args, want := range map[string]string{
		"top": "baton: the output is not a terminal: baton top --once prints once, -o json for programs\n", "top --sort lvie": "did you mean live?",
	} {
		if status, _, errs := said(t, strings.Fields(args)...); status != cli.Usage || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s", args, status, errs)
		}
	}
}

// TestTopRates: rates are of the time between two samples; a daemon that has restarted begins anew.
func TestTopRates(t *testing.T) {
	at := time.Unix(1700000000, 0)
	of := func(at time.Time, total, bytes uint64) topSample {
		return topSample{
			At: at, Parts: []topPart{{Control: "c", Total: total}}, Items: []topItem{{Control: "c", Kind: "link", Name: "l", Total: total, Bytes: bytes}},
			Verdicts: []topVerdict{{Control: "c", Verdict: "v", Total: total}},
		}
	}
	before := of(at, 100, 1000)
	for _, tt := range []struct {
		total, bytes uint64
		rate         float64
	}{{300, 1400, 100}, {100, 1000, 0}, {50, 10, 0}} {
		s := of(at.Add(2*time.Second), tt.total, tt.bytes)
		s.rates(&before)
		if s.Parts[0].Rate != tt.rate || s.Items[0].Rate != tt.rate || s.Verdicts[0].Rate != tt.rate || s.Items[0].ByteRate != 2*tt.rate {
			t.Errorf("%s: %+v", strconv.FormatUint(tt.total, 10), s)
		}
	}
}
