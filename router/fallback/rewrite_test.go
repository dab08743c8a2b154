package fallback

import (
	"net/http"
	"strings"
	"testing"

	"baton/router/config"
)

// TestRewriteOfProxiedRequests: a surrogate gets the target and the host that the kernel would give it.
func TestRewriteOfProxiedRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		rewrite config.Rewrite
		sent    string // target and host
		want    string
	}{
		"nothing":            {config.Rewrite{}, "/a%2fb?q h", "/a%2fb?q h"},
		"host":               {config.Rewrite{Host: "o:81"}, "/a%2fb?q= h", "/a%2fb?q= o:81"},
		"path":               {config.Rewrite{Prefix: "/b", Strip: 2}, "/a/c%2F%41?q=%41 h", "/b/c%2F%41?q=%41 h"},
		"in front":           {config.Rewrite{Prefix: "/b"}, "/a? h", "/b/a? h"},
		"all of the path":    {config.Rewrite{Prefix: "/b", Strip: 2}, "/a h", "/b h"},
		"a path with //":     {config.Rewrite{Prefix: "/", Strip: 3}, "/a//b%20c?d h", "//b%20c?d h"},
		"absolute-form":      {config.Rewrite{Prefix: "/b/", Strip: 3, Host: "o"}, "http://h/a/c?d h", "/b/c?d o"},
		"as sent":            {config.Rewrite{Prefix: "/b/", Strip: 3}, "/a/{c}%7b?{ h", "/b/{c}%7b?{ h"},
		"absolute, as sent":  {config.Rewrite{Prefix: "/b/", Strip: 3}, "http://h/a/{c}?d h", "/b/{c}?d h"},
		"absolute, no path":  {config.Rewrite{Prefix: "/b"}, "http://h?d h", "/b/?d h"},
		"absolute, nothing":  {config.Rewrite{}, "http://h/{c}? h", "/{c}? h"},
		"an odd escape":      {config.Rewrite{Prefix: "/b/", Strip: 3}, "/a/%e2%28?%zz h", "/b/%e2%28?%zz h"},
		"host of an OPTIONS": {config.Rewrite{Host: "o", Prefix: "/b"}, "* h", "* o"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSurrogate(t, "s", says(okResponse))
			d := s.decision()
			d.Rewrite = tt.rewrite
			e := serve(t, Options{Decide: inOrder(d)})
			target, host, _ := strings.Cut(tt.sent, " ")
			method := "GET"
			if target == "*" {
				method = "OPTIONS"
			}
			if res, body, err := e.ask(t, method, method+" "+target+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil || res.StatusCode != 200 {
				t.Fatalf("response %v %q, error %v", res, body, err)
			}
			target, host, _ = strings.Cut(tt.want, " ")
			if got := s.got(); !strings.HasPrefix(got, method+" "+target+" HTTP/1.1\r\nHost: "+host+"\r\n") {
				t.Errorf("the surrogate got %q, want %s", got, tt.want)
			}
		})
	}
}

// TestBypass: in any mode a client that no surrogate can serve is sent to where the policy says.
func TestBypass(t *testing.T) {
	for _, mode := range []config.Mode{config.Handoff, config.Redirect, config.Proxy} {
		e := serve(t, Options{Decide: inOrder(Decision{Bypass: "https://origin.test"}), Mode: mode})
		res, body, err := e.ask(t, "GET", "GET /v/1?q=%41 HTTP/1.1\r\nHost: h\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		isOwn(t, res, body, 302)
		if got := res.Header.Get("Location"); got != "https://origin.test/v/1?q=%41" {
			t.Errorf("mode %s: Location = %q", mode, got)
		}
	}
}

// TestRewriteOfRedirects: a client is sent to the path that the surrogate has.
func TestRewriteOfRedirects(t *testing.T) {
	d := Decision{Surrogate: "s", Public: "http://s.example.net", Rewrite: config.Rewrite{Prefix: "/b/", Strip: 3}}
	d.Address = newSurrogate(t, "s", says(okResponse)).addr
	e := serve(t, Options{Decide: inOrder(d), Mode: config.Redirect})
	res, _, err := e.ask(t, http.MethodGet, "GET /a/c?d HTTP/1.1\r\nHost: h\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Location"); got != "http://s.example.net/b/c?d" {
		t.Errorf("redirected to %s", got)
	}
}
