package peers_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// network is a client and a server, each the other's neighbour.
func network(t *testing.T) (client, server *lab.Host) {
	t.Helper()
	l := lab.New(t)
	client, server = l.Host("client"), l.Host("server")
	l.Link(lab.End{Host: client, Addrs: []string{"10.1.0.1/24", "fd01::1/64"}},
		lab.End{Host: server, Addrs: []string{"10.1.0.2/24", "fd01::2/64"}}, lab.LinkOptions{})
	return client, server
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestServers(t *testing.T) {
	tests := []struct {
		name  string
		start func(*lab.Host) *peers.Server
		want  string // in Header
	}{
		{"nginx", func(h *lab.Host) *peers.Server {
			return peers.Nginx(h, peers.NginxOptions{Name: "n1", NoAccessLog: true, Requests: 10})
		}, "n1"},
		{"apache", func(h *lab.Host) *peers.Server { return peers.Apache(h, peers.ApacheOptions{}) }, "server"},
		{"varnish", func(h *lab.Host) *peers.Server {
			peers.Nginx(h, peers.NginxOptions{Name: "origin", Port: 8080})
			return peers.Varnish(h, peers.VarnishOptions{Name: "v1", Backend: "127.0.0.1:8080"})
		}, "v1"},
		{"haproxy", func(h *lab.Host) *peers.Server {
			peers.Nginx(h, peers.NginxOptions{Name: "behind", Port: 8080})
			return peers.HAProxy(h, peers.HAProxyOptions{Backends: []string{"127.0.0.1:8080"}})
		}, "behind"},
		{"nginx proxy", func(h *lab.Host) *peers.Server {
			peers.Nginx(h, peers.NginxOptions{Name: "behind", Port: 8080})
			return peers.NginxProxy(h, peers.NginxProxyOptions{Backends: []string{"127.0.0.1:8080"}})
		}, "behind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, host := network(t)
			s := tt.start(host)
			t.Logf("%s", s.Version)
			for _, address := range []string{"10.1.0.2", "[fd01::2]"} {
				for _, path := range []string{"/0", "/128", "/16k", "/1m"} {
					got, err := peers.Curl(deadline(t), client, "http://"+address+path)
					if err != nil {
						t.Fatalf("%s: %v\n%s", path, err, s.Logs())
					}
					if got.Status != 200 || got.Surrogate != tt.want || got.Bytes != peers.Files[path] {
						t.Errorf("%s%s: status %d, surrogate %q, %d bytes; want 200, %q, %d", address, path,
							got.Status, got.Surrogate, got.Bytes, tt.want, peers.Files[path])
					}
					if err := peers.CheckPattern(strings.NewReader(got.Body), peers.Files[path]); err != nil {
						t.Errorf("%s%s: %v", address, path, err)
					}
				}
			}
			missing, err := peers.Curl(deadline(t), client, "http://10.1.0.2/missing")
			if err != nil || missing.Status != 404 {
				t.Errorf("missing file: status %d, %v; want 404", missing.Status, err)
			}
		})
	}
}

func TestBigFiles(t *testing.T) {
	client, host := network(t)
	peers.Nginx(host, peers.NginxOptions{})
	for _, path := range []string{"/100m", "/1g"} {
		got, err := peers.Curl(deadline(t), client, "-o", "/dev/null", "http://10.1.0.2"+path)
		if err != nil || got.Bytes != peers.Files[path] {
			t.Errorf("%s: %d bytes, %v; want %d", path, got.Bytes, err, peers.Files[path])
		}
	}
}

func TestClients(t *testing.T) {
	client, host := network(t)
	s := peers.Nginx(host, peers.NginxOptions{Server: `location = /page.html {
		default_type text/html;
		return 200 "<html><body><p id=x></p><script>document.getElementById('x').textContent=6*7</script></body></html>";
	}`})
	const at = "http://10.1.0.2"
	t.Run("wget", func(t *testing.T) {
		got, err := peers.Wget(deadline(t), client, at+"/1m")
		if err != nil {
			t.Fatal(err)
		}
		if err := peers.CheckPattern(strings.NewReader(got), 1<<20); err != nil {
			t.Error(err)
		}
	})
	t.Run("chromium", func(t *testing.T) {
		got, err := peers.Chromium(deadline(t), client, at+"/page.html")
		if err != nil || !strings.Contains(got, ">42<") {
			t.Errorf("dom %q, %v; want the script's 42", got, err)
		}
	})
	for _, keepalive := range []bool{false, true} {
		t.Run(fmt.Sprintf("ab keepalive %v", keepalive), func(t *testing.T) {
			got, err := peers.AB(deadline(t), client, 500, 5, keepalive, at+"/128")
			if err != nil || got.Requests != 500 || got.Failed != 0 || got.Rate <= 0 {
				t.Errorf("ab: %+v, %v", got, err)
			}
		})
	}
	t.Run("ab counts errors", func(t *testing.T) {
		got, err := peers.AB(deadline(t), client, 50, 5, true, at+"/missing")
		if err != nil || got.Failed != 50 {
			t.Errorf("ab: %d failed, %v; want 50", got.Failed, err)
		}
	})
	t.Run("wrk", func(t *testing.T) {
		got, err := peers.Wrk(deadline(t), client, 10, time.Second, at+"/128")
		if err != nil || got.Requests == 0 || got.Failed != 0 || got.Rate <= 0 {
			t.Errorf("wrk: %+v, %v", got, err)
		}
	})
	t.Run("curl names the failure", func(t *testing.T) {
		_, err := peers.Curl(deadline(t), client, "http://10.1.0.2:81/")
		if err == nil || lab.ExitCode(err) != 7 {
			t.Errorf("error %v, want curl's status 7", err)
		}
	})
	if logs, _ := filepath.Glob(filepath.Join(s.Dir, "access.log")); len(logs) != 1 {
		t.Errorf("access logs %v, want one", logs)
	}
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	lab.NeedRoot(t)
	said := new(bytes.Buffer)
	err := lab.Run(said, func(l *lab.Lab) error {
		peers.Nginx(l.Host("h"), peers.NginxOptions{Server: "nonsense;"})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v, want nginx's complaint", err)
	}
}

func TestCheckPatternFindsEveryFault(t *testing.T) {
	whole := make([]byte, 70<<10)
	peers.Pattern(whole, 0)
	tests := []struct {
		name string
		body []byte
	}{
		{"short", whole[:len(whole)-1]},
		{"long", append(append([]byte{}, whole...), 0)},
		{"shifted", append(append([]byte{}, whole[8:]...), whole[:8]...)},
		{"one bit", func() []byte { b := append([]byte{}, whole...); b[65537] ^= 1; return b }()},
	}
	if err := peers.CheckPattern(strings.NewReader(string(whole)), int64(len(whole))); err != nil {
		t.Errorf("whole: %v", err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := peers.CheckPattern(strings.NewReader(string(tt.body)), int64(len(whole))); err == nil {
				t.Error("no error")
			}
		})
	}
	part := make([]byte, 100)
	peers.Pattern(part, 13)
	if string(part) != string(whole[13:113]) {
		t.Error("the pattern at an offset differs from the pattern from the start")
	}
}
