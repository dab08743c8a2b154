package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/cmd/cli"
	"baton/lab"
)

// site serves a file whose connections break after so many bytes of content, if that is not 0.
type site struct {
	file   []byte
	etag   string
	breaks atomic.Int64
	asked  atomic.Int64
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	switch r.URL.Path {
	case "/missing":
		http.NotFound(w, r)
		return
	case "/elsewhere":
		http.Redirect(w, r, "/file", http.StatusFound)
		return
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
		return
	case "/digest":
		w.Header().Set("Repr-Digest", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:")
	case "/slow":
		w.Header().Set("Content-Length", "1000")
		w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
	}
	if n := s.breaks.Load(); n > 0 {
		w = &breaking{w, n}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.file))
}

type breaking struct {
	http.ResponseWriter
	left int64
}

func (b *breaking) Write(p []byte) (int, error) {
	n := min(b.left, int64(len(p)))
	b.ResponseWriter.Write(p[:n])
	if b.left -= n; b.left == 0 {
		b.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return int(n), nil
}

func newSite(t *testing.T) (*site, *httptest.Server) {
	t.Helper()
	s := &site{file: make([]byte, 500_000), etag: `"one"`}
	for i := range s.file {
		s.file[i] = byte(i * i >> 7)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server
}

// get runs the command in a folder of its own.
func get(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), cli.Env{Out: &stdout, Err: &stderr}, append([]string{"get"}, args...))
	return status, stdout.String(), stderr.String()
}

func TestGet(t *testing.T) {
	s, server := newSite(t)
	s.breaks.Store(120_000)
	whole := string(s.file)
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(s.file))
	url := server.URL + "/file"
	tests := []struct {
		name   string
		args   []string
		status int
		out    string // what is written
		errs   string // what standard error has
	}{
		{"to standard output", []string{url}, 0, whole, ""},
		{"the same, by name", []string{"-o", "-", url}, 0, whole, ""},
		{"a range", []string{"-r", "1000-399999", url}, 0, whole[1000:400_000], ""},
		{"the last bytes", []string{"-r", "-300000", url}, 0, whole[200_000:], ""},
		{"a redirect", []string{"-L", server.URL + "/elsewhere"}, 0, whole, ""},
		{"mirrors", []string{server.URL + "/missing", "--mirror", url}, 0, whole, ""},
		{"several files", []string{url, url}, 0, whole + whole, ""},
		{"several, one of which fails", []string{url, server.URL + "/missing", url}, 22, whole + whole, "404"},
		{"mirrors of several files", []string{url, url, "--mirror", url}, 2, "", "--mirror needs a single URL"},
		{"more names than files", []string{"-o", "-", "-o", "-", url}, 2, "", "more -o (2) than URLs (1)"},
		{"no scheme", []string{"example.com"}, 2, "", `"example.com" has no scheme: did you mean https://example.com?`},
		{"no such directory", []string{"-o", "/nonexistent/x", url}, 23, "", "directory /nonexistent does not exist"},
		{"a time that is none", []string{"-m", "soon", url}, 2, "", `--max-time: "soon" is not a time: seconds such as 1.5, or with a unit`},
		{"a time below zero", []string{"-m", "-1", url}, 2, "", "is not a time"},
		{"a time with its unit", []string{"-m", "1m", url}, 0, whole, ""},
		{"a number that is none", []string{"--retry", "x", url}, 2, "", `--retry: "x" is not a whole number`},
		{"the right digest", []string{"--checksum", sum, url}, 0, whole, ""},
		{"lines", []string{"-v", url}, 0, whole, "answers from byte 120000 on"},
		{"a bar", []string{"--progress", url}, 0, whole, "100"},
		{"resolve", []string{"--resolve", "cdn.example.net:80:" + strings.TrimPrefix(server.URL, "http://127.0.0.1:"), url}, 2, "", "is not host:port:address"},
		{"no URL", nil, 2, "", "URL is missing; for example: baton get -O https://"},
		{"no such scheme", []string{"ftp://127.0.0.1/file"}, 2, "", `"ftp://127.0.0.1/file" begins with neither http:// nor https://`},
		{"an unknown flag", []string{"--nonsense", url}, 2, "", "nonsense"},
		{"two names", []string{"-O", "-o", "x", url}, 2, "", "contradict"},
		{"no name", []string{"-O", server.URL}, 2, "", "has no file name: give it one by -o FILE"},
		{"a name twice", []string{"-O", url, url}, 2, "", "would both be written to file: give each a name by -o FILE"},
		{"a device twice", []string{"-o", "/dev/null", "-o", "/dev/null", url, url}, 0, "", ""},
		{"a directory", []string{"-o", t.TempDir(), url}, 23, "", "is a directory: name a file in it, such as -o "},
		{"a wrong range", []string{"-r", "5-4", url}, 2, "", "not one range"},
		{"several ranges", []string{"-r", "0-4,6-9", url}, 2, "", "not one range"},
		{"a wrong digest's form", []string{"--checksum", "md5:00", url}, 2, "", "sha256"},
		{"compressed", []string{"--compressed", url}, 2, "", "--compressed"},
		{"Range as a field", []string{"-H", "Range: bytes=0-1", url}, 2, "", "use -r"},
		{"a user without password", []string{"-u", "me", url}, 2, "", "password"},
		{"go on with a pipe", []string{"-C", "-", url}, 2, "", "needs its name"},
		{"no name to resolve", []string{"http://nowhere.invalid/"}, 6, "", "nowhere.invalid"},
		{"no connection", []string{"http://127.0.0.1:1/"}, 7, "", "no connection to any server"},
		{"not found", []string{server.URL + "/missing"}, 22, "", "404"},
		{"a redirect that is not followed", []string{server.URL + "/elsewhere"}, 22, "", "redirected to /file"},
		{"out of time", []string{"-m", "0.3", server.URL + "/slow"}, 28, strings.Repeat("\x00", 10), "deadline"},
		{"a stall", []string{"--stall", "0.1", "--retry", "0", server.URL + "/slow"}, 28, strings.Repeat("\x00", 10), "nothing received"},
		{"no TLS", []string{"https" + strings.TrimPrefix(url, "http")}, 35, "", "server gave HTTP response"},
		{"a redirect loop", []string{"-L", "--max-redirs", "3", server.URL + "/loop"}, 47, "", "too many redirects"},
		{"too many breaks", []string{"--retry", "0", url}, 56, whole[:120_000], "EOF"},
		{"the wrong digest", []string{"--checksum", "sha256:" + strings.Repeat("0", 64), url}, 101, whole, "announced is 0000"},
		{"the wrong digest from the server", []string{server.URL + "/digest"}, 101, whole, "check the digest"},
		{"silent", []string{"-s", server.URL + "/missing"}, 22, "", ""},
		{"silent but for errors", []string{"-sS", server.URL + "/missing"}, 22, "", "404"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := get(t, tt.args...)
			if status != tt.status {
				t.Fatalf("status %d, want %d: %s", status, tt.status, errs)
			}
			if out != tt.out {
				t.Errorf("%d bytes of output, want %d", len(out), len(tt.out))
			}
			if !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
				t.Errorf("standard error: %q, want %q", errs, tt.errs)
			}
		})
	}
}

// TestGetIntoFile: nothing is there under the file's name before it is whole, and --continue goes on.
func TestGetIntoFile(t *testing.T) {
	s, server := newSite(t)
	url := server.URL + "/file"
	t.Chdir(t.TempDir())
	s.breaks.Store(200_000)
	if status, _, errs := get(t, "-O", "--retry", "0", url); status != 56 {
		t.Fatalf("status %d: %s", status, errs)
	}
	if _, err := os.Stat("file"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	s.breaks.Store(0)
	if status, _, errs := get(t, "-O", "--continue", url); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	check := func() {
		t.Helper()
		left, _ := filepath.Glob("*")
		if b, err := os.ReadFile("file"); err != nil || !bytes.Equal(b, s.file) || len(left) != 1 {
			t.Errorf("%d bytes, %v; there are %v", len(b), err, left)
		}
	}
	check()
	if n := s.asked.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	t.Run("what curl has begun", func(t *testing.T) {
		if err := os.WriteFile("file", s.file[:300_000], 0o666); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := get(t, "-C", "-", "-o", "file", url); status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		check()
	})
	t.Run("what is complete already", func(t *testing.T) {
		if status, _, errs := get(t, "-C", "-", "-o", "file", url); status != 0 {
			t.Fatalf("status %d: %s", status, errs)
		}
		check()
	})
	t.Run("what is something else", func(t *testing.T) {
		if err := os.WriteFile("mine", []byte("something else"), 0o666); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := get(t, "-C", "-", "-o", "mine", url); status != 33 {
			t.Errorf("status %d: %s", status, errs)
		}
		if b, _ := os.ReadFile("mine"); string(b) != "something else" {
			t.Errorf("it has become %.80q", b)
		}
		os.Remove("mine")
	})
	t.Run("the wrong digest", func(t *testing.T) {
		if status, _, _ := get(t, "-o", "wrong", "--checksum", "sha256:"+strings.Repeat("0", 64), url); status != 101 {
			t.Errorf("status %d", status)
		}
		check()
	})
	t.Run("connections that are closed without an answer", func(t *testing.T) {
		s.breaks.Store(200_000)
		closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" && r.URL.Path == "/file" {
				s.ServeHTTP(w, r)
			}
			panic(http.ErrAbortHandler)
		}))
		defer closed.Close()
		for _, path := range []string{"/file", "/nothing"} {
			for _, out := range []string{"file", "-"} {
				if status, _, errs := get(t, "-o", out, "--retry", "1", closed.URL+path); status != 56 || errs == "" {
					t.Errorf("%s to %s: status %d, %q", path, out, status, errs)
				}
			}
		}
		os.Remove("file.part")
		os.Remove("file.part.json")
		check()
	})
	t.Run("no such folder", func(t *testing.T) {
		if status, _, errs := get(t, "-o", "no/file", url); status != 23 {
			t.Errorf("status %d: %s", status, errs)
		}
	})
}

func TestGetJSON(t *testing.T) {
	s, server := newSite(t)
	s.breaks.Store(200_000)
	t.Chdir(t.TempDir())
	status, out, errs := get(t, "--json", "-O", server.URL+"/file")
	if status != 0 || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	count := map[string]int{}
	var last map[string]any
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		count[line["event"].(string)]++
		last = line
	}
	if count["answered"] != 3 || count["broke"] != 2 || count["end"] != 1 || last["breaks"] != 2.0 || last["bytes"] != 500_000.0 {
		t.Errorf("%v, at last %v", count, last)
	}
}

// TestGetCertificates: a server that is not who it should be is not asked again.
func TestGetCertificates(t *testing.T) {
	s := &site{file: []byte("secret"), etag: `"one"`}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	for _, tt := range []struct {
		name   string
		args   []string
		status int
	}{
		{"unknown", []string{server.URL}, 60},
		{"not checked", []string{"-k", server.URL}, 0},
		{"known", []string{"--cacert", ca, server.URL}, 0},
		{"known, under its name", []string{"--cacert", ca, "--resolve", "example.com:" + port + ":127.0.0.1", "https://example.com:" + port}, 0},
		{"known, under another name", []string{"--cacert", ca, "--resolve", "other.test:" + port + ":127.0.0.1", "https://other.test:" + port}, 60},
		{"HTTP/1.1", []string{"-k", "--http1.1", server.URL}, 0},
		{"no file", []string{"--cacert", "/nowhere", server.URL}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, _, errs := get(t, tt.args...); status != tt.status {
				t.Errorf("status %d, want %d: %s", status, tt.status, errs)
			}
		})
	}
}

// TestGetInterrupted: who interrupts a download can go on with it.
func TestGetInterrupted(t *testing.T) {
	_, server := newSite(t)
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	begun := func() bool { _, err := os.Stat("f.part.json"); return err == nil }
	go func() {
		for !begun() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	var stderr bytes.Buffer
	if status := run(ctx, cli.Env{Out: io.Discard, Err: &stderr}, []string{"get", "-o", "f", server.URL + "/slow"}); status != 130 {
		t.Errorf("status %d: %s", status, stderr.String())
	}
	if b, err := os.ReadFile("f.part"); err != nil || len(b) != 10 || !begun() {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestGetAudit(t *testing.T) {
	_, a := newSite(t)
	other, b := newSite(t)
	other.file = append([]byte("x"), other.file[1:]...)
	if status, out, errs := get(t, "audit", a.URL+"/file"); status != 0 || !strings.Contains(out, "can be resumed on any other") {
		t.Errorf("one: status %d, %s%s", status, out, errs)
	}
	if status, out, errs := get(t, "audit", a.URL+"/file", b.URL+"/file"); status != 1 || !strings.Contains(out, "DANGER") || !strings.Contains(errs, "not safe") {
		t.Errorf("two: status %d, %s%s", status, out, errs)
	}
	status, out, _ := get(t, "audit", "-o", "json", a.URL+"/missing")
	var report struct {
		Safe  bool
		Sites []struct{ Problems []string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != 1 || report.Safe || len(report.Sites) != 1 || len(report.Sites[0].Problems) != 1 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
}

// TestGetProxy starts a proxy on a free port and asks through it.
func TestGetProxy(t *testing.T) {
	s, server := newSite(t)
	s.breaks.Store(200_000)
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--listen", "8118"}, {"--listen", "127.0.0.1:0", server.URL}, {"--listen", "127.0.0.1:0", "--allow", "x"}} {
		if status, _, errs := get(t, append([]string{"proxy"}, args...)...); status != 2 {
			t.Errorf("%v: status %d: %s", args, status, errs)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, cli.Env{Out: io.Discard, Err: w}, []string{"get", "proxy", "--listen", "127.0.0.1:0", "--log-format", "json"})
		w.Close()
	}()
	line, err := bufio.NewReader(lines).ReadString('\n')
	var ready struct{ Msg, Proxy string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil || ready.Msg != "ready" {
		t.Fatalf("%q: %v", line, err)
	}
	at, err := url.Parse(ready.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, lines)
	c := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}}
	response, err := c.Get(server.URL + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if b, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(b, s.file) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	cancel()
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestGetOutputFails: a disk that is full, and a reader that goes away.
func TestGetOutputFails(t *testing.T) {
	s, server := newSite(t)
	url := server.URL + "/file"
	if status, _, errs := get(t, "-o", "/dev/full", url); status != 23 || !strings.Contains(errs, "no space") {
		t.Errorf("a device: status %d: %s", status, errs)
	}
	if status, _, errs := get(t, "-o", "/dev/null", url); status != 0 {
		t.Errorf("another device: status %d: %s", status, errs)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var stderr bytes.Buffer
	if status := run(t.Context(), cli.Env{Out: w, Err: &stderr}, []string{"get", url}); status != 23 || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("a pipe: status %d: %s", status, stderr.String())
	}
	t.Run("a disk", func(t *testing.T) {
		lab.NeedRoot(t)
		dir := t.TempDir()
		if err := unix.Mount("baton", dir, "tmpfs", 0, "size=256k"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		file := filepath.Join(dir, "f")
		if status, _, errs := get(t, "-o", file, url); status != 23 || !strings.Contains(errs, "no space") {
			t.Errorf("full: status %d: %s", status, errs)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("half a file is there under its name")
		}
		if err := unix.Mount("baton", dir, "tmpfs", unix.MS_REMOUNT, "size=4m"); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := get(t, "--continue", "-o", file, url); status != 0 {
			t.Errorf("with room: status %d: %s", status, errs)
		}
		if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, s.file) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

// TestGetTwoFiles: each URL is a file of its own, as in curl, and mirrors are named as such.
func TestGetTwoFiles(t *testing.T) {
	s, server := newSite(t)
	t.Chdir(t.TempDir())
	for _, tt := range []struct{ args, files string }{
		{"-O U/a U/b", "a b"},
		{"-o c -o d U/a U/b", "c d"},
		{"-o e U/missing --mirror U/a", "e"},
	} {
		if status, _, errs := get(t, strings.Fields(strings.ReplaceAll(tt.args, "U/", server.URL+"/"))...); status != 0 {
			t.Errorf("%s: status %d: %s", tt.args, status, errs)
		}
		for name := range strings.FieldsSeq(tt.files) {
			if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, s.file) {
				t.Errorf("%s: %s has %d bytes, %v", tt.args, name, len(b), err)
			}
		}
	}
}
