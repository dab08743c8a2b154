package peers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

func TestSocat(t *testing.T) {
	client, host := network(t)
	far := peers.SocatEcho(host, 7)
	near := peers.SocatForward(host, 8, "127.0.0.1:7")
	for _, address := range []string{"10.1.0.2:7", "[fd01::2]:7", "10.1.0.2:8", "[fd01::2]:8"} {
		if err := echo(t, client, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if near.Version != far.Version || !strings.HasPrefix(near.Version, "socat/") {
		t.Errorf("versions %q and %q", near.Version, far.Version)
	}
}

// TestForward has two of each proxy in a row, as between relays.
func TestForward(t *testing.T) {
	tests := []struct {
		name, version string
		start         func(*lab.Host, peers.Forward) *peers.Server
	}{
		{"haproxy", "haproxy/", func(h *lab.Host, f peers.Forward) *peers.Server {
			return peers.HAProxyForward(h, peers.ForwardOptions{Forwards: []peers.Forward{f}})
		}},
		{"nginx", "nginx/", func(h *lab.Host, f peers.Forward) *peers.Server {
			return peers.NginxForward(h, peers.ForwardOptions{Forwards: []peers.Forward{f}, Workers: 2})
		}},
		{"ssh", "ssh/", peers.SSHForward},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, host := network(t)
			peers.Nginx(client, peers.NginxOptions{})
			tt.start(host, peers.Forward{Port: 8080, To: "10.1.0.1:80"})
			s := tt.start(client, peers.Forward{Port: 8081, To: "10.1.0.2:8080"})
			if !strings.HasPrefix(s.Version, tt.version) {
				t.Errorf("version %q", s.Version)
			}
			for _, address := range []string{"10.1.0.1", "[fd01::1]"} {
				got, err := peers.Curl(deadline(t), host, "http://"+address+":8081/1m")
				if err != nil {
					t.Fatalf("%v\n%s", err, s.Logs())
				}
				if err := peers.CheckPattern(strings.NewReader(got.Body), peers.Files["/1m"]); err != nil {
					t.Errorf("through %s: %v", address, err)
				}
			}
		})
	}
}

func TestIperf3(t *testing.T) {
	client, host := network(t)
	peers.Iperf3Server(host)
	end := client.Interface("eth0")
	const some = 20 << 20
	tests := []struct {
		name string
		o    peers.Iperf3Options
		loss float64 // towards the client
		good func(peers.Flow) bool
	}{
		{"TCP", peers.Iperf3Options{Bytes: some}, 0, func(f peers.Flow) bool { return f.Sent >= some && f.Packets == 0 }},
		{"two streams", peers.Iperf3Options{Bytes: some, Streams: 2, Congestion: "cubic"}, 0, func(f peers.Flow) bool { return f.Sent >= some }},
		{"reverse", peers.Iperf3Options{Bytes: some, Reverse: true}, 0.01, func(f peers.Flow) bool { return f.Retransmits > 0 }},
		{"UDP", peers.Iperf3Options{UDP: true, Rate: 20e6}, 0, func(f peers.Flow) bool { return f.Packets > 100 && f.Jitter > 0 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end.Lose(tt.loss)
			f, err := peers.Iperf3(deadline(t), client, "10.1.0.2", tt.o)
			report := f.JSON
			f.JSON = ""
			t.Logf("%+v", f)
			if err != nil || f.Received == 0 || f.Rate <= 0 || f.Time <= 0 || !tt.good(f) {
				t.Errorf("%v: %+v\n%s", err, f, report)
			}
		})
	}
	end.Lose(0)
	t.Run("after another client", func(t *testing.T) {
		first := make(chan error, 1)
		go func() {
			_, err := peers.Iperf3(deadline(t), client, "10.1.0.2", peers.Iperf3Options{Time: time.Second})
			first <- err
		}()
		if _, err := peers.Iperf3(deadline(t), client, "10.1.0.2", peers.Iperf3Options{Time: time.Second}); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
	nowhere := peers.Iperf3Options{Bytes: 1, Args: []string{"--connect-timeout", "100"}}
	if _, err := peers.Iperf3(deadline(t), client, "10.1.0.9", nowhere); err == nil || !strings.Contains(err.Error(), "unable to connect") {
		t.Errorf("error %v, want iperf3's", err)
	}
}

func TestAria2(t *testing.T) {
	client, host := network(t)
	s := peers.Nginx(host, peers.NginxOptions{})
	file := filepath.Join(t.TempDir(), "got")
	const connections = 5
	got, err := peers.Aria2(deadline(t), client, connections, "http://10.1.0.2/100m", file)
	if err != nil || got.Bytes != peers.Files["/100m"] || got.Time <= 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := peers.CheckPattern(f, peers.Files["/100m"]); err != nil {
		t.Error(err)
	}
	if parts := strings.Count(s.Logs(), `"GET /100m HTTP/1.1" 206`); parts < connections {
		t.Errorf("%d requests for parts, want one a connection at least", parts)
	}
	if _, err := peers.Aria2(deadline(t), client, 1, "http://10.1.0.2/missing", file); err == nil {
		t.Error("a file that is missing was fetched")
	}
}

func TestVersions(t *testing.T) {
	versions := peers.Versions()
	t.Log(versions)
	for _, program := range []string{"nginx", "ovs-vswitchd", "bird", "wrk"} {
		want, err := peers.Version(program)
		if err != nil {
			t.Skipf("SKIP ring 4 (lab): %v: run make deps", err)
		}
		if !slices.Contains(versions, want) || !strings.HasPrefix(want, program+"/") {
			t.Errorf("versions %q, want %s among them", versions, want)
		}
	}
	if _, err := peers.Version("sh"); err == nil {
		t.Error("sh is a peer")
	}
}
