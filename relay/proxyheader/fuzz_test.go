package proxyheader

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"

	"baton/relay/config"
	"baton/relay/trunkproto"
)

// FuzzFeed: see check.
func FuzzFeed(f *testing.F) {
	addTranscripts(f)
	f.Fuzz(func(t *testing.T, b []byte, which uint8, seed uint64) {
		check(t, modes[int(which)%len(modes)], b, rand.New(rand.NewPCG(seed, 0)))
	})
}

// check feeds a preface, or what is none. No panic, no byte changed; the bytes at once, one by one and in random pieces come to the
// same; what is behind the preface has no say; what is accepted is what others would read, and what is refused has a reason of one
// line. It tells whether the preface was accepted.
func check(t *testing.T, mode config.Mode, b []byte, random *rand.Rand) bool {
	t.Helper()
	before := bytes.Clone(b)
	whole := &flow{parser: New(mode)}
	whole.come(t, b)
	if !bytes.Equal(b, before) {
		t.Fatal("the input was changed")
	}
	same(t, "one by one", whole, func(f *flow) { f.bytewise = true; f.come(t, b) })
	same(t, "in pieces", whole, func(f *flow) {
		for rest := b; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			f.come(t, rest[:n])
			rest = rest[n:]
		}
	})
	if whole.err != nil {
		refused(t, whole.err)
		return false
	}
	if !whole.done {
		if len(whole.waiting) >= Max {
			t.Fatalf("%d bytes, and no decision", len(whole.waiting))
		}
		return false
	}
	taken := b[:len(b)-len(whole.waiting)]
	alone := &flow{parser: New(mode)}
	alone.come(t, taken)
	if !alone.done || alone.parser.Target != whole.parser.Target || len(alone.waiting) != 0 {
		t.Fatalf("alone: %v, %v", alone.parser.Target, alone.err)
	}
	accepted(t, mode, taken, whole.parser.Target)
	return true
}

// addTranscripts seeds with what the clients of the transcripts send.
func addTranscripts(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		mode, sent := 0, ""
		for line := range strings.SplitSeq(string(text)+"\nflow", "\n") {
			verb, rest, _ := strings.Cut(line, " ")
			switch verb {
			case ">":
				s, err := strconv.Unquote(rest)
				if err != nil {
					f.Fatal(err)
				}
				sent += s
			case "flow":
				if sent != "" {
					f.Add([]byte(sent), uint8(mode), uint64(1))
				}
				name, _, _ := strings.Cut(rest, " ")
				mode, sent = max(0, indexOf(config.Mode(name))), ""
			}
		}
	}
}

func indexOf(mode config.Mode) int {
	for i, m := range modes {
		if m == mode {
			return i
		}
	}
	return -1
}

// same checks that a flow whose bytes come in another way comes to the same.
func same(t *testing.T, how string, want *flow, come func(*flow)) {
	t.Helper()
	got := &flow{parser: New(want.parser.mode)}
	come(got)
	state := func(f *flow) string {
		return fmt.Sprintf("done %v, %q left, told %q, target %v", f.done, f.waiting, f.told, f.parser.Target)
	}
	if got, want := state(got), state(want); got != want {
		t.Fatalf("%s: %s\nat once: %s", how, got, want)
	}
	if (got.err == nil) != (want.err == nil) || got.err != nil && got.err.Error() != want.err.Error() {
		t.Fatalf("%s: %v\nat once: %v", how, got.err, want.err)
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrDestination) {
		t.Fatalf("refused with %#v", err)
	}
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if text := err.Error(); !strings.HasPrefix(text, "read the ") || len(text) > 700 || strings.ContainsFunc(text, control) {
		t.Fatalf("the reason is not a line: %q", text)
	}
}

// accepted holds a target against what another reader makes of the same bytes: a library, or of SOCKS the few lines below.
func accepted(t *testing.T, mode config.Mode, b []byte, got Target) {
	t.Helper()
	if got.Host != "" && (got.Server.IsValid() || got.Port == 0 || !isName(got.Host)) || got.Host == "" && !trunkproto.Connectable(got.Server) {
		t.Fatalf("impossible target %+v", got)
	}
	if got.Client.IsValid() != (mode == config.Proxy) {
		t.Fatalf("client %v in mode %s", got.Client, mode)
	}
	switch mode {
	case config.Proxy:
		r := bufio.NewReaderSize(bytes.NewReader(append(bytes.Clone(b), "data"...)), 16<<10)
		h, err := proxyproto.Read(r)
		if err != nil {
			t.Fatalf("the library refuses it: %v", err)
		}
		if left, _ := r.Peek(5); string(left) != "data" {
			t.Fatalf("the library leaves %q", left)
		}
		if h.SourceAddr.String() != got.Client.String() || h.DestinationAddr.String() != got.Server.String() {
			t.Fatalf("the library reads %v %v, we %v", h.SourceAddr, h.DestinationAddr, got)
		}
	case config.Connect:
		r := bufio.NewReaderSize(bytes.NewReader(append(bytes.Clone(b), "data"...)), 16<<10)
		request, err := http.ReadRequest(r)
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		if left, _ := r.Peek(5); string(left) != "data" {
			t.Fatalf("net/http leaves %q", left)
		}
		host := strings.TrimSuffix(strings.ToLower(request.URL.Hostname()), ".")
		if address, err := netip.ParseAddr(host); err == nil {
			host = address.Unmap().String()
		}
		if want := net.JoinHostPort(host, canonical(request.URL.Port())); got.String() != want {
			t.Fatalf("net/http reads %s, we %v", want, got)
		}
	case config.SOCKS5:
		request := b[2+int(b[1]):]
		address, port := request[4:len(request)-2], binary.BigEndian.Uint16(request[len(request)-2:])
		host := net.IP(address).String()
		if request[3] == socksName {
			host = strings.TrimSuffix(strings.ToLower(string(address[1:])), ".")
		}
		if want := net.JoinHostPort(host, strconv.Itoa(int(port))); got.String() != want {
			t.Fatalf("%q asks for %s, read was %v", b, want, got)
		}
	}
}

// canonical is a port without zeros in front.
func canonical(port string) string { return strings.TrimLeft(port, "0") }
