package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"baton/lab/peers"
)

// measure makes a request by every way, once with its body hashed and then several times for its times. The ways take
// turns, so that what changes on the machine meets all of them.
func (d *demo) measure(ctx context.Context, r request) error {
	d.say("%s, %s, by %d ways, %d times each", r.path, sizeText(r.size()), len(d.ways), r.runs)
	row := Row{Path: r.path, URL: r.url(), Pool: r.pool, Decides: r.decides, Size: r.size()}
	all := make([][]run, len(d.ways))
	for n := -1; n < r.runs; n++ {
		for i := range d.ways {
			i = (i + n + 1) % len(d.ways)
			got, err := d.once(ctx, d.ways[i], r, n)
			if err != nil {
				return fmt.Errorf("%s: %w", d.ways[i].name, err)
			}
			all[i] = append(all[i], got)
		}
	}
	for i, w := range d.ways {
		row.Cells = append(row.Cells, newCell(w.name, all[i]))
	}
	for i := range row.Cells {
		row.Cells[i].compare(row.Cells[0])
	}
	d.report.Rows = append(d.report.Rows, row)
	d.checkRow(r, row)
	return nil
}

// run is what one request showed.
type run struct {
	peers.Transfer
	first  bool          // not timed
	hashed bool          // the body was compared with the file
	wrong  string        // what is wrong with the answer
	cpu    time.Duration // of the way's process on the router
	kernel counts        // what the kernel program did for it
}

func (d *demo) once(ctx context.Context, w way, r request, n int) (got run, err error) {
	got.first = n < 0
	got.hashed = got.first || r.size() <= hashedEachTime
	before, err := d.usage(ctx, w)
	if err != nil {
		return got, err
	}
	var sum string
	got.Transfer, sum, err = fetch(ctx, d.t.client, w, r, n+1, got.hashed)
	if err != nil {
		return got, err
	}
	after, err := d.usage(ctx, w)
	if err != nil {
		return got, err
	}
	got.cpu, got.kernel = after.cpu-before.cpu, after.kernel.since(before.kernel)
	switch {
	case got.Status != 200:
		got.wrong = fmt.Sprintf("status %d", got.Status)
	case got.Bytes != r.size():
		got.wrong = fmt.Sprintf("%d bytes, the file has %d", got.Bytes, r.size())
	case got.hashed && sum != d.sums[r.file]:
		got.wrong = "the body differs from the file"
	case w.follow != (got.Redirects > 0):
		got.wrong = fmt.Sprintf("%d redirects", got.Redirects)
	}
	return got, nil
}

// newCell takes the medians of the runs but the first.
func newCell(name string, runs []run) Cell {
	c := Cell{Way: name}
	var (
		connect, first, total, cpu []time.Duration
		translated                 []uint64
	)
	for _, r := range runs {
		if !slices.Contains(c.Surrogates, r.Surrogate) {
			c.Surrogates = append(c.Surrogates, r.Surrogate)
		}
		if r.hashed {
			c.Hashed++
		}
		if r.wrong != "" {
			c.Wrong = append(c.Wrong, r.wrong)
		}
		c.Requests++
		c.Bytes = r.Bytes
		c.Upcalls += r.kernel["upcall"]
		if r.first {
			continue
		}
		connect, first, total = append(connect, r.Connect), append(first, r.FirstByte), append(total, r.Total)
		cpu = append(cpu, r.cpu)
		translated = append(translated, r.kernel.translated())
	}
	slices.Sort(c.Surrogates)
	c.Connect, c.FirstByte, c.Total, c.CPU = median(connect), median(first), median(total), median(cpu)
	c.Translated = median(translated)
	return c
}

func median[N ~int64 | ~uint64](d []N) N {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return (d[(len(d)-1)/2] + d[len(d)/2]) / 2
}

func (d *demo) checkRow(r request, row Row) {
	hashed, requests, wrong := 0, 0, ""
	for _, c := range row.Cells {
		hashed += c.Hashed
		requests += c.Requests
		switch {
		case wrong != "":
		case len(c.Wrong) > 0:
			wrong = c.Way + ": " + c.Wrong[0]
		case c.Hashed == 0:
			wrong = c.Way + ": no body was compared with the file"
		}
		if !inPool(r.pool, c.Surrogates) {
			d.report.check(false, "%s is answered by pool %s: %s: %v answered", r.path, r.pool, c.Way, c.Surrogates)
		}
	}
	if wrong != "" {
		d.report.check(false, "%s is answered right: %s", r.path, wrong)
		return
	}
	d.report.check(true, "%s: %d answers of %d bytes from pool %s; %d compared by SHA-256",
		r.path, requests, r.size(), r.pool, hashed)
}

// keepAlive makes requests for both pools on one client connection.
func (d *demo) keepAlive(ctx context.Context) error {
	d.say("one connection, requests for both pools")
	paths := []string{"/video/1m", "/128", "/video/1m", "/128"}
	answered, connections, err := oneConnection(ctx, d.t.client, paths)
	if err != nil {
		return err
	}
	d.report.keepAlive(Connection{Paths: paths, Surrogates: answered, Opened: connections})
	return nil
}

func (r *Report) keepAlive(c Connection) {
	r.Connection = c
	right := len(c.Surrogates) == len(c.Paths) && c.Opened == 1 && inPool("video", []string{c.Surrogates[0], c.Surrogates[2]}) &&
		inPool("default", []string{c.Surrogates[1], c.Surrogates[3]})
	r.check(right, "one client connection (%d opened), each request at a surrogate of its own pool: %v", c.Opened, c.Surrogates)
}
