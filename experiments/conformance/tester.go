package conformance

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/lab"
)

//go:embed launcher.py
var launcher []byte

// port is where the tester listens for its two switches, on the loopback of its host.
const port = "6653"

// tester is os-ken's tester at work.
type tester struct {
	*lab.Process
	suite    *Suite
	requests *os.File      // to its standard input
	verdicts *os.File      // from its descriptor 3
	decoder  *json.Decoder // of verdicts
	forget   string        // the control socket of the Open vSwitch that is to forget its cached flows before each case; empty: none
}

// said is a line of the launcher.
type said struct {
	Ready   bool    `json:"ready"`
	Case    int     `json:"case"`
	OK      bool    `json:"ok"`
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds"`
}

// startTester starts a tester on a host whose interface e1 leads to port 1 of the target.
func startTester(h *lab.Host, suite *Suite, unpatched bool) (t *tester, err error) {
	file := filepath.Join(h.Lab().Dir(), h.Name()+"-launcher.py")
	if err := os.WriteFile(file, launcher, 0o644); err != nil {
		return nil, fmt.Errorf("start the tester: %w", err)
	}
	t = &tester{suite: suite}
	var theirs [2]*os.File
	if theirs[0], t.requests, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("start the tester: %w", err)
	}
	defer theirs[0].Close()
	if t.verdicts, theirs[1], err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("start the tester: %w", err)
	}
	defer theirs[1].Close()
	t.decoder = json.NewDecoder(t.verdicts)
	args := []string{"-W", "ignore", file, "--interface", "e1", "--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", port}
	if unpatched {
		args = append(args, "--unpatched")
	}
	t.Process, err = h.Start(lab.Program{Path: suite.Python, Args: args, Name: "tester", Stdin: theirs[0], Files: []*os.File{theirs[1]}})
	return t, err
}

// close lets the tester end.
func (t *tester) close() {
	t.requests.Close()
	t.verdicts.Close()
}

// hear returns the next line of the launcher.
func (t *tester) hear(ctx context.Context, limit time.Duration) (said, error) {
	var s said
	if err := t.verdicts.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return s, err
	}
	stop := context.AfterFunc(ctx, func() { _ = t.verdicts.SetReadDeadline(time.Now()) })
	defer stop()
	err := t.decoder.Decode(&s)
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return s, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return s, fmt.Errorf("the tester says nothing for %v; its last words:\n%s", limit, t.lastWords())
	}
	return s, fmt.Errorf("the tester has ended; its last words:\n%s", t.lastWords())
}

func (t *tester) lastWords() string {
	lines := strings.Split(strings.TrimSpace(t.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// listens waits until switches can connect to the tester.
func (t *tester) listens(ctx context.Context) error {
	err := lab.Poll(30*time.Second, func() error {
		select {
		case <-t.Done():
			return nil
		default:
		}
		conn, err := t.Host().Dial(ctx, "tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	select {
	case <-t.Done():
		return fmt.Errorf("the tester has ended; its last words:\n%s", t.lastWords())
	default:
	}
	if err != nil {
		err = fmt.Errorf("the tester does not listen: %w; its last words:\n%s", err, t.lastWords())
	}
	return err
}

// joined waits until both switches have connected to the tester.
func (t *tester) joined(ctx context.Context) error {
	s, err := t.hear(ctx, 30*time.Second)
	if err == nil && !s.Ready {
		err = fmt.Errorf("the tester said %+v before it was ready", s)
	}
	return err
}

// caseLimit is how long a case may take, beside its load: each of its steps has three seconds.
const caseLimit = time.Minute

// try puts a case to the target.
func (t *tester) try(ctx context.Context, c Case) (said, error) {
	file := filepath.Join(t.suite.Dir, filepath.FromSlash(c.File)+".json")
	line, err := json.Marshal(map[string]any{"file": file, "cases": []int{c.Index}, "forget": t.forget})
	if err != nil {
		return said{}, err
	}
	if _, err := t.requests.Write(append(line, '\n')); err != nil {
		return said{}, fmt.Errorf("%v: the tester has ended; its last words:\n%s", c, t.lastWords())
	}
	s, err := t.hear(ctx, c.Load+caseLimit)
	if err == nil && s.Case != c.Index {
		err = fmt.Errorf("the tester speaks of case %d", s.Case)
	}
	if err != nil {
		return s, fmt.Errorf("%v: %w", c, err)
	}
	return s, nil
}
