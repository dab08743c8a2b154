package accesslog

import (
	"os"
	"strconv"
	"time"
)

// syslogLine wraps a line into a message of RFC 5424, on a stream with its length before it (RFC 6587, section 3.4.1).
type syslogLine struct {
	format
	stream  bool
	info    string // what stands before the time, by severity
	warning string
	origin  string // host, program, process and kind of message
	time    stamp
	message []byte
}

// Severities of RFC 5424, section 6.2.1.
const (
	severityWarning = 4
	severityInfo    = 6
)

func newSyslogLine(f format, facility int, stream bool, origin string) *syslogLine {
	priority := func(severity int) string { return "<" + strconv.Itoa(facility*8+severity) + ">1 " }
	return &syslogLine{
		format: f, stream: stream, info: priority(severityInfo), warning: priority(severityWarning), origin: origin,
		time: stamp{layout: "2006-01-02T15:04:05"},
	}
}

func (s *syslogLine) append(dst []byte, r *Record) []byte {
	m := s.message[:0]
	if r.Error() {
		m = append(m, s.warning...)
	} else {
		m = append(m, s.info...)
	}
	ended := r.Time.Add(r.Duration)
	m = s.time.append(m, ended)
	m = appendDigits(append(m, '.'), uint32(ended.Nanosecond()/int(time.Microsecond)), 6) // no more than 6 digits: section 6
	m = append(append(m, 'Z'), s.origin...)
	m = s.format.append(m, r)
	s.message = m
	if s.stream {
		dst = append(strconv.AppendInt(dst, int64(len(m)), 10), ' ')
	}
	return append(dst, m...)
}

func hostname() string {
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "-"
}

// origin is what a syslog message says of its sender (RFC 5424, section 6): host, program, process, kind of message, no structured data.
func origin() string {
	return " " + hostname() + " baton-router " + strconv.Itoa(os.Getpid()) + " access - "
}
