package config

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/document/documenttest"
)

func address(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAccessLogs(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       AccessLog
	}{
		{"file", "{to: file, path: /var/log/a}", AccessLog{To: LogToFile, Path: "/var/log/a", Format: LogJSON, Sample: 1, Queue: 8 << 20}},
		{"file, every key", "{path: /a, format: combined, sample: 0.01, always: errors, queue: 1MiB, to: file}",
			AccessLog{To: LogToFile, Path: "/a", Format: LogCombined, Sample: 0.01, Errors: true, Queue: 1 << 20}},
		{"errors alone", "{to: stdout, format: common, sample: 0, always: errors}",
			AccessLog{To: LogToStdout, Format: LogCommon, Errors: true, Queue: 8 << 20}},
		{"syslog", "{to: syslog, always: nothing}",
			AccessLog{To: LogToSyslog, Address: address(t, "unix:///dev/log"), Facility: 23, Format: LogJSON, Sample: 1, Queue: 8 << 20}},
		{"syslog over UDP", "{to: syslog, address: 'udp://[2001:db8::1]', facility: daemon}",
			AccessLog{To: LogToSyslog, Address: address(t, "udp://[2001:db8::1]:514"), Facility: 3, Format: LogJSON, Sample: 1, Queue: 8 << 20}},
		{"syslog over TCP", "{to: syslog, address: 'tcp://log.example.net:6514', format: common}",
			AccessLog{To: LogToSyslog, Address: address(t, "tcp://log.example.net:6514"), Facility: 23, Format: LogCommon, Sample: 1, Queue: 8 << 20}},
		{"OTLP", "{to: otlp, endpoint: 'http://127.0.0.1'}",
			AccessLog{To: LogToOTLP, Endpoint: address(t, "http://127.0.0.1:4318/v1/logs"), Signal: SignalLogs, Sample: 1, Queue: 8 << 20}},
		{"OTLP, every key", "{to: otlp, signal: spans, endpoint: 'https://c.example.net/', headers: {authorization: Bearer x, X-A: b}, ca: /ca.pem, compression: gzip}",
			AccessLog{To: LogToOTLP, Endpoint: address(t, "https://c.example.net/v1/traces"), Signal: SignalSpans,
				Headers: [][2]string{{"Authorization", "Bearer x"}, {"X-A", "b"}}, CA: "/ca.pem", Gzip: true, Sample: 1, Queue: 8 << 20}},
		{"OTLP, a path of its own", "{to: otlp, endpoint: 'http://c:1/x/logs?a=b', compression: none}",
			AccessLog{To: LogToOTLP, Endpoint: address(t, "http://c:1/x/logs?a=b"), Signal: SignalLogs, Sample: 1, Queue: 8 << 20}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte("log: {access: ["+tt.text+"]}\n"+minimal))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Line = 1
			if diff := cmp.Diff([]AccessLog{tt.want}, cfg.Access); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnlogged: a VIP is logged unless it says otherwise.
func TestUnlogged(t *testing.T) {
	for text, want := range map[string]bool{"": false, "    log: true\n": false, "    log: false\n": true} {
		cfg, err := Parse("f", []byte(strings.Replace(minimal, "    routes:", text+"    routes:", 1)))
		if err != nil || cfg.VIPs[0].Unlogged != want {
			t.Errorf("%q: unlogged %v, %v", text, cfg, err)
		}
	}
}

func TestAccessLogsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                                   `f:1:16: log.access[0].to: is missing (to: file)`,
		"{tp: file}":                                           `f:1:17: log.access[0].tp: is not a key (did you mean to?)`,
		"{to: fil}":                                            `f:1:21: log.access[0].to: "fil" is not where an access log goes (did you mean file?)`,
		"{to: kafka}":                                          `f:1:21: log.access[0].to: "kafka" is not where an access log goes (file, stdout, syslog or otlp)`,
		"{to: file}":                                           `f:1:17: log.access[0].path: is missing (path: /path/to/file)`,
		"{to: file, path: a.log}":                              `f:1:33: log.access[0].path: "a.log" is not usable as a path (an absolute path of at most 4095 bytes)`,
		"{to: stdout, path: /a}":                               `f:1:35: log.access[0].path: is not for an access log to stdout (without it)`,
		"{to: stdout, format: jsn}":                            `f:1:37: log.access[0].format: "jsn" is not a format (did you mean json?)`,
		"{to: stdout, sample: 2}":                              `f:1:37: log.access[0].sample: "2" is not a share (a number from 0 to 1, such as 0.01 for one request in a hundred)`,
		"{to: stdout, sample: nan}":                            `f:1:37: log.access[0].sample: "nan" is not a share (a number from 0 to 1, such as 0.01 for one request in a hundred)`,
		"{to: stdout, sample: 1%}":                             `f:1:37: log.access[0].sample: "1%" is not a share (a number from 0 to 1, such as 0.01 for one request in a hundred)`,
		"{to: stdout, sample: 0}":                              `f:1:37: log.access[0].sample: is 0, so nothing is ever logged (a share above 0, or always: errors)`,
		"{to: stdout, always: eror}":                           `f:1:37: log.access[0].always: "eror" is not what can always be logged (did you mean errors?)`,
		"{to: stdout, queue: 1KiB}":                            `f:1:36: log.access[0].queue: "1KiB" is out of range (from 64KiB to 1GiB)`,
		"{to: syslog, address: /d}":                            `f:1:38: log.access[0].address: "/d" is not the address of a syslog (such as unix:///dev/log, udp://192.0.2.7:514 or tcp://192.0.2.7:514)`,
		"{to: syslog, address: 'tls://a:1'}":                   `f:1:38: log.access[0].address: "tls://a:1" is not the address of a syslog (such as unix:///dev/log, udp://192.0.2.7:514 or tcp://192.0.2.7:514)`,
		"{to: syslog, address: 'udp://a:0'}":                   `f:1:38: log.access[0].address: "udp://a:0" is not the address of a syslog (such as unix:///dev/log, udp://192.0.2.7:514 or tcp://192.0.2.7:514)`,
		"{to: syslog, facility: local8}":                       `f:1:39: log.access[0].facility: "local8" is not a facility (did you mean local0?)`,
		"{to: otlp}":                                           `f:1:17: log.access[0].endpoint: is missing (endpoint: "http://host:port/path")`,
		"{to: otlp, endpoint: 'grpc://c'}":                     `f:1:37: log.access[0].endpoint: "grpc://c" is not http or https (http://host:port/path)`,
		"{to: otlp, endpoint: 'http://c', signal: metrics}":    `f:1:57: log.access[0].signal: "metrics" is not a signal (logs or spans)`,
		"{to: otlp, endpoint: 'http://c', format: json}":       `f:1:57: log.access[0].format: is not for an access log to otlp (without it)`,
		"{to: otlp, endpoint: 'http://c', ca: /a}":             `f:1:53: log.access[0].ca: is for an endpoint of https alone (https://c)`,
		"{to: otlp, endpoint: 'http://c', compression: zstd}":  `f:1:62: log.access[0].compression: "zstd" is not a compression (none or gzip)`,
		"{to: otlp, endpoint: 'http://c', headers: {a b: c}}":  `f:1:64: log.access[0].headers."a b": "a b" is not the name of a header (such as Authorization)`,
		"{to: otlp, endpoint: 'http://c', headers: {host: c}}": `f:1:65: log.access[0].headers.host: is set by the router itself (without it)`,
		"{to: file, path: /a}, {to: file, path: /a}":           `f:1:55: log.access[1].path: "/a" is the file of the access log on line 1 already (a file of its own)`,
		"{to: stdout, path: /a, format: x, sample: 2, endpoint: 'http://a'}": strings.Join([]string{
			`f:1:35: log.access[0].path: is not for an access log to stdout (without it)`,
			`f:1:47: log.access[0].format: "x" is not a format (json, common or combined)`,
			`f:1:58: log.access[0].sample: "2" is not a share (a number from 0 to 1, such as 0.01 for one request in a hundred)`,
			`f:1:71: log.access[0].endpoint: is not for an access log to stdout (without it)`,
		}, "\n"),
	} {
		cfg, err := Parse("f", []byte("log: {access: ["+text+"]}\n"+minimal))
		if cfg != nil || !documenttest.Reported(err, want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
