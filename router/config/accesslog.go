package config

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"baton/document"
)

// LogTo is where an access log goes.
type LogTo string

// The destinations of an access log.
const (
	LogToFile   LogTo = "file"
	LogToStdout LogTo = "stdout"
	LogToSyslog LogTo = "syslog" // RFC 5424
	LogToOTLP   LogTo = "otlp"   // OpenTelemetry over HTTP, protobuf
)

// LogFormat is how a record becomes a line.
type LogFormat string

// The formats of a line.
const (
	LogJSON     LogFormat = "json"
	LogCommon   LogFormat = "common"   // Apache's
	LogCombined LogFormat = "combined" // common, referer and user agent
)

// Signal is what a record is in OpenTelemetry.
type Signal string

// The signals of an access log.
const (
	SignalLogs  Signal = "logs"
	SignalSpans Signal = "spans"
)

// AccessLog is one output of the access log.
type AccessLog struct {
	To       LogTo
	Format   LogFormat   // "" for OTLP
	Path     string      // of the file
	Address  *url.URL    // of syslog: unix:///dev/log, udp://host:port or tcp://host:port
	Facility int         // of syslog, RFC 5424 section 6.2.1
	Endpoint *url.URL    // of OTLP, with the path of the signal
	Signal   Signal      // of OTLP
	Headers  [][2]string // of OTLP, name and value, in the file's order
	CA       string      // of OTLP: file with the authorities that are trusted; "": the system's
	Gzip     bool        // of OTLP
	Sample   float64     // share of the requests, 0 to 1
	Errors   bool        // errors are logged whatever the share
	Queue    int         // bytes that wait to be written; what comes then is lost
	Line     int         // in the configuration
}

// Same tells whether two outputs do the same, wherever they stand in a file.
func (l AccessLog) Same(as AccessLog) bool {
	l.Line, as.Line = 0, 0
	return reflect.DeepEqual(l, as)
}

const (
	defaultLogQueue = 8 << 20
	leastLogQueue   = 64 << 10 // some hundred records
	mostLogQueue    = 1 << 30
	mostAccessLogs  = 16
	syslogPort      = "514"
	otlpPort        = "4318"
)

// facilities are the codes of RFC 5424, section 6.2.1, that a user's program may have.
var facilities = map[string]int{
	"user": 1, "daemon": 3, "local0": 16, "local1": 17, "local2": 18, "local3": 19, "local4": 20, "local5": 21, "local6": 22, "local7": 23,
}

func (d *decoder) accessLogs(path string, n *node) (out []AccessLog) {
	d.Fields(path, n, []key{
		{Name: "access", Help: "where requests are logged, at most 16 outputs (default: nowhere)", Decode: func(path string, n *node) {
			d.AtMost(path, n, mostAccessLogs)
			d.List(path, n, func(at string, n *node) { out = append(out, d.accessLog(at, n)) })
		}},
	})
	return out
}

// checkAccessLogs refuses two outputs into one file: each would rotate it under the other.
func (d *decoder) checkAccessLogs(cfg *Config) {
	first := make(map[string]int)
	for i, l := range cfg.Access {
		if l.Path == "" {
			continue
		}
		if line, twice := first[l.Path]; twice {
			d.Refuse(fmt.Sprintf("log.access[%d].path", i),
				fmt.Sprintf("%q is the file of the access log on line %d already", document.Clip(l.Path), line), "a file of its own")
			continue
		}
		first[l.Path] = l.Line
	}
}

func (d *decoder) accessLog(path string, n *node) AccessLog {
	l := AccessLog{To: destination(n), Sample: 1, Queue: defaultLogQueue, Line: n.Line}
	of := func(to ...LogTo) func(name, standard, help string, decode func(path string, n *node)) key {
		return func(name, standard, help string, decode func(path string, n *node)) key {
			return key{Name: name, Default: standard, Help: help, Decode: func(path string, n *node) {
				if l.To != "" && !slices.Contains(to, l.To) {
					d.Wrong(n, path, fmt.Sprintf("is not for an access log to %s", l.To), "without it")
					return
				}
				decode(path, n)
			}}
		}
	}
	lines, file, syslog, otlp := of(LogToFile, LogToStdout, LogToSyslog), of(LogToFile), of(LogToSyslog), of(LogToOTLP)
	d.Fields(path, n, []key{
		{Name: "to", Help: "where the log goes", Decode: func(path string, n *node) { d.Choice(path, n, "is not where an access log goes", destinations...) }},
		lines("format", "json", "form of a line; not for otlp", func(path string, n *node) {
			l.Format = LogFormat(d.Choice(path, n, "is not a format", string(LogJSON), string(LogCommon), string(LogCombined)))
		}),
		file("path", "", "file: absolute; its directory must exist", func(path string, n *node) { l.Path = d.FilePath(path, n) }),
		syslog("address", "unix:///dev/log", "syslog: a Unix socket, udp://HOST:PORT or tcp://HOST:PORT", func(path string, n *node) { l.Address = d.syslogAddress(path, n) }),
		syslog("facility", "local7", "syslog: facility of the messages", func(path string, n *node) { l.Facility = d.facility(path, n) }),
		otlp("endpoint", "", "otlp: URL of the collector; /v1/logs or /v1/traces is added when it has no path", func(path string, n *node) { l.Endpoint = d.URL(path, n, "http", "https") }),
		otlp("signal", "logs", "otlp: a log record, or a span of its own trace, for each request", func(path string, n *node) {
			l.Signal = Signal(d.Choice(path, n, "is not a signal", string(SignalLogs), string(SignalSpans)))
		}),
		otlp("headers", "", "otlp: HTTP headers by name, such as Authorization", func(path string, n *node) { l.Headers = d.otlpHeaders(path, n) }),
		otlp("ca", "", "otlp: PEM file with the authorities of the collector's certificate (default: the system's)", func(path string, n *node) { l.CA = d.FilePath(path, n) }),
		otlp("compression", "none", "otlp: compression of the requests", func(path string, n *node) {
			l.Gzip = d.Choice(path, n, "is not a compression", "none", "gzip") == "gzip"
		}),
		{Name: "sample", Default: "1", Help: "share of the requests that are logged, from 0 to 1", Decode: func(path string, n *node) { l.Sample = d.share(path, n) }},
		{Name: "always", Default: "nothing", Help: "errors: failed requests are logged whatever sample says", Decode: func(path string, n *node) {
			l.Errors = d.Choice(path, n, "is not what can always be logged", "errors", "nothing") == "errors"
		}},
		{Name: "queue", Default: "8MiB", Help: "formatted records that wait, from 64KiB to 1GiB; when it is full, newer ones are lost",
			Decode: func(path string, n *node) { l.Queue = int(d.Size(path, n, leastLogQueue, mostLogQueue)) }},
	})
	d.requireOf(path, n, &l)
	l.complete()
	return l
}

var destinations = []string{string(LogToFile), string(LogToStdout), string(LogToSyslog), string(LogToOTLP)}

// destination is what the key to says, wherever it stands; "" when it says nothing that is known.
func destination(n *node) LogTo {
	for _, f := range n.Fields {
		if f.Key == "to" && slices.Contains(destinations, f.Value.Text) {
			return LogTo(f.Value.Text)
		}
	}
	return ""
}

// requireOf refuses the lack of what a destination needs, and what makes no sense together.
func (d *decoder) requireOf(path string, n *node, l *AccessLog) {
	d.Require(path, n, "to")
	switch l.To {
	case LogToFile:
		d.Require(path, n, "path")
	case LogToOTLP:
		d.Require(path, n, "endpoint")
	}
	switch {
	case d.Err() != nil:
	case l.Sample == 0 && !l.Errors:
		d.Refuse(document.Join(path, "sample"), "is 0, so nothing is ever logged", "a share above 0, or always: errors")
	case l.CA != "" && l.Endpoint.Scheme != "https":
		d.Refuse(document.Join(path, "ca"), "is for an endpoint of https alone", "https://"+l.Endpoint.Host)
	}
}

// complete fills in the defaults of the destination.
func (l *AccessLog) complete() {
	switch l.To {
	case LogToSyslog:
		if l.Address == nil {
			l.Address = &url.URL{Scheme: "unix", Path: "/dev/log"}
		}
		if l.Facility == 0 {
			l.Facility = facilities["local7"] // as nginx has it
		}
	case LogToOTLP:
		if l.Signal == "" {
			l.Signal = SignalLogs
		}
		if l.Endpoint != nil {
			l.Endpoint = otlpEndpoint(l.Endpoint, l.Signal)
		}
		return
	}
	if l.Format == "" {
		l.Format = LogJSON
	}
}

// otlpEndpoint adds the port and the signal's path to a bare endpoint (OTLP specification, "OTLP/HTTP Request").
func otlpEndpoint(u *url.URL, s Signal) *url.URL {
	out := *u
	if out.Port() == "" && out.Scheme == "http" {
		out.Host += ":" + otlpPort
	}
	if out.Path == "" || out.Path == "/" {
		out.Path = map[Signal]string{SignalLogs: "/v1/logs", SignalSpans: "/v1/traces"}[s]
	}
	return &out
}

// syslogAddress decodes unix:///path, udp://host[:port] or tcp://host[:port].
func (d *decoder) syslogAddress(path string, n *node) *url.URL {
	const right = "such as unix:///dev/log, udp://192.0.2.7:514 or tcp://192.0.2.7:514"
	s := d.Text(path, n)
	if d.Err() != nil {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
	case u.Scheme == "unix" && u.Host == "" && len(u.Path) > 1 && len(u.Path) <= document.SocketPathLength:
		return u
	case u.Scheme == "unix":
	case u.Scheme != "udp" && u.Scheme != "tcp" || u.Hostname() == "" || u.Path != "":
	case u.Port() == "":
		u.Host += ":" + syslogPort
		return u
	default:
		if p, err := strconv.ParseUint(u.Port(), 10, 16); err == nil && p > 0 {
			return u
		}
	}
	d.WrongText(n, path, s, "is not the address of a syslog", right)
	return nil
}

func (d *decoder) facility(path string, n *node) int {
	names := make([]string, 0, len(facilities))
	for name := range facilities {
		names = append(names, name)
	}
	slices.Sort(names)
	return facilities[d.Choice(path, n, "is not a facility", names...)]
}

// share decodes a number from 0 to 1.
func (d *decoder) share(path string, n *node) float64 {
	s := d.Text(path, n)
	v, err := strconv.ParseFloat(s, 64)
	if d.Err() == nil && (err != nil || math.IsNaN(v) || v < 0 || v > 1) {
		d.WrongText(n, path, s, "is not a share", "a number from 0 to 1, such as 0.01 for one request in a hundred")
		return 0
	}
	return v
}

func (d *decoder) otlpHeaders(path string, n *node) (out [][2]string) {
	d.Entries(path, n, func(at, name string, n *node) {
		value := d.Text(at, n)
		switch {
		case d.Err() != nil:
		case !isToken(name):
			d.Wrong(n, at, fmt.Sprintf("%q is not the name of a header", document.Clip(name)), "such as Authorization")
		case slices.Contains([]string{"Content-Type", "Content-Encoding", "Content-Length", "Host"}, http.CanonicalHeaderKey(name)):
			d.Wrong(n, at, "is set by the router itself", "without it")
		default:
			out = append(out, [2]string{http.CanonicalHeaderKey(name), value})
		}
	})
	return out
}
