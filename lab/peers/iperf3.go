package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/lab"
)

const iperf3Port = 5201

// Iperf3Server starts a server on iperf3's own port. It serves one client at a time.
func Iperf3Server(h *lab.Host) *Server {
	h.Lab().T().Helper()
	return server{
		host: h, name: "iperf3", program: "iperf3", port: iperf3Port, says: "Server listening on",
		args: func(string) []string { return []string{"-s", "-p", strconv.Itoa(iperf3Port), "--forceflush"} },
	}.start()
}

// Iperf3Options describe what an iperf3 client sends. The zero value is one TCP stream for a second.
type Iperf3Options struct {
	Time       time.Duration // rounded up to seconds; default: 1 s
	Bytes      int64         // in place of Time
	Streams    int           // default: 1
	Reverse    bool          // the server sends
	UDP        bool
	Rate       int64  // bits/s of each stream; default: TCP no limit, UDP 1 Mbit/s
	Congestion string // congestion control ("cubic", "bbr"); default: the kernel's
	Args       []string
}

// Flow is what an iperf3 client reports, of all streams together.
type Flow struct {
	Sent        int64         // bytes
	Received    int64         // bytes, by the receiver when it learned of the sender's end: some may have been in flight
	Time        time.Duration // of the receiver
	Rate        float64       // bits/s received
	Retransmits int           // of TCP segments
	Packets     int           // UDP datagrams sent
	Lost        int           // UDP datagrams that the receiver has missed
	Jitter      time.Duration // of UDP, as RFC 1889 has it
	JSON        string        // iperf3's whole report
}

// Iperf3 runs an iperf3 client against the server at an address. Over UDP it greets the server by a single datagram,
// and fails if that is lost.
func Iperf3(ctx context.Context, h *lab.Host, address string, o Iperf3Options) (Flow, error) {
	h.Lab().Need("iperf3")
	args := []string{"-J", "-c", address, "-p", strconv.Itoa(iperf3Port), "-P", strconv.Itoa(orDefault(o.Streams, 1))}
	if o.Bytes > 0 {
		args = append(args, "-n", strconv.FormatInt(o.Bytes, 10))
	} else {
		args = append(args, "-t", strconv.Itoa(max(int((o.Time+time.Second-1)/time.Second), 1)))
	}
	if o.Reverse {
		args = append(args, "-R")
	}
	if o.UDP {
		args = append(args, "-u")
	}
	if o.Rate > 0 {
		args = append(args, "-b", strconv.FormatInt(o.Rate, 10))
	}
	if o.Congestion != "" {
		args = append(args, "-C", o.Congestion)
	}
	args = append(args, o.Args...)
	out, failed := h.Exec(ctx, "iperf3", args...)
	f, err := readFlow(out)
	for end := time.Now().Add(busyFor); errors.Is(err, errBusy) && time.Now().Before(end); {
		time.Sleep(busyTick)
		out, failed = h.Exec(ctx, "iperf3", args...)
		f, err = readFlow(out)
	}
	if err != nil && failed != nil {
		return f, fmt.Errorf("iperf3: %w (%v)", err, failed)
	}
	if err == nil {
		err = failed
	}
	return f, err
}

// errBusy is what a server says that has not done with its last client, which may have ended before it.
var errBusy = errors.New("it says: the server is busy")

// busyWords are those of iperf3 3.12, of 3.18, and of a server that has closed its socket and opens it again for the
// next client.
var busyWords = []string{"the server is busy", "port may not be available", "Connection refused"}

const (
	busyFor  = 5 * time.Second
	busyTick = 20 * time.Millisecond
)

func readFlow(report string) (Flow, error) {
	type sum struct {
		Seconds     float64 `json:"seconds"`
		Bytes       int64   `json:"bytes"`
		Rate        float64 `json:"bits_per_second"`
		Retransmits int     `json:"retransmits"`
		Jitter      float64 `json:"jitter_ms"`
		Lost        int     `json:"lost_packets"`
		Packets     int     `json:"packets"`
	}
	var r struct {
		Error string `json:"error"`
		End   struct {
			Sent     sum `json:"sum_sent"`
			Received sum `json:"sum_received"`
			UDP      sum `json:"sum"`
		} `json:"end"`
	}
	f := Flow{JSON: report}
	if err := json.Unmarshal([]byte(report), &r); err != nil {
		return f, fmt.Errorf("read its report: %w: %q", err, report)
	}
	if slices.ContainsFunc(busyWords, func(words string) bool { return strings.Contains(r.Error, words) }) {
		return f, errBusy
	}
	if r.Error != "" {
		return f, fmt.Errorf("it says: %s", strings.TrimPrefix(r.Error, "error - "))
	}
	e := r.End
	f.Sent, f.Received, f.Rate, f.Time = e.Sent.Bytes, e.Received.Bytes, e.Received.Rate, seconds(e.Received.Seconds)
	f.Retransmits = e.Sent.Retransmits
	f.Packets, f.Lost, f.Jitter = e.UDP.Packets, e.UDP.Lost, seconds(e.UDP.Jitter/1000)
	return f, nil
}
