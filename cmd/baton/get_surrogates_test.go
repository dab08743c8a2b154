package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
)

// surrogates are servers with the example configurations, each on a host of its own:
//
//	client 10.2.n.1 ── 10.2.n.2 s1 …
type surrogates struct {
	*testing.T
	client *lab.Host
	hosts  []*lab.Host
	file   []byte
}

func newSurrogates(t *testing.T, n int) *surrogates {
	l := lab.New(t)
	s := &surrogates{T: t, client: l.Host("client"), file: make([]byte, 8<<20)}
	for i := range s.file {
		s.file[i] = byte(i*i>>9 + i)
	}
	for i := 1; i <= n; i++ {
		h := l.Host(fmt.Sprintf("s%d", i))
		l.Link(lab.End{Host: s.client, Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i)}}, lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i)}}, lab.LinkOptions{})
		s.hosts = append(s.hosts, h)
	}
	return s
}

// folder has the file, of this time, for unprivileged servers.
func (s *surrogates) folder(at time.Time) string {
	s.Helper()
	dir, err := os.MkdirTemp(s.client.Lab().Dir(), "surrogate")
	file := filepath.Join(dir, "files", "file")
	for _, step := range []func() error{
		func() error { return err },
		func() error { return os.Mkdir(filepath.Dir(file), 0o755) },
		func() error { return os.WriteFile(file, s.file, 0o644) },
		func() error { return os.Chtimes(file, at, at) },
		func() error { return os.Chmod(dir, 0o777) },
	} {
		if err := step(); err != nil {
			s.Fatal(err)
		}
	}
	return dir
}

// start runs a server on a host, with the example of its name, and waits for it.
func (s *surrogates) start(host int, example string, at time.Time) *lab.Process {
	s.Helper()
	h, dir := s.hosts[host-1], s.folder(at)
	config, err := filepath.Abs("../../examples/surrogates/" + example)
	if err != nil {
		s.Fatal(err)
	}
	switch example {
	case "nginx.conf":
		return s.serve(h, "80", lab.Program{Path: "nginx", Args: []string{"-p", dir, "-c", config, "-e", "stderr"}, Dir: dir})
	case "apache.conf":
		return s.serve(h, "80", lab.Program{Path: "apache2", Args: []string{"-d", dir, "-f", config, "-DFOREGROUND"}, Dir: dir})
	}
	// Varnish's origin is nginx, on the port that the example names. Varnish reads its file as another user, who may not see this folder.
	origin, own := filepath.Join(dir, "origin.conf"), filepath.Join(dir, example)
	write(s.T, own, s.example(example))
	write(s.T, origin, strings.NewReplacer("listen 80 ", "listen 8080 ", "listen [::]:80 ", "listen [::]:8080 ").Replace(s.example("nginx.conf")))
	s.serve(h, "8080", lab.Program{Path: "nginx", Args: []string{"-p", dir, "-c", origin, "-e", "stderr"}, Dir: dir})
	return s.serve(h, "80", lab.Program{Path: "varnishd", Args: []string{"-F", "-n", filepath.Join(dir, "varnish"), "-a", ":80", "-f", own}, Dir: dir})
}

func (s *surrogates) example(name string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/surrogates", name))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

func (s *surrogates) serve(h *lab.Host, port string, program lab.Program) *lab.Process {
	s.Helper()
	h.Lab().Need(program.Path)
	p, err := h.Start(program)
	if err != nil {
		s.Fatal(err)
	}
	client := h.HTTPClient(time.Second)
	if err := lab.Poll(long, func() error {
		response, err := client.Head("http://127.0.0.1:" + port + "/file")
		if err != nil {
			return err
		}
		if response.Body.Close(); response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	}); err != nil {
		s.Fatalf("%s: %v\n%s", program.Path, err, p.Log())
	}
	return p
}

// begin runs `baton get` on the client.
func (s *surrogates) begin(args ...string) *lab.Process {
	s.Helper()
	program, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	p, err := s.client.Start(lab.Program{Path: program, Args: append([]string{"get"}, args...), Env: []string{asBaton + "=1"}, Dir: s.TempDir(), Name: "baton"})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *surrogates) end(p *lab.Process, status int) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), long)
	defer cancel()
	if err := p.Wait(ctx); lab.ExitCode(err) != status || ctx.Err() != nil {
		s.Errorf("status %d, want %d: %v\n%s", lab.ExitCode(err), status, err, p.Log())
	}
	return p.Log()
}

// TestGetSurrogates has real nginx, Apache and Varnish with the configurations of examples/surrogates.
func TestGetSurrogates(t *testing.T) {
	s := newSurrogates(t, 6)
	then := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	examples := []string{"nginx.conf", "nginx.conf", "apache.conf", "apache.conf", "varnish.vcl", "varnish.vcl"}
	var servers []*lab.Process
	for i, example := range examples {
		at := then
		if example == "apache.conf" {
			at = then.Add(time.Duration(i) * time.Hour) // its tags are digests
		}
		servers = append(servers, s.start(i+1, example, at))
	}
	url := func(n int) string { return fmt.Sprintf("http://10.2.%d.2/file", n) }
	for _, tt := range []struct {
		name string
		all  []int
		safe bool
		says string
	}{
		{"nginx", []int{1, 2}, true, "can be resumed on any other"},
		{"Apache", []int{3, 4}, true, "can be resumed on any other"},
		{"Varnish", []int{5, 6}, true, "can be resumed on any other"},
		{"nginx, and Varnish in front of it", []int{1, 5}, true, "can be resumed on any other"},
		{"nginx and Apache", []int{1, 3}, false, "different validators"},
	} {
		args, status := []string{"audit"}, 1
		for _, n := range tt.all {
			args = append(args, url(n))
		}
		if tt.safe {
			status = 0
		}
		if text := s.end(s.begin(args...), status); !strings.Contains(text, tt.says) {
			t.Errorf("%s:\n%s", tt.name, text)
		}
	}

	// A name with two addresses, of which the one that answers dies while a file is on its way.
	s.client.Hosts(map[string][]netip.Addr{"cdn.example.net": {netip.MustParseAddr("10.2.1.2"), netip.MustParseAddr("10.2.2.2")}})
	if text := s.end(s.begin("audit", "http://cdn.example.net/file"), 0); !strings.Contains(text, "10.2.1.2:80") || !strings.Contains(text, "10.2.2.2:80") {
		t.Errorf("both addresses of a name:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "file")
	p := s.begin("-v", "--limit-rate", "4M", "-o", file, "http://cdn.example.net/file")
	if err := lab.Poll(long, func() error { _, err := os.Stat(file + ".part.json"); return err }); err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
	dies, stays := 1, 2
	if strings.Contains(p.Log(), "10.2.2.2:80 answers") {
		dies, stays = 2, 1
	}
	if err := servers[dies-1].Kill(); err != nil {
		t.Fatal(err)
	}
	text := s.end(p, 0)
	if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, s.file) || !strings.Contains(text, fmt.Sprintf("10.2.%d.2:80 answers from byte", stays)) {
		t.Errorf("%d bytes, %v\n%s", len(b), err, text)
	}
}
