package peers_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// content is the origin's, of the example.
var content = filepath.Join("..", "..", "examples", "cdn")

func exampleFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(content, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// galleryNetwork is a client, an origin and two caching surrogates on a bridge, with the example's configurations.
func galleryNetwork(t *testing.T) (client *lab.Host, origin *peers.Server) {
	t.Helper()
	l := lab.New(t)
	hub := l.Host("hub")
	bridge := hub.Bridge("br0")
	host := func(name, address string) *lab.Host {
		h := l.Host(name)
		l.Link(lab.End{Host: hub}, lab.End{Host: h, Addrs: []string{address + "/24"}}, lab.LinkOptions{}).A.Attach(bridge)
		h.Hosts(map[string][]netip.Addr{"origin.dizp.bt": {netip.MustParseAddr("10.11.0.99")}})
		return h
	}
	pictures := map[string]string{}
	for _, name := range []string{"index.html", "healthz", "images/01.png", "images/02.png"} {
		pictures["content/"+name] = exampleFile(t, "content/"+name)
	}
	origin = peers.ConfiguredApache(host("origin", "10.11.0.99"), peers.ConfiguredOptions{
		Config: exampleFile(t, "origin.conf"), Folders: []string{"content/images"}, Files: pictures,
	})
	for i := range 2 {
		peers.ConfiguredNginx(host(fmt.Sprintf("se%d", i+1), fmt.Sprintf("10.11.0.1%d", i+1)), peers.ConfiguredOptions{
			Config: exampleFile(t, "surrogate.conf"), Folders: []string{"tmp"},
		})
	}
	return host("client1", "10.11.0.101"), origin
}

// fields are those of a response's head, by name in lower case.
func fields(t *testing.T, client *lab.Host, args ...string) map[string]string {
	t.Helper()
	got, err := peers.Curl(deadline(t), client, append([]string{"-D", "-", "-o", "/dev/null"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{"status": fmt.Sprint(got.Status)}
	for line := range strings.Lines(got.Body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			found[strings.ToLower(name)] = value
		}
	}
	return found
}

// Two surrogates keep the origin's pictures, agree in their validators, and go on without the origin.
func TestCachingSurrogates(t *testing.T) {
	client, origin := galleryNetwork(t)
	const picture = "/images/01.png"
	direct := fields(t, client, "http://10.11.0.99"+picture)
	if direct["cache-control"] != "max-age=2592000" || direct["etag"] == "" || direct["content-type"] != "image/png" {
		t.Errorf("the origin's picture has %v", direct)
	}
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() { _, _ = peers.Curl(deadline(t), client, "-o", "/dev/null", "http://10.11.0.11/images/02.png") })
	}
	crowd.Wait()
	if n := strings.Count(origin.Logs(), "/images/02.png"); n != 1 {
		t.Errorf("the origin had %d requests of a crowd for one picture, want 1", n)
	}
	for _, se := range []string{"10.11.0.11", "10.11.0.12"} {
		for _, want := range []string{"MISS", "HIT"} {
			got := fields(t, client, "http://"+se+picture)
			if got["x-cache-status"] != want {
				t.Errorf("%s: cache status %q, want %q", se, got["x-cache-status"], want)
			}
			for _, name := range []string{"etag", "last-modified", "cache-control", "content-length"} {
				if got[name] != direct[name] {
					t.Errorf("%s: %s is %q, the origin's %q", se, name, got[name], direct[name])
				}
			}
		}
		if got := fields(t, client, "-H", "If-None-Match: "+direct["etag"], "http://"+se+picture); got["status"] != "304" {
			t.Errorf("%s: a validator of the other surrogate: %v", se, got)
		}
	}
	if err := origin.Kill(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 10*time.Second, func() error {
		if got := fields(t, client, "http://10.11.0.12"+picture); got["status"] != "200" || got["x-surrogate"] != "se2" {
			return fmt.Errorf("without the origin: %v", got)
		}
		return nil
	})
}
