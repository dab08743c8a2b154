package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/router/config"
)

// visits are requests of several clients, a forged line among them, and a session of TLS at the end.
func visits() []Record {
	request := func(client, method, path string, status int, bytes uint64, agent string) Record {
		return Record{
			Time: sample().Time, Client: netip.AddrPortFrom(netip.MustParseAddr(client), 1234), Method: []byte(method), Path: []byte(path),
			Version: HTTP11, Status: status, FromSurrogate: bytes, UserAgent: []byte(agent),
		}
	}
	return []Record{
		request("192.0.2.7", "GET", "/video/1?x=2", 200, 1<<40, "curl/7.88.1"),
		request("192.0.2.7", "GET", "/video/1?x=2", 200, 1<<40, "a \"quoted\\\" agent"),
		request("192.0.2.8", "HEAD", "/nothing", 404, 0, ""),
		request("2001:db8::7", "POST", "/upload", 503, 12, "wget"),
		request("2001:db8::7", "GET", "/\" 200 1\n203.0.113.1 - - [25/Nov/2026:13:55:36 +0000] \"GET /forged HTTP/1.1\" 200 5", 200, 7, "x\" \"y"),
		session(),
	}
}

// TestGoAccess: GoAccess reads what was written, in both of Apache's formats, and neither more nor less.
func TestGoAccess(t *testing.T) {
	goaccess, err := exec.LookPath("goaccess")
	if err != nil {
		t.Skip("goaccess is not installed (make deps)")
	}
	for _, f := range []config.LogFormat{config.LogCommon, config.LogCombined} {
		t.Run(string(f), func(t *testing.T) {
			l := toFile(filepath.Join(t.TempDir(), "access.log"))
			l.Format = f
			w, _ := open(t, access(l))
			w.Write(visits())
			w.Close()
			report := filepath.Join(t.TempDir(), "report.json")
			out, err := exec.Command(goaccess, l.Path, "--no-global-config", "--log-format="+strings.ToUpper(string(f)), "--no-progress", "-o", report).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			checkReport(t, report)
		})
	}
}

func checkReport(t *testing.T, report string) {
	t.Helper()
	type hits struct {
		Data   string
		Hits   struct{ Count int }
		Bytes  struct{ Count uint64 }
		Method string
	}
	var read struct {
		General struct {
			Valid_requests, Failed_requests int
			Bandwidth                       uint64
		}
		Requests, Not_found, Hosts struct{ Data []hits }
	}
	if err := json.Unmarshal([]byte(content(t, report)), &read); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{
		"all": fmt.Sprintf("%d valid, %d failed, %d bytes", read.General.Valid_requests, read.General.Failed_requests, read.General.Bandwidth),
	}
	for _, h := range append(read.Requests.Data, read.Not_found.Data...) {
		got[h.Method+" "+h.Data] = fmt.Sprintf("%d hits, %d bytes", h.Hits.Count, h.Bytes.Count)
	}
	for _, h := range read.Hosts.Data {
		got[h.Data] = fmt.Sprintf("%d hits", h.Hits.Count)
	}
	want := map[string]string{
		"all":              "5 valid, 1 failed, 2199023255571 bytes", // the session of TLS has no request
		"GET /video/1?x=2": "2 hits, 2199023255552 bytes", "HEAD /nothing": "1 hits, 0 bytes", "POST /upload": "1 hits, 12 bytes",
		`GET /\x22\x20200\x201\x0A203.0.113.1\x20-\x20-\x20[25/Nov/2026:13:55:36\x20+0000]\x20\x22GET\x20/forged\x20HTTP/1.1\x22\x20200\x205`: "1 hits, 7 bytes",
		"192.0.2.7": "2 hits", "192.0.2.8": "1 hits", "2001:db8::7": "2 hits",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GoAccess has read something else (-written +read):\n%s", diff)
	}
}

// TestRsyslog: rsyslog takes messages over each transport, and finds in them what they were made of.
func TestRsyslog(t *testing.T) {
	dir := t.TempDir()
	socket, out, port := filepath.Join(dir, "log"), filepath.Join(dir, "out"), freePort(t)
	startRsyslog(t, dir, fmt.Sprintf(`
module(load="imuxsock" SysSock.Use="off")
module(load="imtcp")
module(load="imudp")
input(type="imuxsock" Socket="%s" CreatePath="on" RateLimit.Interval="0")
input(type="imtcp" address="127.0.0.1" port="%d")
input(type="imudp" address="127.0.0.1" port="%d")
template(name="parsed" type="string" string="%%syslogfacility-text%% %%syslogseverity-text%% %%app-name%% %%procid%% %%msgid%% |%%msg%%\n")
*.* action(type="omfile" file="%s" template="parsed")
`, socket, port, port, out))
	for _, address := range []string{"unix://" + socket, fmt.Sprintf("udp://127.0.0.1:%d", port), fmt.Sprintf("tcp://127.0.0.1:%d", port)} {
		t.Run(address[:4], func(t *testing.T) {
			_ = os.Truncate(out, 0)
			l := toSyslog(address)
			l.Format = config.LogJSON
			w, _ := open(t, access(l))
			w.Write(visits())
			eventually(t, "all messages are there", func() bool { return strings.Count(content(t, out), "\n") >= len(visits()) })
			kind := "access"
			if strings.HasPrefix(address, "unix") {
				kind = "-" // syslog(3) has none
			}
			var want strings.Builder
			for _, r := range visits() {
				severity := "info"
				if r.Error() {
					severity = "warning"
				}
				fmt.Fprintf(&want, "local7 %s baton-router %d %s |%s\n", severity, os.Getpid(), kind, newFormat(config.LogJSON).append(nil, &r))
			}
			if diff := cmp.Diff(want.String(), strings.ReplaceAll(content(t, out), "| {", "|{")); diff != "" {
				t.Errorf("rsyslog has read something else (-written +read):\n%s", diff)
			}
		})
	}
}

// startRsyslog runs one until the end of the test, with nothing of the host's.
func startRsyslog(t *testing.T, dir, conf string) {
	t.Helper()
	rsyslogd, err := exec.LookPath("rsyslogd")
	if err != nil {
		t.Skip("rsyslogd is not installed (make deps)")
	}
	file := filepath.Join(dir, "rsyslog.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(rsyslogd, "-n", "-f", file, "-i", filepath.Join(dir, "pid"))
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("rsyslogd says: %s", said.String())
		}
	})
	eventually(t, "rsyslogd runs", func() bool { _, err := os.Stat(filepath.Join(dir, "log")); return err == nil })
}
