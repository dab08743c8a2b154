package sockdiag

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"baton/datapath/kerneltest"
)

// TestDump is a request with a filter byte by byte, as linux/netlink.h, linux/inet_diag.h and linux/rtnetlink.h have it.
func TestDump(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("SKIP: the bytes are those of a little-endian machine")
	}
	f := Filter{Local: []netip.Prefix{netip.MustParsePrefix("192.0.0.2/32"), netip.MustParsePrefix("64:ff9b:1::2/128")}}
	code, err := f.code()
	if err != nil {
		t.Fatal(err)
	}
	got := appendDump(nil, 9, unix.AF_INET, unix.IPPROTO_TCP, 2, Connected, code)
	want := []byte{
		124, 0, 0, 0, // length
		20, 0, 1, 3, // SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP
		9, 0, 0, 0, // sequence
		0, 0, 0, 0, // port
		2, 6, 2, 0, // AF_INET, IPPROTO_TCP, INET_DIAG_INFO
		0x32, 0x0b, 0, 0, // states 1, 4, 5, 8, 9, 11
	}
	want = append(want, make([]byte, 48)...)
	want = append(want,
		52, 0, 1, 0, // INET_DIAG_REQ_BYTECODE
		7, 16, 20, 0, // INET_DIAG_BC_S_COND: true: to the jump; not: behind it
		2, 32, 0, 0, 255, 255, 255, 255, // AF_INET, /32, any port
		192, 0, 0, 2,
		1, 4, 32, 0, // INET_DIAG_BC_JMP to the end
		7, 28, 32, 0, // true: to the end; not: 4 bytes beyond
		10, 128, 0, 0, 255, 255, 255, 255, // AF_INET6, /128
		0, 0x64, 0xff, 0x9b, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n% x\nwant\n% x", got, want)
	}
}

// collect lists by the addresses of the sockets' ends, which are unique.
func collect(t *testing.T, c *Conn, f Filter) map[netip.AddrPort]TCP {
	t.Helper()
	found := map[netip.AddrPort]TCP{}
	if err := c.ListTCP(f, func(s *TCP) { found[s.Local] = *s }); err != nil {
		t.Fatal(err)
	}
	return found
}

func open(t testing.TB) *Conn {
	t.Helper()
	kerneltest.Need(t)
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestListFilter: the kernel lets through the sockets of the prefixes that are asked for, those of IPv4 in sockets of IPv6 with them,
// however many prefixes there are.
func TestListFilter(t *testing.T) {
	c := open(t)
	type end struct{ opened, accepted netip.AddrPort }
	ends := map[string]end{}
	for _, at := range []string{"127.0.1.1", "127.0.2.1", "::1"} {
		o, a := connection(t, netip.AddrPortFrom(netip.MustParseAddr(at), 0).String())
		ends[at] = end{named(t, o).Local, named(t, a).Local}
	}
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	o, err := net.Dial("tcp4", net.JoinHostPort("127.0.3.1", port))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	mapped, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	ends["mapped"] = end{accepted: named(t, mapped.(*net.TCPConn)).Local}

	prefixes := func(texts ...string) (list []netip.Prefix) {
		for _, s := range texts {
			list = append(list, netip.MustParsePrefix(s))
		}
		return list
	}
	many := func(last string) (list []netip.Prefix) {
		for i := range mostPrefixes - 1 {
			list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 32))
		}
		return append(list, netip.MustParsePrefix(last))
	}
	tests := []struct {
		name  string
		local []netip.Prefix
		want  []string
	}{
		{"everywhere", nil, []string{"127.0.1.1", "127.0.2.1", "::1", "mapped"}},
		{"one address", prefixes("127.0.1.1/32"), []string{"127.0.1.1"}},
		{"two families", prefixes("127.0.1.1/32", "::1/128"), []string{"127.0.1.1", "::1"}},
		{"IPv6 alone", prefixes("::1/128"), []string{"::1"}},
		{"IPv4 in IPv6", prefixes("127.0.3.1/32"), []string{"mapped"}},
		{"a prefix", prefixes("127.0.2.0/23"), []string{"127.0.2.1", "mapped"}},
		{"nobody's", prefixes("192.0.2.0/24"), nil},
		{"the last of the most", many("127.0.2.1/32"), []string{"127.0.2.1"}},
		{"the last of the most, IPv6", many("::1/128"), []string{"::1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := collect(t, c, Filter{Local: tt.local})
			match := map[string]bool{}
			for _, name := range tt.want {
				match[name] = true
			}
			for name, e := range ends {
				if _, is := found[e.accepted]; is != match[name] {
					t.Errorf("%s (%v): listed %v", name, e.accepted, is)
				}
			}
		})
	}
	for _, f := range []Filter{{Local: append(many("::1/128"), prefixes("::1/128")...)}, {Local: []netip.Prefix{{}}}} {
		if err := c.ListTCP(f, func(*TCP) {}); err == nil {
			t.Errorf("a filter of %d prefixes was taken", len(f.Local))
		}
	}
}

// TestListStates: listeners are listed to who asks for them alone.
func TestListStates(t *testing.T) {
	c := open(t)
	l, err := net.Listen("tcp", "127.0.4.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if s, is := collect(t, c, Filter{})[at]; is {
		t.Errorf("listed %+v", s)
	}
	if s, is := collect(t, c, Filter{States: In(Listen)})[at]; !is || s.State != Listen {
		t.Errorf("listed %v, %+v", is, s)
	}
}

// TestListInfo: what is listed of a socket is what the socket itself says (TCP_INFO), and it is named so that it can be ended.
func TestListInfo(t *testing.T) {
	c := open(t)
	const sent, back = 3_000_000, 70_000
	o, a := connection(t, "127.0.5.1:0")
	go func() { _, _ = o.Write(make([]byte, sent)) }()
	readAll(t, a, sent)
	go func() { _, _ = a.Write(make([]byte, back)) }()
	readAll(t, o, back)
	var acked bool
	for range 200 { // the last acknowledgement may be on its way
		s := collect(t, c, Filter{})[named(t, o).Local]
		if acked = s.BytesAcked == sent+1; acked { // with the SYN
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !acked {
		t.Fatal("not all is acknowledged")
	}
	s := collect(t, c, Filter{Local: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})[named(t, o).Local]
	i := tcpInfo(t, o)
	micros := func(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
	compare := func(name string, got, want any) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	compare("name", s.Socket, named(t, o))
	compare("state", s.State, Established)
	compare("received", s.BytesReceived, back)
	compare("rtt", s.RTT, micros(uint64(i.Rtt)))
	compare("least rtt", s.MinRTT, micros(uint64(i.Min_rtt)))
	compare("window", s.SendWindow, i.Snd_cwnd)
	compare("mss", s.MSS, i.Snd_mss)
	compare("retransmitted", s.Retransmitted, i.Total_retrans)
	compare("segments out", s.SegmentsOut, i.Segs_out)
	compare("segments in", s.SegmentsIn, i.Segs_in)
	compare("data out", s.DataOut, i.Data_segs_out)
	compare("data in", s.DataIn, i.Data_segs_in)
	compare("delivery rate", s.DeliveryRate, i.Delivery_rate)
	compare("busy", s.Busy, micros(i.Busy_time))
	compare("limited by the receiver", s.ReceiverLimited, micros(i.Rwnd_limited))
	compare("limited by the buffer", s.BufferLimited, micros(i.Sndbuf_limited))
	compare("sent", s.BytesSent, i.Bytes_sent)
	if s.RTT == 0 || s.MinRTT == 0 || s.DataOut == 0 || s.DeliveryRate == 0 || s.BytesSent < sent {
		t.Errorf("measures are missing: %+v", s)
	}
	if err := c.Destroy([]Socket{s.Socket})[0]; err != nil {
		t.Error(err)
	}
}

// TestDestroyAny: without a cookie it is the addresses that are meant.
func TestDestroyAny(t *testing.T) {
	c := open(t)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		o, _ := connection(t, address)
		s := named(t, o)
		s.Cookie = 0 // of nobody
		if err := c.Destroy([]Socket{s})[0]; !errors.Is(err, ErrGone) {
			t.Errorf("%s: without a cookie: %v", address, err)
		}
		s.Cookie = AnyCookie
		if err := c.Destroy([]Socket{s})[0]; err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := o.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNABORTED) {
			t.Errorf("%s: the application reads %v", address, err)
		}
	}
}

func TestListUDP(t *testing.T) {
	c := open(t)
	l, err := net.ListenPacket("udp", "127.0.6.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := net.Dial("udp", l.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if _, err := o.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	found := map[netip.AddrPort]UDP{}
	if err := c.ListUDP(Filter{}, func(s *UDP) { found[s.Local] = *s }); err != nil {
		t.Fatal(err)
	}
	at, from := l.LocalAddr().(*net.UDPAddr).AddrPort(), o.LocalAddr().(*net.UDPAddr).AddrPort()
	if s := found[at]; s.State != Close || s.ReceiveQueue == 0 || s.Cookie == 0 {
		t.Errorf("%+v", s)
	}
	if s := found[from]; s.State != Established || s.Remote != at {
		t.Errorf("%+v", s)
	}
}

func TestParseDump(t *testing.T) {
	message := func(kind uint16, sequence uint32, body ...byte) []byte {
		return append(appendHeader(nil, len(body), kind, 0, sequence), body...)
	}
	code := func(n int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }
	one := message(sockDiagByFamily, 7, 1, 2, 3, 4)
	tests := []struct {
		name    string
		bytes   []byte
		visited int
		done    bool
		wrong   string
	}{
		{"two, more to come", append(bytes.Clone(one), one...), 2, false, ""},
		{"the end", append(bytes.Clone(one), message(unix.NLMSG_DONE, 7, code(0)...)...), 1, true, ""},
		{"of before", append(message(sockDiagByFamily, 6, 1, 2, 3, 4), message(unix.NLMSG_DONE, 6, code(0)...)...), 0, false, ""},
		{"refused", message(unix.NLMSG_ERROR, 7, code(-int32(unix.EPERM))...), 0, false, "operation not permitted"},
		{"an end with an error", message(unix.NLMSG_DONE, 7, code(-int32(unix.ENOMEM))...), 0, false, "cannot allocate memory"},
		{"an end without a number", message(unix.NLMSG_DONE, 7), 0, false, "an answer of 0 bytes"},
		{"unknown", message(99, 7), 0, false, "type 99"},
		{"cut", one[:19], 0, false, "20 bytes in 19"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			visited := 0
			done, err := parseDump(tt.bytes, 7, func([]byte) error { visited++; return nil })
			if visited != tt.visited || done != tt.done || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("visited %d, done %v, %v", visited, done, err)
			}
		})
	}
}

func readAll(t *testing.T, from net.Conn, n int) {
	t.Helper()
	from.SetReadDeadline(time.Now().Add(time.Minute))
	for b := make([]byte, 1<<16); n > 0; {
		got, err := from.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		n -= got
	}
}

func tcpInfo(t *testing.T, c *net.TCPConn) (info *unix.TCPInfo) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return info
}

// TestParseInfo: each measure is read from its place in struct tcp_info, which the library has by name; one that an older kernel does not
// have is 0.
func TestParseInfo(t *testing.T) {
	i := unix.TCPInfo{
		Snd_mss: 1, Unacked: 2, Last_data_recv: 3, Rtt: 4, Snd_cwnd: 5, Total_retrans: 6, Bytes_acked: 7 << 32, Bytes_received: 8 << 32,
		Segs_out: 9, Segs_in: 10, Min_rtt: 11, Data_segs_in: 12, Data_segs_out: 13, Delivery_rate: 14 << 32, Busy_time: 15, Rwnd_limited: 16,
		Sndbuf_limited: 17, Bytes_sent: 18 << 32, Rcv_rtt: 19, Rcv_ooopack: 20,
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&i)), unsafe.Sizeof(i))
	want := TCP{
		MSS: 1, Unacked: 2, SinceReceived: 3 * time.Millisecond, RTT: 4 * time.Microsecond, SendWindow: 5, Retransmitted: 6, BytesAcked: 7 << 32,
		BytesReceived: 8 << 32, SegmentsOut: 9, SegmentsIn: 10, MinRTT: 11 * time.Microsecond, DataIn: 12, DataOut: 13, DeliveryRate: 14 << 32,
		Busy: 15 * time.Microsecond, ReceiverLimited: 16 * time.Microsecond, BufferLimited: 17 * time.Microsecond, BytesSent: 18 << 32,
		ReceiveRTT: 19 * time.Microsecond, OutOfOrder: 20,
	}
	var got TCP
	if got.parseInfo(b); got != want {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	want.BytesSent, want.BufferLimited, want.ReceiverLimited, want.OutOfOrder = 0, 0, 0, 0
	got = TCP{}
	if got.parseInfo(b[:unsafe.Offsetof(i.Rwnd_limited)]); got != want {
		t.Errorf("of an older kernel: got\n%+v\nwant\n%+v", got, want)
	}
	i.Min_rtt, got = noRTT, TCP{}
	if got.parseInfo(b); got.MinRTT != 0 {
		t.Errorf("no RTT is %v", got.MinRTT)
	}
}
