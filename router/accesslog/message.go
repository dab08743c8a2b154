package accesslog

import (
	"os"
	"strconv"
	"time"
)

// transport is what carries syslog messages.
type transport string

// The transports, as package net has them.
const (
	overUnix transport = "unixgram"
	overUDP  transport = "udp"
	overTCP  transport = "tcp"
)

// sender is who sends syslog messages.
type sender struct {
	host string
	pid  int
}

func self() sender {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "-" // RFC 5424, section 6.2.4
	}
	return sender{host, os.Getpid()}
}

// message wraps a line for a syslog. Over a network it is of RFC 5424, over TCP with its length before it (RFC 6587, section 3.4.1). The
// local socket has the form of syslog(3) instead: rsyslog and journald do not understand RFC 5424 there, unless they are told to.
type message struct {
	format
	over    transport
	info    string // what stands before the time, by severity
	warning string
	origin  string // what stands behind it
	time    stamp
	text    []byte
}

// Severities of RFC 5424, section 6.2.1.
const (
	severityWarning = 4
	severityInfo    = 6
)

func newMessage(f format, facility int, over transport, from sender) *message {
	m := &message{format: f, over: over, time: stamp{layout: "2006-01-02T15:04:05"}}
	version := "1 "
	m.origin = "Z " + from.host + " baton-router " + strconv.Itoa(from.pid) + " access - "
	if over == overUnix {
		version, m.time = "", stamp{layout: time.Stamp, zone: time.Local}
		m.origin = " baton-router[" + strconv.Itoa(from.pid) + "]: "
	}
	m.info = "<" + strconv.Itoa(facility*8+severityInfo) + ">" + version
	m.warning = "<" + strconv.Itoa(facility*8+severityWarning) + ">" + version
	return m
}

func (m *message) append(dst []byte, r *Record) []byte {
	text := m.text[:0]
	if r.Error() {
		text = append(text, m.warning...)
	} else {
		text = append(text, m.info...)
	}
	ended := r.Time.Add(r.Duration)
	text = m.time.append(text, ended)
	if m.over != overUnix {
		text = appendDigits(append(text, '.'), uint32(ended.Nanosecond()/int(time.Microsecond)), 6) // no more than 6: RFC 5424, section 6
	}
	text = append(text, m.origin...)
	text = m.format.append(text, r)
	m.text = text
	if m.over == overTCP {
		dst = append(strconv.AppendInt(dst, int64(len(text)), 10), ' ')
	}
	return append(dst, text...)
}
