package experiments

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// progress reports the current step and the remaining time: on a terminal in a line that is updated, else in a line for each step. Other
// lines pass through Write.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	now      func() time.Time

	steps, begun int
	standing     bool      // the current line on the terminal, to be overwritten
	began        time.Time // of the first step
}

func newProgress(out io.Writer, steps int) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out, terminal: isTerminal(out), now: time.Now, steps: steps}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// step reports that the next step begins.
func (p *progress) step(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun == 0 {
		p.began = p.now()
	}
	p.begun++
	line := fmt.Sprintf("%*d/%d  %s", len(fmt.Sprint(p.steps)), p.begun, p.steps, sentence(parts...)) + p.left()
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		p.standing = true
		return
	}
	fmt.Fprintln(p.out, line)
}

// left estimates the remaining time from the mean of the steps so far; before the third it would be a guess.
func (p *progress) left() string {
	done := p.begun - 1
	if done < 3 {
		return ""
	}
	each := p.now().Sub(p.began) / time.Duration(done)
	return "  about " + roughly(each*time.Duration(p.steps-done)) + " left"
}

// roughly rounds a duration as a person would.
func roughly(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// Write passes on lines of others.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(b)
}

// finish removes the updated line.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) clear() {
	if p.standing {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.standing = false
	}
}
