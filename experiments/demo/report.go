package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run found. Times marshal as nanoseconds.
type Report struct {
	Linux      string     `json:"linux"`
	Processors int        `json:"processors"`
	Servers    []string   `json:"servers"` // programs with their versions
	Topology   string     `json:"-"`
	Config     string     `json:"config"` // router.yaml
	Rows       []Row      `json:"rows"`
	Connection Connection `json:"connection"`
	Secure     []Secure   `json:"secure"`
	Kernel     Kernel     `json:"kernel"`
	Checks     []Check    `json:"checks"`
	done       bool
}

// Row is one request.
type Row struct {
	Path    string `json:"path"`
	URL     string `json:"url"`
	Pool    string `json:"pool"`
	Decides string `json:"decides"` // kernel or router: who reads the request in mode handoff
	Size    int64  `json:"size"`    // of the file, bytes
	Cells   []Cell `json:"cells"`   // direct first
}

// Cell is one request by one way. Times are medians, and count from the start of curl's work.
type Cell struct {
	Way        string        `json:"way"`
	Surrogates []string      `json:"surrogates"` // that answered
	Requests   int           `json:"requests"`
	Hashed     int           `json:"hashed"` // of them, with the body compared by SHA-256
	Wrong      []string      `json:"wrong,omitempty"`
	Bytes      int64         `json:"bytes"`
	Connect    time.Duration `json:"connect_ns"`
	FirstByte  time.Duration `json:"first_byte_ns"`
	Total      time.Duration `json:"total_ns"`
	CPU        time.Duration `json:"cpu_ns"`               // of the way's process on the router, one request
	Translated uint64        `json:"translated,omitempty"` // packets, one request
	Upcalls    uint64        `json:"upcalls,omitempty"`    // packets, all requests

	FirstByteRatio float64 `json:"first_byte_ratio"` // to direct
	TotalRatio     float64 `json:"total_ratio"`
}

// Connection is what several requests on one client connection showed.
type Connection struct {
	Paths      []string `json:"paths"`
	Surrogates []string `json:"surrogates"` // that answered them
	Opened     int      `json:"opened"`     // connections that curl opened
}

// Kernel is what the router's kernel program did in the whole run.
type Kernel struct {
	Connections uint64 `json:"connections"` // that the clients opened
	Handoffs    uint64 `json:"handoffs"`
	Moved       uint64 `json:"moved"`      // requests that changed the surrogate within a connection
	Recycled    uint64 `json:"recycled"`   // server legs taken back
	Translated  uint64 `json:"translated"` // packets
	Upcalls     uint64 `json:"upcalls"`    // packets that user space saw
	Proxied     uint64 `json:"proxied"`
	Failed      uint64 `json:"failed"`
}

// Check is something that has to hold.
type Check struct {
	Text string `json:"text"`
	OK   bool   `json:"ok"`
}

func (r *Report) check(ok bool, format string, args ...any) {
	r.Checks = append(r.Checks, Check{fmt.Sprintf(format, args...), ok})
}

// Failed counts the checks that do not hold.
func (r *Report) Failed() int {
	n := 0
	for _, c := range r.Checks {
		if !c.OK {
			n++
		}
	}
	return n
}

// cell finds a way's cell; the zero Cell when there is none.
func (r Row) cell(way string) Cell {
	for _, c := range r.Cells {
		if c.Way == way {
			return c
		}
	}
	return Cell{}
}

func (c *Cell) compare(base Cell) {
	if base.FirstByte > 0 && base.Total > 0 {
		c.FirstByteRatio = float64(c.FirstByte) / float64(base.FirstByte)
		c.TotalRatio = float64(c.Total) / float64(base.Total)
	}
}

// Text writes the report for people.
func (r *Report) Text(out io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(out, format, args...) }
	p("\nLinux %s, %d processors; surrogates %s, unmodified\n\n%s", r.Linux, r.Processors, r.Servers[0], indent(r.Topology))
	p("\nrouter.yaml\n\n%s", indent(r.Config))
	p("\nhttp://%s at one address, %s, mode handoff; medians of curl's times\n\n", site, handoffVIP)
	r.handoffs(out)
	p("\nOne connection, both pools: ")
	for i, s := range r.Connection.Surrogates {
		p("%s from %s%s", r.Connection.Paths[i], s, map[bool]string{true: "\n", false: ", "}[i == len(r.Connection.Surrogates)-1])
	}
	p("\nHTTPS and HTTP/3 at the same address, by the name in the client's hello; surrogates have the keys\n\n")
	r.secure(out)
	p("\nThe same requests in four ways: median and × direct; processor time of the router's process\n\n")
	r.ways(out)
	k := r.Kernel
	p("\nIn the kernel: %d connections handed off (%d moved on in between), %d server legs taken back,\n", k.Handoffs, k.Moved, k.Recycled)
	p("%d packets translated there (up to 64 KiB each), %d seen by user space, %d connections proxied\n\n", k.Translated, k.Upcalls, k.Proxied)
	for _, c := range r.Checks {
		p("%s  %s\n", map[bool]string{true: "ok    ", false: "FAILED"}[c.OK], c.Text)
	}
	if n := r.Failed(); n > 0 {
		p("\n%d of %d checks failed\n", n, len(r.Checks))
	} else {
		p("\nall %d checks hold\n", len(r.Checks))
	}
}

func (r *Report) handoffs(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  REQUEST\tSURROGATE\tREAD BY\tCONNECT\tFIRST BYTE\tTOTAL\tBYTES\tPACKETS\tSAME BYTES\t")
	for _, row := range r.Rows {
		c := row.cell(handoff)
		same := "yes"
		if len(c.Wrong) > 0 {
			same = "NO: " + c.Wrong[0]
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t\n", row.Path, strings.Join(c.Surrogates, " "), row.Decides,
			timeText(c.Connect), timeText(c.FirstByte), timeText(c.Total), c.Bytes, c.Translated, same)
	}
	w.Flush()
}

func (r *Report) secure(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  URL\tSURROGATE\tHTTP\tEND OF HANDSHAKE\tTOTAL\tCLIENT IN ITS LOG\t")
	for _, s := range r.Secure {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", s.URL, s.Surrogate, s.Version, dash(s.Handshake), timeText(s.Total), s.Client)
	}
	w.Flush()
}

func dash(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return timeText(d)
}

// ways writes a block of lines for each request, with a column for each way.
func (r *Report) ways(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for i, row := range r.Rows {
		if i == 0 {
			fmt.Fprint(w, "  REQUEST\t\t")
			for _, c := range row.Cells {
				fmt.Fprintf(w, "%s\t\t", strings.ToUpper(c.Way))
			}
			fmt.Fprintln(w)
		}
		line := func(request, of string, text func(Cell) string) {
			fmt.Fprintf(w, "  %s\t%s\t", request, of)
			for _, c := range row.Cells {
				fmt.Fprint(w, text(c))
			}
			fmt.Fprintln(w)
		}
		line(row.Path, "first byte", func(c Cell) string { return fmt.Sprintf("%s\t%.2f\t", timeText(c.FirstByte), c.FirstByteRatio) })
		line("", "total", func(c Cell) string { return fmt.Sprintf("%s\t%.2f\t", timeText(c.Total), c.TotalRatio) })
		if row.Size >= leastForCPU {
			line("", "processor", func(c Cell) string {
				if c.Way == viaDirect {
					return "-\t\t"
				}
				return timeText(c.CPU) + "\t\t"
			})
		}
	}
}

// leastForCPU is the smallest download, in bytes, of which processor time in ticks of 10 ms says something.
const leastForCPU = 100 << 20

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

func timeText(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}} {
		if n >= u.size {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
