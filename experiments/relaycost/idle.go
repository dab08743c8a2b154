package relaycost

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"baton/lab"
)

// idleProgram is what this program is called as the clients of idle flows: a process for some of them, as each has files of its own.
const idleProgram = "idle-clients"

// ofOneProcess is how many idle clients share a process.
const ofOneProcess = 8000

func init() {
	if len(os.Args) == 3 && filepath.Base(os.Args[0]) == idleProgram {
		if err := beIdle(os.Args[1], os.Args[2]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// beIdle opens connections, each for a request, says how many have had an answer, and at a word on its standard input asks on each again
// and says the same.
func beIdle(to, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var open []net.Conn
	var failed error
	for range n {
		c, err := net.DialTimeout("tcp", to, requestTime)
		if err == nil {
			err = ask(c)
		}
		if err != nil {
			failed = err
			break // who cannot have one more has his measure
		}
		open = append(open, c)
	}
	fmt.Println(strings.TrimSpace(fmt.Sprintln("held", len(open), words(failed))))
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	held := 0
	failed = nil
	for _, c := range open {
		if err := ask(c); err != nil {
			failed = err
			continue
		}
		held++
	}
	fmt.Println(strings.TrimSpace(fmt.Sprintln("again", held, words(failed))))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// requestTime is how long an answer may take.
const requestTime = 5 * time.Second

func ask(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET /128 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, response.Body); err != nil || n != 128 || response.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s, %d bytes", response.Status, n))
	}
	return nil
}

// idleClients are clients that are idle.
type idleClients struct {
	processes []*lab.Process
	controls  []*os.File
}

// startIdle starts the clients and returns when all that can have their flow do. The error is of the start: too few flows are none.
func startIdle(h *lab.Host, to netip.AddrPort, n int) (c *idleClients, held int, why string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, "", fmt.Errorf("idle clients: %w", err)
	}
	path := filepath.Join(h.Lab().Dir(), idleProgram)
	if err := os.Symlink(self, path); err != nil && !os.IsExist(err) {
		return nil, 0, "", fmt.Errorf("idle clients: %w", err)
	}
	c = &idleClients{}
	for left := n; left > 0; left -= ofOneProcess {
		r, w, err := os.Pipe()
		if err != nil {
			return c, held, why, fmt.Errorf("idle clients: %w", err)
		}
		c.controls = append(c.controls, w)
		p, err := h.Start(lab.Program{Path: path, Args: []string{to.String(), strconv.Itoa(min(left, ofOneProcess))}, Stdin: r, Unlogged: true})
		if err != nil {
			r.Close()
			return c, held, why, err
		}
		c.processes = append(c.processes, p)
		got, reason, err := readReport(p, "held")
		r.Close()
		held += got
		if err != nil || reason != "" {
			return c, held, reason, err
		}
	}
	return c, held, "", nil
}

// again has the clients ask again on their flows.
func (c *idleClients) again() (held int, why string, err error) {
	for i, p := range c.processes {
		if _, err := c.controls[i].WriteString("again\n"); err != nil {
			return held, why, fmt.Errorf("idle clients: %w", err)
		}
		n, reason, err := readReport(p, "again")
		if err != nil {
			return held, why, err
		}
		if held += n; why == "" {
			why = reason
		}
	}
	return held, why, nil
}

// readReport waits for what a process says: a word, a number, and why it is not more.
func readReport(p *lab.Process, word string) (n int, why string, err error) {
	err = lab.Poll(5*time.Minute, func() error {
		for line := range strings.Lines(p.Stdout()) {
			if rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), word+" "); ok {
				count, reason, _ := strings.Cut(rest, " ")
				why = reason
				n, err = strconv.Atoi(count)
				return err
			}
		}
		select {
		case <-p.Done():
			return nil
		default:
			return errors.New("they say nothing")
		}
	})
	if err == nil && n == 0 && why == "" {
		err = fmt.Errorf("they have ended: %s", p.Stdout())
	}
	if err != nil {
		return 0, "", fmt.Errorf("idle clients: %w", err)
	}
	return n, why, nil
}

func (c *idleClients) stop() error {
	var errs []error
	for _, w := range c.controls {
		errs = append(errs, w.Close())
	}
	for _, p := range c.processes {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}
