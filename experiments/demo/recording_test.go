package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The width of the recording, which packaging/recording asks asciinema for.
const recordedColumns = 100

// example is a report as a run makes it on which every check holds.
func example() *Report {
	d := &demo{report: &Report{
		Linux: "6.18", Processors: 2, Servers: []string{"nginx/1.22.1"}, Topology: drawing(), Config: routerConfig("/tmp/baton-lab/demo", "/tmp/baton-lab/demo/bpf", "eth0"),
	}}
	r := d.report
	for _, name := range []string{"blog.example.net", "shop.example.net"} {
		r.https(Secure{URL: "https://" + name + secureFile, Surrogate: fmt.Sprintf("s%d", secureSites[name]), Version: "2", Handshake: 1, Total: 1, Client: clientAddress}, name)
	}
	r.http3(Secure{URL: "https://" + http3Site + secureFile, Surrogate: "s2", Version: "3", Total: time.Millisecond, Client: clientAddress}, true)
	for _, q := range requests {
		surrogates := map[string][]string{"video": {"s1", "s2"}, "default": {"s3"}}[q.pool]
		row := Row{Path: q.path, URL: q.url(), Pool: q.pool, Decides: q.decides, Size: q.size()}
		for _, way := range []string{viaDirect, handoff, viaRedirect, viaHAProxy} {
			row.Cells = append(row.Cells, Cell{Way: way, Surrogates: surrogates, Requests: 1, Hashed: 1, Bytes: q.size(), FirstByte: time.Millisecond, Total: time.Millisecond})
		}
		if q.decides == byRouter {
			row.Cells[1].Upcalls = 1
		}
		r.Rows = append(r.Rows, row)
		d.checkRow(q, row)
	}
	r.keepAlive(Connection{Paths: []string{"/video/1m", "/128", "/video/1m", "/128"}, Surrogates: []string{"s1", "s3", "s2", "s3"}, Opened: 1})
	for _, row := range r.Rows {
		d.checkKernel(row)
	}
	r.kernel(Kernel{Connections: 61, Handoffs: 61}, true)
	d.checkWindows([]uint64{0}, []uint64{0})
	return r
}

var (
	varies = []struct {
		this *regexp.Regexp
		with string
	}{
		{regexp.MustCompile(`nginx/[\d.]+`), "nginx"},
		{regexp.MustCompile(`\bs\d\b`), "s#"}, // whose turn it is
		{regexp.MustCompile(`-|\d[\d.]*( ?(ms|s)\b)?`), "#"},
		{regexp.MustCompile(` +`), " "},
		{regexp.MustCompile(` +(\n|$)`), "$1"},
	}
	escape = regexp.MustCompile("\x1b\\[[?\\d]*[a-z]")
)

// stable is what of a report is the same in each run.
func stable(text string) string {
	for _, v := range varies {
		text = v.this.ReplaceAllString(text, v.with)
	}
	return text
}

// recorded is the text of docs/demo.cast.
func recorded(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/demo.cast")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n"))[1:] {
		var (
			at         float64
			kind, what string
		)
		if err := json.Unmarshal(line, &[]any{&at, &kind, &what}); err != nil {
			t.Fatalf("docs/demo.cast: %v: %s", err, line)
		}
		text.WriteString(what)
	}
	return escape.ReplaceAllString(strings.ReplaceAll(text.String(), "\r\n", "\n"), "")
}

// TestRecordingIsOfThisProgram: docs/demo.cast has the report that the program prints, but for numbers.
func TestRecordingIsOfThisProgram(t *testing.T) {
	r := example()
	if r.Failed() > 0 {
		t.Fatalf("the example has checks that fail: %+v", r.Checks)
	}
	var report strings.Builder
	r.Text(&report)
	text := recorded(t)
	start := strings.Index(text, "\nLinux ")
	if start < 0 {
		t.Fatalf("docs/demo.cast has no report:\n%s", text)
	}
	if diff := cmp.Diff(stable(strings.TrimSuffix(report.String(), "\n")), stable(text[start:])); diff != "" {
		t.Errorf("docs/demo.cast is not what the demo prints (make recording makes it again; -program +recording):\n%s", diff)
	}
	for line := range strings.Lines(report.String() + text) {
		if line = strings.TrimRight(line, " \n"); utf8.RuneCountInString(line) > recordedColumns {
			t.Errorf("a line of the report is wider than the recording's %d columns: %s", recordedColumns, line)
		}
	}
}

// TestRecordingHasTheProgress: each line about what the demo does is one of the program's, and each of those is there.
func TestRecordingHasTheProgress(t *testing.T) {
	var want []string
	for _, file := range []string{"demo.go", "secure.go", "measure.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`d\.say\("([^"]+)"`).FindAllSubmatch(source, -1) {
			want = append(want, string(m[1]))
		}
	}
	progress, _, _ := strings.Cut(recorded(t), "\n\nLinux ")
	lines := strings.Split(progress, "\n")[1:] // the first is the command
	seen := make(map[string]bool)
	for _, line := range lines {
		known := false
		for _, format := range want {
			if regexp.MustCompile("^" + regexp.MustCompile(`%[sd]`).ReplaceAllString(regexp.QuoteMeta(format), ".+") + "$").MatchString(line) {
				known, seen[format] = true, true
			}
		}
		if !known {
			t.Errorf("docs/demo.cast has a line that the demo does not print: %q (make recording makes it again)", line)
		}
	}
	for _, format := range want {
		if !seen[format] {
			t.Errorf("docs/demo.cast lacks the line %q (make recording makes it again)", format)
		}
	}
	if len(want) < 5 {
		t.Errorf("found only %d lines in the source: %q", len(want), want)
	}
}
