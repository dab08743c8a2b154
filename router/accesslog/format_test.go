package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"baton/router/config"
)

func formatted(f format, r Record) string { return string(f.append(nil, &r)) }

func TestGoldenLines(t *testing.T) {
	known, tls := sample(), session()
	empty := Record{Time: time.Unix(0, 0)}
	for _, tt := range []struct {
		name, want string
		f          format
		r          Record
	}{
		{"json, all known", `{"time":"2026-11-25T13:55:36.007000120Z","request_id":"4bf92f3577b34da6a3ce929d0e0e4736",` +
			`"client_address":"192.0.2.7","client_port":50123,"vip_address":"10.9.9.9","vip_port":80,"vip":"cdn","protocol":"http",` +
			`"host":"cdn.example.net","method":"GET","path":"/video/1?x=2","path_truncated":true,"http_version":"1.1","status":200,` +
			`"surrogate":"s1","surrogate_address":"2001:db8::1","surrogate_port":8080,"pool":"video","bytes_received":120,"bytes_sent":1099511627776,` +
			`"bytes_of_session":true,"first_byte_seconds":0.0015,"duration_seconds":2.25,"client_retransmissions":1,"surrogate_retransmissions":2,` +
			`"end":"server-fin","served":"proxied","user_agent":"curl/7.88.1","referer":"http://a.example/"}`, newFormat(config.LogJSON), known},
		{"json, TLS", `{"time":"2026-11-25T13:55:37.000000000Z","client_address":"2001:db8::7","client_port":443,"vip_address":"2001:db8::9",` +
			`"vip_port":443,"protocol":"tls","host":"a.example","surrogate":"s1","pool":"tls","bytes_received":0,"bytes_sent":0,` +
			`"bytes_of_session":true,"duration_seconds":0,"client_retransmissions":0,"surrogate_retransmissions":0,"end":"client-fin",` +
			`"served":"spliced"}`, newFormat(config.LogJSON), tls},
		{"json, nothing known", `{"time":"1970-01-01T00:00:00.000000000Z","protocol":"http","bytes_received":0,"bytes_sent":0,"duration_seconds":0,` +
			`"client_retransmissions":0,"surrogate_retransmissions":0,"end":"complete","served":"spliced"}`, newFormat(config.LogJSON), empty},
		{"common", `192.0.2.7 - - [25/Nov/2026:13:55:36 +0000] "GET /video/1?x=2 HTTP/1.1" 200 1099511627776`, newFormat(config.LogCommon), known},
		{"combined", `192.0.2.7 - - [25/Nov/2026:13:55:36 +0000] "GET /video/1?x=2 HTTP/1.1" 200 1099511627776 "http://a.example/" "curl/7.88.1"`,
			newFormat(config.LogCombined), known},
		{"combined, TLS", `2001:db8::7 - - [25/Nov/2026:13:55:37 +0000] "-" - - "-" "-"`, newFormat(config.LogCombined), tls},
		{"common, nothing known", `- - - [01/Jan/1970:00:00:00 +0000] "-" - -`, newFormat(config.LogCommon), empty},
		{"syslog", `<190>1 2026-11-25T13:55:37.000000Z h baton-router 7 access - 2001:db8::7 - - [25/Nov/2026:13:55:37 +0000] "-" - -`,
			newMessage(newFormat(config.LogCommon), 23, overUDP, sender{"h", 7}), tls},
		{"syslog, on a stream", `113 <134>1 2026-11-25T13:55:37.000000Z h baton-router 7 access - 2001:db8::7 - - [25/Nov/2026:13:55:37 +0000] "-" - -`,
			newMessage(newFormat(config.LogCommon), 16, overTCP, sender{"h", 7}), tls},
		{"syslog, local", "<190>" + tls.Time.Local().Format(time.Stamp) + ` baton-router[7]: 2001:db8::7 - - [25/Nov/2026:13:55:37 +0000] "-" - -`,
			newMessage(newFormat(config.LogCommon), 23, overUnix, sender{"h", 7}), tls},
	} {
		if got := formatted(tt.f, tt.r); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestVersions holds how each version looks in a request line.
func TestVersions(t *testing.T) {
	for v, want := range map[Version]string{
		NoVersion: `"GET /"`, HTTP10: `"GET / HTTP/1.0"`, HTTP11: `"GET / HTTP/1.1"`, HTTP2: `"GET / HTTP/2.0"`, HTTP3: `"GET / HTTP/3.0"`,
	} {
		if got := formatted(newFormat(config.LogCommon), Record{Method: []byte("GET"), Path: []byte("/"), Version: v}); !strings.Contains(got, want) {
			t.Errorf("version %v: %s, want %s", v, got, want)
		}
	}
}

// TestForging: nothing that a stranger sends makes a second line, or ends a field.
func TestForging(t *testing.T) {
	r := sample()
	r.Path = []byte("/\" 200 1\n192.0.2.1 - - [x] \"GET /forged\x1b[2J\\\xff\x7f")
	r.UserAgent = []byte("a\"b\\\r\nc\u009b\u2028")
	want := `192.0.2.7 - - [25/Nov/2026:13:55:36 +0000] "GET /\x22\x20200\x201\x0A192.0.2.1\x20-\x20-\x20[x]\x20\x22GET\x20/forged\x1B[2J\x5C\xFF\x7F HTTP/1.1" ` +
		`200 1099511627776 "http://a.example/" "a\x22b\x5C\x0D\x0Ac\xC2\x9B\xE2\x80\xA8"`
	if got := formatted(newFormat(config.LogCombined), r); got != want {
		t.Errorf("combined:\n got %s\nwant %s", got, want)
	}
	wantPath := `"path":"/\" 200 1\u000a192.0.2.1 - - [x] \"GET /forged\u001b[2J\\\ufffd\u007f"`
	got := formatted(newFormat(config.LogJSON), r)
	if !strings.Contains(got, wantPath) || !strings.Contains(got, `"user_agent":"a\"b\\\u000d\u000ac\u009b\u2028"`) {
		t.Errorf("json:\n got %s\nwant %s in it", got, wantPath)
	}
}

// TestLongFields: a line has a bound, and says that the path is only its beginning.
func TestLongFields(t *testing.T) {
	long := bytes.Repeat([]byte{1}, 1<<20)
	r := Record{Host: long, Method: long, Path: long, UserAgent: long, Referer: long}
	for _, f := range []config.LogFormat{config.LogJSON, config.LogCombined} {
		got := formatted(newMessage(newFormat(f), 23, overUDP, self()), r)
		if len(got) > 65507-40 { // UDP over IPv6, RFC 768
			t.Errorf("%s: a line of %d bytes does not fit into a datagram", f, len(got))
		}
	}
	if got := formatted(newFormat(config.LogJSON), r); !strings.Contains(got, `"path_truncated":true`) {
		t.Errorf("a path that was cut is not marked: %.100s", got)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0", 0: "0", 1: "0.000000001", time.Millisecond: "0.001", time.Second: "1", 90*time.Minute + 500*time.Millisecond: "5400.5",
		1<<63 - 1: "9223372036.854775807",
	} {
		if got := string(appendSeconds(nil, d)); got != want {
			t.Errorf("appendSeconds(%d) = %s, want %s", d, got, want)
		}
	}
}

// FuzzLines: whatever a stranger sends, a record is one line of printable ASCII, and the line says what the record says.
func FuzzLines(f *testing.F) {
	f.Add([]byte("cdn.example.net"), []byte("GET"), []byte("/video/1?x=2"), []byte("curl/7.88.1"), []byte("http://a.example/"), 200, uint64(10), int64(1<<40), uint8(2))
	f.Add([]byte("\"\\\n"), []byte(" \x00"), []byte("/\xff\" \\x22"), []byte("\xf0\x9f\x98\x80\u2028\x7f"), []byte("-"), 0, uint64(0), int64(-1), uint8(0))
	f.Fuzz(func(t *testing.T, host, method, path, agent, referer []byte, status int, sent uint64, nanoseconds int64, version uint8) {
		r := Record{
			Time: time.Unix(nanoseconds&(1<<36-1)-1<<35, nanoseconds&(1<<29-1)).UTC(), Client: sample().Client, Host: host, Method: method, Path: path,
			Status: max(status, 0), FromSurrogate: sent, Version: Version(version % 5), UserAgent: agent, Referer: referer,
		}
		for _, kind := range []config.LogFormat{config.LogJSON, config.LogCommon, config.LogCombined} {
			got := formatted(newFormat(kind), r)
			for _, c := range []byte(got) {
				if c < ' ' || c > '~' {
					t.Fatalf("%s: byte %#x in %q", kind, c, got)
				}
			}
			if kind == config.LogJSON {
				checkJSON(t, got, &r)
			} else {
				checkApache(t, got, &r, kind == config.LogCombined)
			}
		}
	})
}

func checkJSON(t *testing.T, got string, r *Record) {
	t.Helper()
	var parsed struct {
		Time                                      time.Time
		Host, Method, Path, Referer, HTTP_version string
		User_agent                                string
		Path_truncated                            bool
		Status                                    int
		Bytes_sent                                uint64
	}
	if err := json.Unmarshal([]byte(got), &parsed); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	// encoding/json has U+FFFD for what is not UTF-8, as we do.
	text := func(b []byte, longest int) (s string) {
		quoted, err := json.Marshal(string(b[:min(len(b), longest)]))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(quoted, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, f := range []struct{ name, got, want string }{
		{"host", parsed.Host, text(r.Host, 255)}, {"method", parsed.Method, text(r.Method, 64)}, {"path", parsed.Path, text(r.Path, 2048)},
		{"referer", parsed.Referer, text(r.Referer, 2048)}, {"user_agent", parsed.User_agent, text(r.UserAgent, 2048)},
		{"http_version", parsed.HTTP_version, r.Version.String()}, {"time", parsed.Time.Format(time.RFC3339Nano), r.Time.Format(time.RFC3339Nano)},
		{"status", fmt.Sprint(parsed.Status), fmt.Sprint(r.Status)}, {"bytes_sent", fmt.Sprint(parsed.Bytes_sent), fmt.Sprint(r.FromSurrogate)},
		{"path_truncated", fmt.Sprint(parsed.Path_truncated), fmt.Sprint(len(r.Path) > 2048)},
	} {
		if f.got != f.want {
			t.Fatalf("%s is %q, want %q in %s", f.name, f.got, f.want, got)
		}
	}
}
