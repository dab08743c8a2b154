package test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// TestServers: common clients fetch from common servers, both with Debian's configuration.
func TestServers(t *testing.T) {
	n := newNetwork(t)
	nginx, apache, varnish := n.site("nginx", lab.LinkOptions{}), n.site("apache", lab.LinkOptions{}), n.site("varnish", lab.LinkOptions{})
	peers.Nginx(nginx.Host, peers.NginxOptions{})
	peers.Apache(apache.Host, peers.ApacheOptions{})
	peers.Varnish(varnish.Host, peers.VarnishOptions{Backend: nginx.v4.String()})
	page := "<!DOCTYPE html><title>a page</title><p id=x>by way of the router</p>"
	if err := os.WriteFile(filepath.Join(peers.Site(n.Lab), "page.html"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	var vips, pools strings.Builder
	for _, v := range []struct {
		address string
		suffix  string
		v6      bool
	}{{vip4, "4", false}, {vip6, "6", true}} {
		fmt.Fprintf(&vips, `
  - address: %q
    interfaces: [%s]
    routes:
      - {match: {host: apache.test}, pool: apache%[3]s}
      - {match: {host: "*.cache.test", path_prefix: /1}, pool: varnish%[3]s}
      - {match: {path_prefix: /16k}, pool: apache%[3]s}
      - {pool: nginx%[3]s}`, v.address, n.front.Name, v.suffix)
		for _, s := range []*site{nginx, apache, varnish} {
			fmt.Fprintf(&pools, "\n  %[1]s%[2]s: {surrogates: [{name: %[1]s%[2]s, address: %[3]q}]}", s.name, v.suffix, s.address(v.v6))
		}
	}
	r := n.start("vips:" + vips.String() + "\npools:" + pools.String() + "\n")

	for _, address := range []string{vip4, vip6} {
		for _, tt := range []struct{ name, host, path, want string }{
			{"default", "other.test", "/1m", "nginx"},
			{"host", "apache.test", "/1m", "apache"},
			{"host in capitals", "APACHE.test", "/128", "apache"},
			{"wildcard and path", "a.cache.test", "/1m", "varnish"},
			{"wildcard without the path", "a.cache.test", "/0", "nginx"},
			{"path", "other.test", "/16k", "apache"},
			{"large", "other.test", "/100m", "nginx"},
		} {
			t.Run("curl/"+address+"/"+tt.name, func(t *testing.T) {
				got, err := peers.Curl(deadline(t), n.client, "-H", "Host: "+tt.host, "http://"+address+tt.path)
				if err != nil {
					t.Fatal(err)
				}
				if got.Status != 200 || got.Surrogate != tt.want {
					t.Errorf("status %d from %q, want 200 from %q", got.Status, got.Surrogate, tt.want)
				}
				if tt.path == "/100m" { // more than is kept of a program's output
					if got.Bytes != peers.Files[tt.path] {
						t.Errorf("%d bytes, want %d", got.Bytes, peers.Files[tt.path])
					}
				} else if err := peers.CheckPattern(strings.NewReader(got.Body), peers.Files[tt.path]); err != nil {
					t.Errorf("body: %v", err)
				}
			})
		}
	}
	t.Run("large, every byte", func(t *testing.T) {
		for i, host := range []string{"nginx.test", "apache.test"} {
			file := filepath.Join(n.Dir(), fmt.Sprint("got", i))
			got, err := peers.Curl(deadline(t), n.client, "-o", file, "-H", "Host: "+host, "http://"+vip4+"/100m")
			if err != nil {
				t.Fatalf("%s: %v", host, err)
			}
			if want := strings.Split(host, "."); got.Surrogate != want[0] {
				t.Errorf("%s: answered by %s", host, got.Surrogate)
			}
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := peers.CheckPattern(f, peers.Files["/100m"]); err != nil {
				t.Errorf("%s: %v", host, err)
			}
			f.Close()
		}
	})
	t.Run("curl keeps its connection", func(t *testing.T) {
		// The second of three on one connection goes to another pool.
		args := []string{"-H", "Host: other.test"}
		for _, path := range []string{"/1m", "/16k", "/1m"} {
			args = append(args, "http://"+vip4+path)
		}
		got, err := peers.Curl(deadline(t), n.client, args...)
		if err != nil {
			t.Fatal(err)
		}
		want := patternText(1<<20) + patternText(16<<10) + patternText(1<<20)
		if sha256.Sum256([]byte(got.Body)) != sha256.Sum256([]byte(want)) {
			t.Errorf("%d bytes that are not those of three files", len(got.Body))
		}
	})
	for _, address := range []string{vip4, vip6} {
		t.Run("wget/"+address, func(t *testing.T) {
			body, err := peers.Wget(deadline(t), n.client, "--header=Host: apache.test", "http://"+address+"/1m")
			if err != nil {
				t.Fatal(err)
			}
			if err := peers.CheckPattern(strings.NewReader(body), 1<<20); err != nil {
				t.Error(err)
			}
		})
		for _, keepalive := range []bool{false, true} {
			// ab speaks HTTP/1.0 and checks every body's length against the first.
			t.Run(fmt.Sprintf("ab/%s/keepalive=%v", address, keepalive), func(t *testing.T) {
				for _, path := range []string{"/128", "/16k"} { // nginx, Apache
					got, err := peers.AB(deadline(t), n.client, 1000, 20, keepalive, "http://"+address+path)
					if err != nil {
						t.Fatal(err)
					}
					if got.Requests != 1000 || got.Failed != 0 {
						t.Errorf("%s: %d requests, %d failed:\n%s", path, got.Requests, got.Failed, got.Output)
					}
				}
			})
		}
	}
	t.Run("chromium", func(t *testing.T) {
		for _, address := range []string{vip4, vip6} {
			dom, err := peers.Chromium(deadline(t), n.client, "http://"+address+"/page.html")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(dom, `<p id="x">by way of the router</p>`) {
				t.Errorf("%s: page is %q", address, dom)
			}
		}
	})
	t.Run("nothing was proxied", func(t *testing.T) {
		for name, value := range r.metrics() {
			if strings.HasPrefix(name, "baton_router_fallback_requests_total") && value > 0 {
				t.Errorf("%s %v", name, value)
			}
		}
	})
}

// deadline kills hanging programs.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
