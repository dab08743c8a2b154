package fallback

import (
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
		compareHead(t, method+" "+target+" HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n")
	}
	for _, host := range []string{
		"", "h", "H.Test", "h.test.", "h.test.:80", "h:", "10.0.0.1:80", "[::1]", "[::1]:80", "[2001:DB8::9]",
	} {
		compareHead(t, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	}
}

func compareHead(t *testing.T, text string) {
	t.Helper()
	want, _, err := head.Parse([]byte(text))
	if err != nil {
		t.Errorf("%q: %v", text, err)
		return
	}
	sameRequest(t, &want, []byte(text))
}
