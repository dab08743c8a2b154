package trunkproto

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestStatusNames(t *testing.T) {
	seen := make(map[string]bool)
	for s := Connected; s <= Stopping; s++ {
		if name := s.String(); seen[name] || !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(name) {
			t.Errorf("%d is called %q", s, name)
		} else {
			seen[name] = true
		}
	}
	for _, s := range []Status{0, Stopping + 1, 255} {
		if want := fmt.Sprintf("status_%d", uint8(s)); s.String() != want {
			t.Errorf("%d is called %q, want %q", uint8(s), s, want)
		}
	}
}

func TestStatusOf(t *testing.T) {
	tests := []struct {
		err  error
		want Status
	}{
		{nil, Connected},
		{ErrLoop, Loop},
		{fmt.Errorf("read the header: %w", ErrHops), Loop},
		{ErrRoute, NoSuchRelay},
		{ErrSeal, BadHeader},
		{ErrVersion, BadHeader},
		{ErrTooLong, BadHeader},
		{&Malformed{"header", "x"}, BadHeader},
		{syscall.ECONNREFUSED, Refused},
		{os.NewSyscallError("connect", syscall.ETIMEDOUT), TimedOut},
		{syscall.EHOSTUNREACH, Unreachable},
		{syscall.ENETUNREACH, Unreachable},
		{syscall.EPERM, NotAllowed},
		{syscall.EMFILE, Overloaded},
		{syscall.EADDRNOTAVAIL, Overloaded},
		{errors.New("out of something"), Overloaded},
	}
	for _, tt := range tests {
		if got := StatusOf(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestRefusedHellos(t *testing.T) {
	tests := []struct {
		name  string
		bytes string
		want  string // "": accepted
	}{
		{"ours", string(goldenHello[:]), ""},
		{"a newer one that speaks ours, too", "BTNR\x07\x01\xff\xff0123456789abcdef", ""},
		{"a newer one", "BTNR\x03\x020000123456789abcdef", "no common version"},
		{"an older one", "BTNR\x00\x000000123456789abcdef", "no common version"},
		{"SSH", "SSH-2.0-OpenSSH_9.2p1 Debian-2", "not a relay"},
		{"TLS alert", "\x15\x03\x01\x00\x02\x02\x28", "not a relay"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got error
			n := final(t, []byte(tt.bytes), func(b []byte) (n int, err error) {
				_, n, err = ParseHello(b)
				got = err
				return n, err
			})
			if tt.want == "" && n != HelloSize || tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
				t.Errorf("%d, %v, want %q", n, got, tt.want)
			}
		})
	}
}

func TestAnswersThatComeInPieces(t *testing.T) {
	tests := []struct {
		name  string
		bytes string
		want  Answer
		err   string // "": none
	}{
		{"refused", "\x02\x01\x00\x00\x00\x00\x00\x07data", Answer{Refused, 1, 7000}, ""},
		{"of a later version", "\xf0\x01\xff\xff\x00\x00\x00\x00", Answer{Status: 0xf0, Hop: 1}, ""},
		{"none", "\x00\x01", Answer{}, "read the answer: no status"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got Answer
			var failed error
			n := final(t, []byte(tt.bytes), func(b []byte) (n int, err error) {
				got, n, err = ParseAnswer(b)
				failed = err
				return n, err
			})
			if got != tt.want || (n == AnswerSize) != (tt.err == "") || tt.err != "" && (failed == nil || failed.Error() != tt.err) {
				t.Errorf("got %v, %d, %v", got, n, failed)
			}
		})
	}
}
