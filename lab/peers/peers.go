// Package peers runs the real programs that Baton must get on with, in a lab: nginx, Apache, Varnish and HAProxy as
// servers, caches and proxies, socat, iperf3 and ssh without HTTP, Open vSwitch and BIRD in the network, NSD and Knot as name
// servers, etcd behind controllers, curl, wget, aria2, ab, wrk, dnsperf and Chromium as clients. The servers run Debian's
// binaries with the settings of Debian's packages that matter to a connection (keep-alive, workers, limits) on files of their
// own, and are left as they are: nothing in them knows of Baton.
//
// A server that does not come up fails the lab's test; a program that is not installed skips it (see lab.Need).
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"baton/lab"
)

// Header names the server in every response of the servers here; its value is the Name option.
const Header = "X-Surrogate"

// readiness is how long a server may take to answer its first request.
const readiness = 20 * time.Second

// Server is a running server. It dies with the lab; Process gives its log, its CPU time and its signals.
type Server struct {
	*lab.Process
	Name    string // value of Header
	Version string // what the program says of itself: "nginx/1.22.1"
	Dir     string // configuration, logs, temporary files
	Port    int
}

// server is what the constructors share: a folder, a configuration file, a program, a probe.
type server struct {
	host    *lab.Host
	name    string
	program string
	process string // its name in logs; default: that of the program
	version string // the program whose version counts; default: the program
	port    int
	files   map[string]string // file name in the folder → text
	folders []string          // in the folder
	args    func(dir string) []string
	env     func(dir string) []string // nil: none of its own
	probe   string                    // path that answers 200 when the server is ready, or
	says    string                    // what is in its log then
}

func (s server) start() *Server {
	t := s.host.Lab().T()
	t.Helper()
	s.host.Lab().Need(s.program)
	dir, err := os.MkdirTemp(s.host.Lab().Dir(), s.program+"-"+s.name+"-")
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	// Workers run under an account of their own and write temporary files here.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatalf("peers: %v", err)
	}
	for _, name := range s.folders {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatalf("peers: %v", err)
		}
	}
	for name, text := range s.files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte(strings.ReplaceAll(text, "{dir}", dir)), 0o644), age(file)); err != nil {
			t.Fatalf("peers: %v", err)
		}
	}
	version, err := Version(orDefault(s.version, s.program))
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	program := lab.Program{Path: s.program, Args: s.args(dir), Dir: dir, Name: s.process}
	if s.env != nil {
		program.Env = s.env(dir)
	}
	p, err := s.host.Start(program)
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	running := &Server{Process: p, Name: s.name, Version: version, Dir: dir, Port: s.port}
	if err := running.ready(s.probe, s.says); err != nil {
		t.Fatalf("peers: %s on %s: %v\n%s", s.program, s.host.Name(), err, running.Logs())
	}
	return running
}

// age has a file look older than it is: Apache's validator of one that was changed less than a second ago is weak.
func age(file string) error {
	at := time.Now().Add(-time.Minute)
	return os.Chtimes(file, at, at)
}

func (s *Server) ready(path, says string) error {
	if path == "" {
		return until(s.Process, func() error {
			if !strings.Contains(s.Log(), says) {
				return fmt.Errorf("it has not said %q", says)
			}
			return nil
		})
	}
	client := s.Host().HTTPClient(time.Second)
	defer client.CloseIdleConnections()
	url := "http://127.0.0.1:" + strconv.Itoa(s.Port) + path
	return until(s.Process, func() error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, resp.Status)
		}
		return nil
	})
}

// until polls f while the process runs.
func until(p *lab.Process, f func() error) error {
	var ended error
	err := lab.Poll(readiness, func() error {
		select {
		case <-p.Done():
			ended = fmt.Errorf("it ended: %v", p.Wait(context.Background()))
			return nil
		default:
			return f()
		}
	})
	return errors.Join(err, ended)
}

// Logs returns the server's output and its log files.
func (s *Server) Logs() string {
	text := s.Log()
	files, _ := filepath.Glob(filepath.Join(s.Dir, "*.log"))
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && len(b) > 0 {
			text += "--- " + filepath.Base(f) + "\n" + string(b)
		}
	}
	return text
}

// account is the user that Debian's web servers run under, or root where there is none.
func account() string {
	if _, err := user.Lookup("www-data"); err == nil {
		return "www-data"
	}
	return "root"
}

func orDefault[V comparable](v, d V) V {
	var zero V
	if v == zero {
		return d
	}
	return v
}
