package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"baton/lab"
)

// Transfer is what curl measured of one request. Times count from the start of the command's work.
type Transfer struct {
	Status    int
	Surrogate string // value of Header
	Body      string // at most the last few MiB; empty with -o
	Bytes     int64  // of the body
	Connect   time.Duration
	FirstByte time.Duration
	Total     time.Duration
	Remote    string // address that answered, after redirects
	Redirects int
	Version   string // of HTTP: "1.1", "2"
	Connects  int    // connections that the last transfer needed
}

// Curl runs curl, quiet, with these arguments (the URL among them). The error of a failed transfer carries curl's
// message; what was measured until then is returned too.
func Curl(ctx context.Context, h *lab.Host, args ...string) (Transfer, error) {
	h.Lab().Need("curl")
	const out = "%{stderr}\n%{json}\n%header{" + Header + "}"
	p, err := h.Start(lab.Program{Path: "curl", Args: append([]string{"-q", "-sS", "-w", out}, args...), Unlogged: true})
	if err != nil {
		return Transfer{}, err
	}
	failed := wait(ctx, p)
	said := strings.Split(p.Stderr(), "\n")
	var m struct {
		Status    int     `json:"http_code"`
		Bytes     int64   `json:"size_download"`
		Connect   float64 `json:"time_connect"`
		FirstByte float64 `json:"time_starttransfer"`
		Total     float64 `json:"time_total"`
		Remote    string  `json:"remote_ip"`
		Redirects int     `json:"num_redirects"`
		Version   string  `json:"http_version"`
		Connects  int     `json:"num_connects"`
	}
	if len(said) < 2 {
		return Transfer{}, fmt.Errorf("curl: %w: %s", failed, p.Stderr())
	}
	if err := json.Unmarshal([]byte(said[len(said)-2]), &m); err != nil {
		return Transfer{}, fmt.Errorf("curl: read its report: %w: %s", err, p.Stderr())
	}
	t := Transfer{
		Status: m.Status, Surrogate: said[len(said)-1], Body: p.Stdout(), Bytes: m.Bytes, Connect: seconds(m.Connect),
		FirstByte: seconds(m.FirstByte), Total: seconds(m.Total), Remote: m.Remote, Redirects: m.Redirects,
		Version: m.Version, Connects: m.Connects,
	}
	if failed != nil {
		return t, fmt.Errorf("curl: %w: %s", failed, strings.TrimSpace(said[0]))
	}
	return t, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// wait returns the end of a client, and kills it when the context ends first.
func wait(ctx context.Context, p *lab.Process) error {
	err := p.Wait(ctx)
	if ctx.Err() != nil {
		_ = p.Kill()
	}
	return err
}

// Wget returns the body that wget fetches.
func Wget(ctx context.Context, h *lab.Host, args ...string) (string, error) {
	h.Lab().Need("wget")
	return h.Exec(ctx, "wget", append([]string{"--no-config", "-nv", "-O", "-", "--tries=1"}, args...)...)
}

// Chromium returns the DOM of a page after headless Chromium, with more options, has loaded it.
func Chromium(ctx context.Context, h *lab.Host, url string, more ...string) (string, error) {
	h.Lab().Need("chromium")
	profile, err := os.MkdirTemp(h.Lab().Dir(), "chromium-")
	if err != nil {
		return "", fmt.Errorf("chromium: %w", err)
	}
	// Root has no sandbox there; the rest keeps it from the network for anything but the page.
	return h.Exec(ctx, "chromium", append(more, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile,
		"--dump-dom", url)...)
}

// Bench is what ab or wrk reported.
type Bench struct {
	Requests int
	Failed   int // wrong, short or missing responses
	Rate     float64
	Output   string
}

// AB runs ab: n requests, c at a time, with keep-alive or a connection each.
func AB(ctx context.Context, h *lab.Host, n, c int, keepalive bool, url string) (Bench, error) {
	h.Lab().Need("ab")
	args := []string{"-q", "-n", strconv.Itoa(n), "-c", strconv.Itoa(c)}
	if keepalive {
		args = append(args, "-k")
	}
	out, err := h.Exec(ctx, "ab", append(args, url)...)
	if err != nil {
		return Bench{Output: out}, err
	}
	b := Bench{Output: out}
	for _, f := range []struct {
		label string
		to    *int
		must  bool
	}{
		{"Complete requests:", &b.Requests, true},
		{"Failed requests:", &b.Failed, true},
		{"Non-2xx responses:", new(int), false},
	} {
		got, err := number(out, f.label)
		if err != nil && f.must {
			return b, fmt.Errorf("ab: %w", err)
		}
		*f.to = int(got)
		if !f.must {
			b.Failed += int(got)
		}
	}
	b.Rate, err = number(out, "Requests per second:")
	return b, err
}

// Wrk runs wrk with one thread and c connections for a time.
func Wrk(ctx context.Context, h *lab.Host, c int, d time.Duration, url string) (Bench, error) {
	h.Lab().Need("wrk")
	out, err := h.Exec(ctx, "wrk", "-t1", "-c"+strconv.Itoa(c), fmt.Sprintf("-d%.0fs", max(d.Seconds(), 1)), url)
	if err != nil {
		return Bench{Output: out}, err
	}
	b := Bench{Output: out}
	if m := regexp.MustCompile(`(\d+) requests in`).FindStringSubmatch(out); m != nil {
		b.Requests, _ = strconv.Atoi(m[1])
	}
	if m := regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`).FindStringSubmatch(out); m != nil {
		b.Failed, _ = strconv.Atoi(m[1])
	}
	if m := regexp.MustCompile(`connect (\d+), read (\d+), write (\d+), timeout (\d+)`).FindStringSubmatch(out); m != nil {
		for _, f := range m[1:] {
			n, _ := strconv.Atoi(f)
			b.Failed += n
		}
	}
	b.Rate, err = number(out, "Requests/sec:")
	return b, err
}

// number finds the figure behind a label in a program's report.
func number(text, label string) (float64, error) {
	_, rest, found := strings.Cut(text, label)
	if fields := strings.Fields(rest); found && len(fields) > 0 {
		return strconv.ParseFloat(fields[0], 64)
	}
	return 0, fmt.Errorf("no %q in the report:\n%s", label, text)
}
