package hello

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func hosts(entries ...[]byte) []byte { return extension(extServerName, vec16(entries...)) }

var a = nameEntry(hostName, "a.example.net")

// badMessages are messages that are refused whole, however they come.
var badMessages = []struct {
	name    string
	message []byte
	want    *Error
}{
	{"empty", message(clientHello, nil), errShort},
	{"cut in the random", message(clientHello, make([]byte, 33)), errShort},
	{"a ServerHello", message(2, with()[headerSize:]), errNotHello},
	{"SSL 2.0", plan{version: 0x0200}.message(), errVersion},
	{"no session id", message(clientHello, append(u16(0x0303), make([]byte, 32)...)), errShort},
	{"a session id of 33 bytes", plan{session: make([]byte, 33)}.message(), errSessionID},
	{"no cipher suites", plan{ciphers: []byte{}}.message(), errCiphers},
	{"half a cipher suite", plan{ciphers: []byte{0, 1, 2}}.message(), errCiphers},
	{"no compression methods", plan{compression: []byte{}}.message(), errCompression},
	{"one byte of extensions", plan{tail: []byte{0}}.message(), errShort},
	{"extensions longer than the hello", plan{tail: u16(1)}.message(), errShort},
	{"bytes behind the extensions", plan{extensions: [][]byte{a[:0]}, tail: []byte{0}}.message(), errTrailing},
	{"half an extension's type", plan{extensions: [][]byte{{0}}}.message(), errShort},
	{"an extension longer than their list", plan{extensions: [][]byte{u16(5, 1)}}.message(), errShort},
	{"server_name twice", with(serverName("a"), serverName("a")), errTwice},
	{"an unknown extension twice", with(extension(0xfafa), serverName("a"), extension(0xfafa)), errTwice},
	{"an empty server_name", with(extension(extServerName)), errNames},
	{"an empty list of names", with(hosts()), errNames},
	{"a list shorter than server_name", with(extension(extServerName, vec16(a), []byte{0})), errNames},
	{"a list longer than server_name", with(extension(extServerName, vec16(a)[:len(a)])), errNames},
	{"two host names", with(hosts(a, a)), errNames},
	{"a name of another type alone", with(hosts(nameEntry(1, "a"))), errNames},
	{"a name of another type before", with(hosts(nameEntry(1, "a"), a)), errNames},
	{"a name of another type behind", with(hosts(a, nameEntry(1, "a"))), errNames},
	{"a byte behind the name", with(hosts(a, []byte{0})), errNames},
	{"a name longer than its list", with(hosts(a[:len(a)-1])), errNames},
	{"an empty name", with(serverName("")), errName},
	{"the root", with(serverName(".")), errName},
	{"two dots at the end", with(serverName("a..")), errName},
	{"a dot first", with(serverName(".a")), errName},
	{"an empty label", with(serverName("a..b")), errName},
	{"a NUL", with(serverName("a\x00.example.net")), errName},
	{"a space", with(serverName("a b")), errName},
	{"a wildcard", with(serverName("*.example.net")), errName},
	{"a port", with(serverName("a:443")), errName},
	{"UTF-8", with(serverName("bücher.example")), errName},
	{"the Kelvin sign", with(serverName("\u212a.example")), errName},
	{"a label of 64 bytes", with(serverName(strings.Repeat("a", 64))), errName},
	{"a name of 255 bytes", with(serverName(strings.Repeat("a.", 127) + "a")), errName},
	{"a name of 254 bytes", with(serverName(strings.Repeat("a.", 126) + "ab")), errName},
	{"an empty ALPN", with(extension(extALPN)), errALPN},
	{"no protocols", with(alpn()), errALPN},
	{"a protocol without a name", with(alpn("h2", "")), errALPN},
	{"a protocol longer than the list", with(extension(extALPN, vec16([]byte("\x03h2")))), errALPN},
	{"bytes behind the protocols", with(extension(extALPN, vec16([]byte("\x02h2")), []byte{0})), errALPN},
	{"no versions", with(versions()), errVersions},
	{"half a version", with(extension(extSupportedVersions, vec8([]byte{3, 4, 3}))), errVersions},
	{"bytes behind the versions", with(extension(extSupportedVersions, vec8(u16(0x0304)), []byte{0})), errVersions},
}

// badStreams are refused for what is around the message.
var badStreams = []struct {
	name   string
	stream []byte
	want   *Error
	at     int // bytes by which it is refused, 0: all
}{
	{"an alert", []byte{recordAlert, 3, 1, 0, 2, 2, 0}, errNotTLS, 1},
	{"SSH", []byte("SSH-2.0-OpenSSH_9.2p1\r\n"), errNotTLS, 1},
	{"SMTP", []byte("EHLO a.example.net\r\n"), errNotTLS, 1},
	{"a method like another", []byte("PUTS / HTTP/1.1\r\n\r\n"), errNotTLS, 4},
	{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), errPlainHTTP, 4},
	{"HTTP, one of the last methods", []byte("PATCH / HTTP/1.1\r\n\r\n"), errPlainHTTP, 6},
	{"HTTP/2", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), errPlainHTTP, 4},
	{"SSL 2.0", unhexWord("802e010002001500000010"), errSSLv2, 5},
	{"SSL 3.0 in the form of 2.0", unhexWord("8055010301003c00000010"), errSSLv2, 4},
	{"no hello of SSL 2.0", unhexWord("802e040002"), errNotTLS, 3},
	{"a record of version 2.1", append([]byte{22, 2, 1}, record(with())[3:]...), errRecordVersion, 5},
	{"a record of version 3.4", append([]byte{22, 3, 4}, record(with())[3:]...), errRecordVersion, 5},
	{"an empty record first", append(record(nil), record(with())...), errEmptyRecord, 5},
	{"an empty record between", slices.Concat(record(with()[:9]), record(nil), record(with()[9:])), errEmptyRecord, 5 + 9 + 5},
	{"another version of the second record", slices.Concat(record(with()[:9]), []byte{22, 4, 1, 0, 1}), errRecordVersion, 5 + 9 + 5},
	{"an alert between", slices.Concat(record(with()[:9]), []byte{recordAlert, 3, 1, 0, 2, 1, 90}, record(with()[9:])), errInterleaved, 5 + 9 + 1},
	{"a record of 16,385 bytes", append([]byte{22, 3, 1}, u16(maxRecord+1)...), errLongRecord, 5},
	{"a byte behind the hello", record(append(with(), 0)), errExcess, 5 + 4},
	{"a second message", slices.Concat(record(with()[:9]), record(append(with()[9:], 1))), errExcess, 5 + 9 + 5},
	{"another message", record([]byte{11}), errNotHello, 6},
	{"16 KiB and a byte", record(unhexWord("01003ffd")), errTooLarge, 5 + 4},
	{"16 MiB, by the byte", records(unhexWord("01ffffff"), 1), errTooLarge, 4 * 6},
}

func TestRefused(t *testing.T) {
	met := map[*Error]bool{}
	for _, test := range badMessages {
		met[test.want] = true
		t.Run(test.name, func(t *testing.T) {
			for _, stream := range [][]byte{record(test.message), records(test.message, 1), records(test.message, 5)} {
				if _, err := readAll(t, stream); !refusal(err, test.want) {
					t.Errorf("Read = %v, want %v", err, test.want)
				}
			}
			if _, err := ReadMessage(test.message); !refusal(err, test.want) {
				t.Errorf("ReadMessage = %v, want %v", err, test.want)
			}
		})
	}
	for _, test := range badStreams {
		met[test.want] = true
		t.Run(test.name, func(t *testing.T) {
			if _, err := readAll(t, test.stream); !refusal(err, test.want) {
				t.Errorf("Read = %v, want %v", err, test.want)
			}
			for n, want := range map[int]error{test.at: test.want, test.at - 1: ErrIncomplete} {
				if _, err := Read(test.stream[:n]); err != want {
					t.Errorf("Read of %d bytes = %v, want %v", n, err, want)
				}
			}
		})
	}
	for _, e := range every {
		if !met[e] {
			t.Errorf("no test has %v", e)
		}
		if e.Alert == 0 || e.Reason == "" || !slices.Contains(Kinds[:], e.Kind) || e.Kind.String() == "unknown" {
			t.Errorf("%+v lacks its kind, its alert or its reason", e)
		}
	}
}

// every is all that Read can refuse a hello for.
var every = []*Error{
	errNotTLS, errPlainHTTP, errSSLv2, errRecordVersion, errInterleaved, errEmptyRecord, errLongRecord, errExcess, errNotHello,
	errTooLarge, errShort, errTrailing, errVersion, errSessionID, errCiphers, errCompression, errTwice, errNames, errName, errALPN,
	errVersions,
}

func refusal(err error, want *Error) bool {
	var e *Error
	if want == nil {
		return err == nil
	}
	return errors.As(err, &e) && e == want
}
