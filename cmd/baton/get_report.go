package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"baton/cmd/cli"
	"baton/resume"
)

// report shows a download in one of three ways: lines of JSON, a progress bar with lines above it, or lines only.
type report struct {
	lines io.Writer // nil: none
	all   bool      // also lines for success
	json  *json.Encoder
	draw  *mpb.Progress
	bar   *mpb.Bar
	last  time.Time // when progress was last reported
}

func newReport(e cli.Env, o *getOptions, toOutput bool) *report {
	r := &report{all: o.verbose}
	terminal := isTerminal(e.Err)
	switch {
	case o.json:
		out := e.Out
		if toOutput {
			out = e.Err
		}
		r.json = json.NewEncoder(out)
		r.json.SetEscapeHTML(false)
		return r
	case o.silent:
		return r
	case terminal || o.verbose || o.progress:
		r.lines = e.Err
	}
	if terminal || o.progress {
		r.draw = mpb.New(mpb.WithOutput(e.Err), mpb.WithAutoRefresh(), mpb.WithWidth(64), mpb.WithRefreshRate(200*time.Millisecond))
		r.lines = r.draw
	}
	return r
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// event is called by one goroutine at a time.
func (r *report) event(e resume.Event) {
	if r.json != nil {
		r.encode(e)
		return
	}
	if r.lines == nil {
		return
	}
	switch e := e.(type) {
	case resume.Progress:
		r.progress(e)
	case resume.Answered:
		if r.all || e.Offset > 0 && e.Lost > 0 {
			r.print("%s answers from byte %d on%s%s", server(e.Server, e.Name), e.Offset, lane(e.Lane), lost(e.Lost))
		}
	case resume.Broke:
		r.print("%s: %s, at byte %d%s", server(e.Server, ""), e.Why, e.Offset, lane(e.Lane))
	case resume.Waiting:
		if r.all || e.For >= time.Second {
			r.print("next try in %s: %s", e.For.Round(10*time.Millisecond), e.URL)
		}
	case resume.Restarted:
		r.print("starts over, %d bytes discarded: %s", e.Bytes, e.Why)
	case resume.Width:
		if r.all {
			r.print("%d connections, average life %s", e.Lanes, e.Life.Round(10*time.Millisecond))
		}
	}
}

func (r *report) print(format string, args ...any) { fmt.Fprintf(r.lines, format+"\n", args...) }

func server(address, name string) string {
	switch {
	case address == "":
		return "no server"
	case name != "":
		return address + " (" + name + ")"
	}
	return address
}

func lane(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", connection %d", n)
}

func lost(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", %s after the break", d.Round(time.Millisecond))
}

// progress draws the bar: rate and remaining time are averages of the last few seconds.
func (r *report) progress(e resume.Progress) {
	now := time.Now()
	if r.draw == nil || now.Sub(r.last) < 50*time.Millisecond && e.Offset != e.End {
		return
	}
	at, total := e.Offset-e.From, e.End-e.From
	if e.End < 0 {
		total = 0 // not drawn
	}
	if r.bar == nil {
		r.last = now
		r.bar = r.draw.AddBar(total,
			mpb.PrependDecorators(decor.Counters(decor.SizeB1024(0), "% .1f / % .1f"), decor.Percentage(decor.WCSyncSpace)),
			mpb.AppendDecorators(decor.EwmaSpeed(decor.SizeB1024(0), "% .1f", 30), decor.Name(" "), decor.EwmaETA(decor.ET_STYLE_GO, 30)))
		r.bar.SetRefill(at)
		r.bar.SetCurrent(at)
		return
	}
	r.bar.SetTotal(total, false)
	r.bar.EwmaSetCurrent(at, now.Sub(r.last))
	r.last = now
}

// encode writes an event as a line with its name.
func (r *report) encode(e resume.Event) {
	name := ""
	switch e := e.(type) {
	case resume.Progress:
		if time.Since(r.last) < time.Second && e.Offset != e.End {
			return
		}
		r.last, name = time.Now(), "progress"
	case resume.Answered:
		name = "answered"
	case resume.Broke:
		name = "broke"
	case resume.Waiting:
		name = "waiting"
	case resume.Restarted:
		name = "restarted"
	case resume.Width:
		name = "width"
	}
	r.write(name, e)
}

func (r *report) write(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(b, &fields) != nil {
		return
	}
	fields["event"], _ = json.Marshal(name)
	fields["time"], _ = json.Marshal(time.Now().UTC())
	_ = r.json.Encode(fields) // nobody reads it: the download continues
}

// close removes the bar, and prints the cost of the download.
func (r *report) close(result resume.Result, err error) {
	if r.bar != nil {
		r.bar.SetTotal(-1, err == nil)
		if err != nil {
			r.bar.Abort(false)
		}
		r.draw.Wait()
	} else if r.draw != nil {
		r.draw.Wait()
	}
	a := result.Account
	if r.json != nil {
		end := struct {
			resume.Account
			Error  string `json:"error,omitempty"`
			Kind   string `json:"kind,omitempty"`
			Offset int64  `json:"offset"`
		}{a, "", "", result.Have.Offset}
		if err != nil {
			end.Error = err.Error()
		}
		r.write("end", end)
		return
	}
	if r.all && r.lines != nil && r.draw == nil {
		r.print("%d bytes in %d requests of %d servers; %d breaks, %d restarts, %d bytes wasted, %s lost", a.Bytes, a.Requests, len(a.Servers),
			a.Breaks, a.Restarts, a.Wasted, a.Lost.Round(time.Millisecond))
	}
}
