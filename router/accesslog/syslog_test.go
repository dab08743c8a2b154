package accesslog

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	parser "github.com/leodido/go-syslog/v4"
	"github.com/leodido/go-syslog/v4/octetcounting"
	"github.com/leodido/go-syslog/v4/rfc5424"

	"baton/router/config"
)

func toSyslog(address string) config.AccessLog {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return config.AccessLog{To: config.LogToSyslog, Address: u, Facility: 23, Format: config.LogCommon, Sample: 1, Queue: 1 << 20}
}

// checkMessage holds a message that somebody else has parsed against the record that it was made of.
func checkMessage(t *testing.T, got parser.Message, r *Record) {
	t.Helper()
	m, ok := got.(*rfc5424.SyslogMessage)
	if !ok {
		t.Fatalf("not a message: %v", got)
	}
	severity := uint8(6)
	if r.Error() {
		severity = 4
	}
	host, _ := os.Hostname()
	if *m.Facility != 23 || *m.Severity != severity || m.Version != 1 || !m.Timestamp.Equal(r.Time) || *m.Hostname != host ||
		*m.Appname != "baton-router" || *m.ProcID != fmt.Sprint(os.Getpid()) || *m.MsgID != "access" || m.StructuredData != nil {
		t.Errorf("%+v", m)
	}
	if want := strings.TrimSuffix(lines([]Record{*r}), "\n"); *m.Message != want {
		t.Errorf("message\n got %s\nwant %s", *m.Message, want)
	}
}

func TestSyslogUDP(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, _ := open(t, access(toSyslog("udp://"+l.LocalAddr().String())))
	records := numbered(0, 5)
	records[3].Status = 500
	w.Write(records)
	buf := make([]byte, 1<<16)
	for i := range records {
		n, _, err := l.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		m, err := rfc5424.NewParser().Parse(buf[:n])
		if err != nil {
			t.Fatalf("%v: %s", err, buf[:n])
		}
		checkMessage(t, m, &records[i])
	}
	eventually(t, "they are counted", func() bool { return w.Stats()[0].Written == 5 })
}

// TestSyslogComesLater: records wait for a syslog that is not there yet, or again.
func TestSyslogComesLater(t *testing.T) {
	at := filepath.Join(t.TempDir(), "log")
	w, log := open(t, access(toSyslog("unix://"+at)))
	receive := func(from, to int) {
		t.Helper()
		_ = os.Remove(at) // a socket that nobody has open stays
		l, err := net.ListenPacket("unixgram", at)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		buf := make([]byte, 1<<16)
		for i := from; i < to; i++ {
			n, _, err := l.ReadFrom(buf)
			if err != nil || !bytes.Contains(buf[:n], fmt.Appendf(nil, "GET /%d HTTP", i)) {
				t.Fatalf("message %d: %s, %v", i, buf[:n], err)
			}
		}
	}
	w.Write(numbered(0, 3))
	eventually(t, "the trouble is reported", func() bool { return log.count("is not written") == 1 })
	receive(0, 3)
	w.Write(numbered(3, 6))
	eventually(t, "it is reported again", func() bool { return log.count("is not written") == 2 })
	receive(3, 6)
}

// TestSyslogFullSocket: a syslog that does not read its socket costs the newest records, and the others arrive when it does.
func TestSyslogFullSocket(t *testing.T) {
	at := filepath.Join(t.TempDir(), "log")
	l, err := net.ListenPacket("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := toSyslog("unix://" + at)
	cfg.Queue = 64 << 10
	w, log := open(t, access(cfg))
	w.Write(numbered(0, 100))
	eventually(t, "the trouble is reported", func() bool { return log.count("i/o timeout") == 1 })
	w.Write(numbered(100, 2000))
	buf := make([]byte, 1<<16)
	var got []string
	for lost := w.Stats()[0].Lost["queue"]; uint64(len(got)) < 2000-lost; {
		n, _, err := l.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(buf[:n]))
	}
	if len(got) == 2000 {
		t.Error("none was lost: the queue was not full")
	}
	for i, m := range got {
		if !strings.Contains(m, fmt.Sprintf("GET /%d HTTP", i)) {
			t.Fatalf("message %d is %s", i, m)
		}
	}
}

// TestSyslogTooLong: a message that the socket cannot carry is counted, and the next ones arrive.
func TestSyslogTooLong(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newSyslog(toSyslog("udp://" + l.LocalAddr().String()).Address)
	b := &batch{data: make([]byte, 70_003), ends: []int{1, 70_001, 70_003}}
	if err := s.deliver(t.Context(), b); err != nil || b.written != 2 || b.lost[LostSize] != 1 || b.left() != 0 {
		t.Errorf("%d written, %v lost, %d left: %v", b.written, b.lost, b.left(), err)
	}
}

// TestSyslogTCP: messages are framed by their length, and those that follow a connection that was closed arrive on the next.
func TestSyslogTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, _ := open(t, access(toSyslog("tcp://"+l.Addr().String())))
	for round := range 3 {
		records := numbered(10*round, 10*round+10)
		w.Write(records)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *parser.Result, len(records))
		go octetcounting.NewParser(parser.WithListener(func(r *parser.Result) {
			if r.Message != nil {
				got <- r
			}
		})).Parse(conn)
		for i := range records {
			checkMessage(t, (<-got).Message, &records[i])
		}
		conn.Close()
	}
}

// freePort is one of TCP that nobody has.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
