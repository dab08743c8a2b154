package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/api"
	"baton/lab"
)

// TestAccessLog: requests that user space answers are in the access log, a log that was renamed is opened again by SIGUSR1, a reload changes
// outputs and VIPs, and a configuration whose file cannot be opened changes nothing.
func TestAccessLog(t *testing.T) {
	n := newNetwork(t)
	a := n.site("a", lab.LinkOptions{})
	serve(t, a.Host, a.name)
	log := filepath.Join(t.TempDir(), "access.log")
	config := func(access, quiet string) string {
		return fmt.Sprintf(`log: {access: [%[3]s]}
vips:
  - {address: "10.9.9.10:80", mode: redirect, interfaces: [%[1]s], routes: [{pool: a}]%[4]s}
  - {address: "10.9.9.11:80", mode: proxy, interfaces: [%[1]s], routes: [{match: {host: a.test}, pool: a}]}
pools:
  a: {surrogates: [{name: a, address: %[2]q}]}
`, n.front.Name, a.v4, access, quiet)
	}
	toFile := func(name string) string { return fmt.Sprintf("{to: file, path: %q}", name) }
	r := n.start(config(toFile(log), ""))
	ask := func(address, path, host string, status int) {
		t.Helper()
		got, err := n.open(t, address).ask("GET", "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: lab\r\nConnection: close\r\n\r\n")
		if err != nil || got.StatusCode != status {
			t.Fatalf("%+v, %v, want %d", got, err, status)
		}
	}

	ask("10.9.9.11:80", "/bytes/1000", "a.test", http.StatusOK)
	ask("10.9.9.11:80", "/none", "b.test", http.StatusNotFound)
	ask("10.9.9.10:80", "/moved", "a.test", http.StatusFound)
	type entry struct {
		VIP          string `json:"vip_address"`
		Path         string
		Status       int
		Surrogate    string
		Pool         string
		Served, End  string
		Bytes_sent   int
		User_agent   string
		Http_version string
		Client_port  int
		Request_id   string
	}
	entries := func(file string, count int) (all []entry) {
		t.Helper()
		lab.Eventually(t, answersWithin, func() error {
			text, err := os.ReadFile(file)
			if got := strings.Count(string(text), "\n"); err != nil || got != count {
				return fmt.Errorf("%d lines in %s, want %d: %v", got, file, count, err)
			}
			all = nil
			for line := range strings.Lines(string(text)) {
				var e entry
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if e.Client_port == 0 || len(e.Request_id) != 32 {
					t.Errorf("client or id is missing: %s", line)
				}
				e.Client_port, e.Request_id = 0, ""
				all = append(all, e)
			}
			return nil
		})
		return all
	}
	got := entries(log, 3)
	got[1].Bytes_sent, got[2].Bytes_sent = 0, 0 // lengths of the router's own texts
	if diff := cmp.Diff([]entry{
		{"10.9.9.11", "/bytes/1000", 200, "a", "a", "proxied", "complete", 1000, "lab", "1.1", 0, ""},
		{"10.9.9.11", "/none", 404, "", "", "answered", "complete", 0, "lab", "1.1", 0, ""},
		{"10.9.9.10", "/moved", 302, "", "", "redirected", "complete", 0, "lab", "1.1", 0, ""},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, answersWithin, func() error { _, err := os.Stat(log); return err })
	ask("10.9.9.11:80", "/bytes/1", "a.test", http.StatusOK)
	entries(log, 1)
	entries(log+".1", 3)

	if said := r.hangup(t, config(toFile("/does/not/exist"), "")); !strings.Contains(said, "log.access[0]: open /does/not/exist: no such file or directory") {
		t.Errorf("a reload with a file in no directory: %s", said)
	}
	ask("10.9.9.11:80", "/bytes/1", "a.test", http.StatusOK)
	entries(log, 2)

	other := log + ".other"
	if said := r.hangup(t, config(toFile(other), ", log: false")); !strings.Contains(said, "log.access has changed") {
		t.Errorf("a reload with another file: %s", said)
	}
	ask("10.9.9.10:80", "/moved", "a.test", http.StatusFound)
	ask("10.9.9.11:80", "/bytes/1", "a.test", http.StatusOK)
	if got := entries(other, 1); got[0].VIP != "10.9.9.11" {
		t.Errorf("a VIP that is not to be logged is: %+v", got)
	}
	entries(log, 2)

	client := api.NewClient(r.socket)
	defer client.Close()
	status, err := client.Router(context.Background())
	want := []api.RouterAccessLog{{Output: "file " + other, Written: 1, Lost: map[string]uint64{"queue": 0, "size": 0, "rejected": 0, "closing": 0, "kernel": 0}}}
	if diff := cmp.Diff(want, status.AccessLogs); diff != "" || err != nil {
		t.Errorf("%v, status (-want +got):\n%s", errors.Join(err), diff)
	}
}
