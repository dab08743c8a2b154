package forwarder_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
	of "baton/openflow"
	"baton/openflow/channel"
)

// line is a process with forwarders in line, d1, d2, …, between two hosts. Ports 1 and 2 of each are the one to the left, l1, and to the
// right, r1.
type line struct {
	*lab.Lab
	t           *testing.T
	node        *lab.Host
	left, right *lab.Host
	name, file  string
	process     *lab.Process
}

func newLine(t *testing.T, n int) *line {
	t.Helper()
	var id [2]byte
	_, _ = rand.Read(id[:])
	s := &line{Lab: lab.New(t), t: t, name: fmt.Sprintf("n%x", id)}
	s.node, s.left, s.right = s.Host("switches"), s.Host("left"), s.Host("right")
	for _, h := range []*lab.Host{s.node, s.left, s.right} {
		silence(h)
	}
	a := s.Link(lab.End{Host: s.left, Name: "eth0", Addrs: []string{"10.7.0.1/24"}}, lab.End{Host: s.node, Name: "l1"}, lab.LinkOptions{})
	for i := 1; i < n; i++ {
		s.Link(lab.End{Host: s.node, Name: fmt.Sprintf("r%d", i)}, lab.End{Host: s.node, Name: fmt.Sprintf("l%d", i+1)}, lab.LinkOptions{})
	}
	b := s.Link(lab.End{Host: s.right, Name: "eth0", Addrs: []string{"10.7.0.2/24"}}, lab.End{Host: s.node, Name: fmt.Sprintf("r%d", n)}, lab.LinkOptions{})
	s.left.Neighbour(a.A, "10.7.0.2", b.A.MAC)
	s.right.Neighbour(b.A, "10.7.0.1", a.A.MAC)
	t.Cleanup(func() {
		path, err := build.Program("baton")
		must(t, err)
		_ = s.process.Kill()
		// The test's context has ended.
		if out, err := s.node.Exec(context.Background(), path, "forwarder", "cleanup", "-c", s.file); err != nil {
			t.Errorf("cleanup: %v %s", err, out)
		}
		if left, err := s.node.Exec(context.Background(), "ls", "/sys/fs/bpf/baton-forwarder"); err != nil || strings.Contains(left, s.name) {
			t.Errorf("cleanup has left %s, %v", left, err)
		}
	})
	return s
}

func (s *line) path(name string) string   { return filepath.Join(s.Dir(), name) }
func (s *line) endpoint(i int) string     { return s.path(fmt.Sprintf("d%d.of", i)) }
func (s *line) datapath(i int) string     { return fmt.Sprintf("%s-%d", s.name, i) }
func (s *line) ports(i int) (l, r string) { return fmt.Sprintf("l%d", i), fmt.Sprintf("r%d", i) }
func (s *line) within() context.Context   { return within(s.t) }
func (s *line) ping() error               { return s.exec(s.left, "ping", "-c", "1", "-W", "1", "10.7.0.2") }
func (s *line) configured(list ...int) string {
	text := fmt.Sprintf("name: %s\ncontrol: %s\nmetrics: 127.0.0.1:9410\nlimits: {entries: 256, groups: 16, meters: 16, cache: 256, upcalls: 256KiB}\ndatapaths:\n",
		s.name, s.path("line.sock"))
	for _, i := range list {
		l, r := s.ports(i)
		text += fmt.Sprintf("  - {name: %s, datapath_id: %d, ports: [%s, %s], listen: [%q], state: %s}\n",
			s.datapath(i), i, l, r, "unix:"+s.endpoint(i), s.path(fmt.Sprintf("state%d", i)))
	}
	return text
}

func (s *line) exec(h *lab.Host, name string, args ...string) error {
	_, err := h.Exec(s.within(), name, args...)
	return err
}

func (s *line) write(list ...int) {
	s.t.Helper()
	s.file = s.path("line.yaml")
	must(s.t, os.WriteFile(s.file, []byte(s.configured(list...)), 0o600))
}

func (s *line) run() {
	s.t.Helper()
	path, err := build.Program("baton")
	must(s.t, err)
	s.process, err = s.node.Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", s.file}, Name: "forwarders"})
	must(s.t, err)
	lab.Eventually(s.t, 2*time.Minute, func() error {
		select {
		case <-s.process.Done():
			s.t.Fatalf("the forwarders have ended:\n%s", s.process.Log())
		default:
		}
		if !strings.Contains(s.process.Log(), "all forwarders are up") {
			return fmt.Errorf("they are not up:\n%s", s.process.Log())
		}
		return nil
	})
}

// fill has a forwarder pass frames straight through.
func (s *line) fill(i int) {
	s.t.Helper()
	conn, err := s.node.Dial(s.within(), "unix", s.endpoint(i))
	must(s.t, err)
	c := channel.Start(conn, channel.Options{})
	defer c.Close()
	must(s.t, c.Up(s.within()))
	must(s.t, c.Commit(s.within(), add(1, of.Match{}.Port(1), output(2)), add(1, of.Match{}.Port(2), output(1))))
}

// transfer sends a megabyte over TCP, and more than one packet is on its way at any time.
func (s *line) transfer() {
	s.t.Helper()
	ln, err := s.right.Listen("tcp", "10.7.0.2:80")
	must(s.t, err)
	defer ln.Close()
	const size = 1 << 20
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			_, _ = conn.Write(make([]byte, size))
			conn.Close()
		}
	}()
	conn, err := s.left.Dial(s.within(), "tcp", "10.7.0.2:80")
	must(s.t, err)
	defer conn.Close()
	must(s.t, conn.SetDeadline(time.Now().Add(patience)))
	if n, err := io.Copy(io.Discard, conn); err != nil || n != size {
		s.t.Errorf("%d of %d bytes, %v", n, size, err)
	}
}

func (s *line) baton(args ...string) string {
	s.t.Helper()
	path, err := build.Program("baton")
	must(s.t, err)
	out, err := s.node.Exec(s.within(), path, append([]string{"forwarder"}, args...)...)
	must(s.t, err)
	return out
}

func upTo(n int) (list []int) {
	for i := 1; i <= n; i++ {
		list = append(list, i)
	}
	return list
}

func TestForwardersInLine(t *testing.T) {
	for _, n := range []int{3, 30} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newLine(t, n)
			s.write(upTo(n)...)
			s.run()
			if err := s.ping(); err == nil {
				t.Error("forwarders without flow entries pass a ping")
			}
			for i := range n {
				s.fill(i + 1)
			}
			must(t, s.ping())
			s.transfer()
			var status api.ForwarderStatus
			must(t, json.Unmarshal([]byte(s.baton("status", "-c", s.file, "-o", "json")), &status))
			if len(status.Datapaths) != n || status.Entries.Used != 2*n || status.Name != s.name {
				t.Errorf("status of %q: %d datapaths, %d entries", status.Name, len(status.Datapaths), status.Entries.Used)
			}
			for _, d := range status.Datapaths {
				if d.Packets["forwarded"] == 0 || len(d.Ports) != 2 || d.Entries.Used != 2 {
					t.Errorf("datapath %s: %+v", d.Name, d)
				}
			}
			last := s.datapath(n)
			metrics, err := s.node.Exec(s.within(), "curl", "-s", "http://127.0.0.1:9410/metrics")
			if want := fmt.Sprintf(`baton_forwarder_entries{datapath="%s"} 2`, last); err != nil || !strings.Contains(metrics, want) {
				t.Errorf("metrics without %s: %v", want, err)
			}
			if out := s.baton("trace", "-c", s.file, "--datapath", last, "--in-port", "1", "tcp_dst=80"); !strings.Contains(out, "out of port 2") {
				t.Errorf("trace: %s", out)
			}
			if out := s.baton("status", "-c", s.file); !strings.Contains(out, fmt.Sprintf("%d datapaths", n)) || !strings.Contains(out, last) {
				t.Errorf("status: %s", out)
			}
		})
	}
}

// A process that is killed leaves its flow entries working; the next one restores them, and no packet is lost meanwhile.
func TestForwardersAreTakenOver(t *testing.T) {
	s := newLine(t, 3)
	s.write(upTo(3)...)
	s.run()
	for i := range 3 {
		s.fill(i + 1)
	}
	stream, err := s.left.Start(lab.Program{Path: "ping", Args: []string{"-i", "0.02", "-W", "1", "10.7.0.2"}})
	must(t, err)
	must(t, s.process.Kill())
	must(t, s.ping())
	s.run()
	s.transfer()
	must(t, s.process.Signal(unix.SIGTERM))
	if err := s.process.Wait(s.within()); err != nil {
		t.Fatalf("they do not end well: %v\n%s", err, s.process.Log())
	}
	must(t, s.ping())
	s.run()
	must(t, stream.Signal(unix.SIGINT))
	must(t, stream.Wait(s.within()))
	if !strings.Contains(stream.Stdout(), " 0% packet loss") {
		t.Errorf("packets were lost: %s", stream.Stdout())
	}
}

// A reload adds and removes forwarders while the others go on, and refuses what it cannot change.
func TestForwardersReload(t *testing.T) {
	s := newLine(t, 3)
	s.write(1, 2)
	s.run()
	s.fill(1)
	s.fill(2)
	if err := s.ping(); err == nil {
		t.Fatal("a ping passes without the third forwarder")
	}
	s.write(1, 2, 3)
	if out := s.baton("reload", "-c", s.file); !strings.Contains(out, "datapath "+s.datapath(3)+" has been added") {
		t.Errorf("reload: %s", out)
	}
	s.fill(3)
	must(t, s.ping())
	must(t, os.WriteFile(s.file, []byte(strings.Replace(s.configured(1, 2, 3), "datapath_id: 2", "datapath_id: 7", 1)), 0o600))
	path, err := build.Program("baton")
	must(t, err)
	if err := s.exec(s.node, path, "forwarder", "reload", "-c", s.file); lab.ExitCode(err) != 2 ||
		!strings.Contains(err.Error(), "datapath_id of datapath "+s.datapath(2)) {
		t.Errorf("a changed id: %v", err)
	}
	must(t, s.ping())
	s.write(1, 3)
	if out := s.baton("reload", "-c", s.file); !strings.Contains(out, "datapath "+s.datapath(2)+" has been removed") {
		t.Errorf("reload: %s", out)
	}
	if err := s.ping(); err == nil {
		t.Error("a ping passes a forwarder that was removed")
	}
	pins, err := s.node.Exec(s.within(), "ls", "/sys/fs/bpf/baton-forwarder")
	if err != nil || strings.Contains(pins, s.datapath(2)) || !strings.Contains(pins, s.datapath(1)) {
		t.Errorf("a forwarder that was removed has left its attachments: %s, %v", pins, err)
	}
	s.write(1, 2, 3)
	s.baton("reload", "-c", s.file)
	must(t, s.ping()) // its state was kept
}

// If one of them cannot start, the process ends and says which.
func TestForwardersFailTogether(t *testing.T) {
	s := newLine(t, 3)
	s.write(upTo(3)...)
	ln, err := s.node.Listen("tcp", "127.0.0.1:6653")
	must(t, err)
	defer ln.Close()
	must(t, os.WriteFile(s.file, []byte(strings.Replace(s.configured(upTo(3)...), "unix:"+s.endpoint(3), "tcp:127.0.0.1:6653", 1)), 0o600))
	path, err := build.Program("baton")
	must(t, err)
	s.process, err = s.node.Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", s.file}, Name: "forwarders"})
	must(t, err)
	if err := s.process.Wait(s.within()); lab.ExitCode(err) != 1 || !strings.Contains(s.process.Log(), "datapath "+s.datapath(3)) ||
		!strings.Contains(s.process.Log(), "address already in use") {
		t.Errorf("%v:\n%s", err, s.process.Log())
	}
	s.write(upTo(3)...)
	s.run() // what the first attempt has left is taken over
	s.fill(1)
	s.fill(2)
	s.fill(3)
	must(t, s.ping())
}
