package anycastpurge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
)

const (
	patience = 10 * time.Minute // with a download: at 10 % of loss and 200 ms it takes several
	target   = "10.0.0.2:80"
)

// batch is what is downloaded.
type batch struct {
	downloads, atOnce int
	size              int // bytes of a download
}

// verdict is what a judge would have done to the downloads of a case.
type verdict struct {
	dropped int // connections, at any time
	cut     int // of them, before the client had all
}

// attempt is a download.
type attempt struct {
	begun, done time.Time // done: the client has all its bytes, or has failed
}

// try makes the downloads, with all judges looking.
func (t *Topology) try(ctx context.Context, b batch) error {
	running := make(map[string]*lab.Process)
	for _, j := range judges {
		if !j.looks {
			continue
		}
		p, err := t.start(j)
		if err != nil {
			return err
		}
		running[j.name] = p
	}
	byPort, failed, err := t.download(ctx, b)
	if err != nil {
		return err
	}
	if err := t.idle(ctx); err != nil {
		return err
	}
	t.verdicts = map[string]verdict{"regular": {dropped: failed, cut: failed}}
	for name, p := range running {
		if err := p.Stop(10 * time.Second); err != nil {
			return fmt.Errorf("stop %s: %w", name, err)
		}
		if t.verdicts[name], err = judged(p.Log(), byPort); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// start runs a judge on the server.
func (t *Topology) start(j judge) (*lab.Process, error) {
	name := strings.ReplaceAll(j.name, " ", "-")
	dir := t.lab.Dir()
	keys := j.keys
	if keys != "" {
		keys = ", " + keys
	}
	file := filepath.Join(dir, name+".yaml")
	text := fmt.Sprintf("control: %q\ndry_run: true\npolicies: [{name: p, ports: [80]%s}]\n", filepath.Join(dir, name+".sock"), keys)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("configure %s: %w", j.name, err)
	}
	p, err := t.link.B.Host.Start(lab.Program{Path: t.options.Program, Args: []string{"purge", "run", "-c", file, "--log-format", "json"}, Name: name})
	if err != nil {
		return nil, err
	}
	err = lab.Poll(10*time.Second, func() error {
		if !strings.Contains(p.Log(), `"msg":"ready"`) {
			return fmt.Errorf("%s is not ready:\n%s", j.name, p.Log())
		}
		return nil
	})
	return p, err
}

// download makes all downloads, and returns them by the client's port: a port may have several.
func (t *Topology) download(ctx context.Context, b batch) (byPort map[uint16][]*attempt, failed int, err error) {
	var mu sync.Mutex
	byPort = make(map[uint16][]*attempt)
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.SetLimit(b.atOnce)
	for range b.downloads {
		tasks.Go(func() error {
			a := &attempt{begun: time.Now()}
			c, err := t.link.A.Host.Dial(ctx, "tcp", target)
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer c.Close()
			port := c.LocalAddr().(*net.TCPAddr).AddrPort().Port()
			mu.Lock()
			byPort[port] = append(byPort[port], a)
			mu.Unlock()
			done, err := get(c, b.size)
			mu.Lock()
			defer mu.Unlock()
			a.done = done
			if err != nil {
				failed++
			}
			return nil
		})
	}
	return byPort, failed, tasks.Wait()
}

// get downloads over a connection, which the server then ends. It returns when all bytes have arrived.
func get(c net.Conn, size int) (done time.Time, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return time.Now(), err
	}
	request := fmt.Sprintf("GET /100m HTTP/1.1\r\nHost: x\r\nRange: bytes=0-%d\r\nConnection: close\r\n\r\n", size-1)
	if _, err := io.WriteString(c, request); err != nil {
		return time.Now(), err
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return time.Now(), err
	}
	if r.StatusCode != http.StatusPartialContent || r.ContentLength != int64(size) {
		return time.Now(), fmt.Errorf("%s, %d bytes", r.Status, r.ContentLength)
	}
	_, err = io.CopyN(io.Discard, r.Body, int64(size))
	done = time.Now()
	if err == nil {
		_, err = in.ReadByte()
	}
	if err != io.EOF {
		return done, fmt.Errorf("in place of the end: %w", err)
	}
	return done, nil
}

// idle returns when the server has no connection any more, and nothing can be said of one.
func (t *Topology) idle(ctx context.Context) error {
	return lab.Poll(patience, func() error {
		out, err := t.link.B.Host.Exec(ctx, "ss", "-Htn", "state", "connected", "exclude", "time-wait", "sport = 80")
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New("there are connections left")
		}
		return err
	})
}

// judged reads what a judge has logged.
func judged(log string, byPort map[uint16][]*attempt) (verdict, error) {
	var v verdict
	seen := make(map[*attempt]bool)
	for line := range strings.Lines(log) {
		var l struct {
			Time   time.Time
			Msg    string
			Client netip.AddrPort
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return v, fmt.Errorf("read its log: %w: %s", err, line)
		}
		if !strings.HasPrefix(l.Msg, "dormant; not ended") {
			continue
		}
		list := byPort[l.Client.Port()]
		i := slices.IndexFunc(list, func(a *attempt) bool { return a.begun.After(l.Time) })
		if i < 0 {
			i = len(list)
		}
		if i == 0 {
			return v, fmt.Errorf("a connection of nobody's: %s", line)
		}
		a := list[i-1]
		if seen[a] {
			continue // another unresponsive period of a connection that would have been ended
		}
		seen[a] = true
		v.dropped++
		if l.Time.Before(a.done) {
			v.cut++
		}
	}
	return v, nil
}
