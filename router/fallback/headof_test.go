package fallback

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"baton/router/head"
)

// TestHeadOf: the proxy routes a request by the same bytes as the kernel and its user space, in whatever form its target is.
func TestHeadOf(t *testing.T) {
	for _, target := range []string{
		"/", "/a/b?c", "/a?", "/{a}%7b/\"<>", "/a//b", "//a/b", "/%e2%28", "/a;b=c", "/?a?b", "http://h", "http://h?d", "http://h:81/{a}%7B?c", "HTTP://H/a", "https://h/", "*",
	} {
		method := "GET"
		if target == "*" {
			method = "OPTIONS"
		}
		text := method + " " + target + " HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"
		want, _, err := head.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if got := HeadOf(req); string(got.Path) != string(want.Path) || string(got.Query) != string(want.Query) || string(got.Host) != string(want.Host) {
			t.Errorf("%s: path %q, query %q, host %q; want %q, %q, %q", target, got.Path, got.Query, got.Host, want.Path, want.Query, want.Host)
		}
	}
}
