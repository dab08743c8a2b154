package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// soak is traffic of every kind while everything is restarted.
type soak struct {
	t      *testing.T
	n      *network
	r      *running
	random *rand.Rand
	nginx  map[string]*peers.Server
	config [2]string // alternated by reloads
	now    int
	crowds []*crowd
	moved  atomic.Int64 // bytes of uploads and downloads
	cancel context.CancelFunc
	wg     sync.WaitGroup
	done   map[string]int
}

// TestSoak runs for BATON_SOAK (a duration, 2m): in its first half the router, too, is killed and restarted. No client may see a
// wrong byte, and nothing may be left at the end.
func TestSoak(t *testing.T) {
	length := 2 * time.Minute
	if text := os.Getenv("BATON_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("BATON_SOAK: %v", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &soak{t: t, n: newNetwork(t), random: rand.New(rand.NewPCG(seed, 0)), nginx: make(map[string]*peers.Server), done: make(map[string]int)}
	s.begin()
	for _, half := range []struct {
		name   string
		events []func()
	}{
		{"all restarted", []func(){s.killRouter, s.killRouter, s.restart, s.reload, s.drain}},
		{"but the router", []func(){s.restart, s.reload, s.drain}},
	} {
		s.settle()
		before := s.weigh()
		s.come()
		for end := time.Now().Add(length / 2); time.Now().Before(end) && !t.Failed(); {
			half.events[s.random.IntN(len(half.events))]()
			time.Sleep(time.Duration(s.random.IntN(2000)) * time.Millisecond) // often before the effects of the last event are over
		}
		s.leave()
		t.Logf("%s: %v; %d bytes moved", half.name, s.done, s.moved.Load())
		s.settle()
		if half.name == "but the router" {
			s.compare(before)
		}
	}
}

// begin starts surrogates and the router.
func (s *soak) begin() {
	var pool []string
	for _, name := range []string{"a", "b"} {
		site := s.n.site(name, lab.LinkOptions{})
		s.nginx[name] = peers.Nginx(site.Host, peers.NginxOptions{NoAccessLog: true})
		pool = append(pool, fmt.Sprintf("{name: %s, address: %q}", name, site.v4))
	}
	steady := s.n.site("steady", lab.LinkOptions{})
	serve(s.t, steady.Host, "steady")
	for i, policy := range []string{"round-robin", "hash"} {
		s.config[i] = fmt.Sprintf(`vips:
  - address: %q
    interfaces: [%s]
    routes:
      - {match: {host: nginx.test}, pool: nginx}
      - {match: {host: upcall.test, path_regex: '^/16'}, pool: nginx}
      - {pool: steady4}
  - {address: %q, interfaces: [%[2]s], routes: [{pool: steady6}]}
pools:
  nginx: {policy: %[4]s, %[5]s, surrogates: [%[6]s]}
  steady4: {surrogates: [{name: steady4, address: %[7]q}]}
  steady6: {surrogates: [{name: steady6, address: %[8]q}]}
`, vip4, s.n.front.Name, vip6, policy, checked, strings.Join(pool, ", "), steady.v4, steady.v6)
	}
	s.r = s.n.start(s.config[0])
}

// come starts the traffic.
func (s *soak) come() {
	s.crowds = nil
	for _, c := range []*crowd{
		{host: "nginx.test", requests: 3}, {host: "nginx.test", requests: 30, pause: 20 * time.Millisecond}, {host: "upcall.test", requests: 3},
	} {
		c.n, c.path, c.want = s.n, "/16k", patternText(16<<10)
		c.pause = max(c.pause, 10*time.Millisecond)
		s.crowds = append(s.crowds, c.come(s.t, 4))
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	s.cancel = cancel
	for _, vip := range []string{vip4, vip6} {
		for _, transfer := range []func(context.Context, *lab.Host, string, int64, time.Duration) error{download, upload} {
			s.wg.Go(func() {
				for ctx.Err() == nil {
					const size = 4 << 20
					// Their surrogate stays up: they must not notice what happens to the router.
					if err := transfer(context.WithoutCancel(ctx), s.n.client, vip, size, time.Minute); err != nil {
						s.t.Errorf("%s: %v", vip, err)
						return
					}
					s.moved.Add(size)
				}
			})
		}
	}
}

func (s *soak) leave() {
	s.cancel()
	s.wg.Wait()
	for _, c := range s.crowds {
		c.leave()
		s.t.Log(c)
		lost, _ := c.harm()
		if most := 4 * (s.done["restart"] + s.done["router killed"] + 1); lost > 2*most {
			s.t.Errorf("more connections were cut off than there were events and clients: %v", c)
		}
	}
}

func (s *soak) killRouter() {
	s.done["router killed"]++
	if err := s.r.Kill(); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(time.Duration(s.random.IntN(1000)) * time.Millisecond) // without a router
	path, err := build.Program("baton")
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.r.again(path); err != nil {
		s.t.Fatal(err)
	}
}

// restart stops an nginx in one of several ways, and starts it again.
func (s *soak) restart() {
	s.done["restart"]++
	for i, name := range []string{"a", "b"} {
		if s.random.IntN(2) == i {
			continue
		}
		if err := s.nginx[name].Stop(time.Duration(s.random.IntN(2)) * answersWithin); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Duration(s.random.IntN(1500)) * time.Millisecond)
		s.nginx[name] = peers.Nginx(s.n.sites[i].Host, peers.NginxOptions{NoAccessLog: true})
		return
	}
}

func (s *soak) reload() {
	s.done["reload"]++
	s.now = 1 - s.now
	s.r.hangup(s.t, s.config[s.now])
}

func (s *soak) drain() {
	s.done["drain"]++
	client := api.NewClient(s.r.socket)
	defer client.Close()
	for _, undo := range []bool{false, true} {
		if _, err := client.RouterDrain(context.Background(), api.RouterDrainRequest{Surrogate: "a", Undo: undo}); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(time.Duration(s.random.IntN(500)) * time.Millisecond)
	}
}

// settled is longer than ends of sessions are remembered (10 s and 15 s).
const settled = time.Minute

// settle waits until no session is left, and each surrogate has its legs again.
func (s *soak) settle() {
	s.t.Helper()
	lab.Eventually(s.t, settled, func() error {
		status := s.r.status()
		if status.Sessions > 0 {
			return fmt.Errorf("%d sessions are left", status.Sessions)
		}
		for _, p := range status.Pools {
			for _, sg := range p.Surrogates {
				if !sg.Up || sg.IdleLegs == 0 {
					return fmt.Errorf("%+v", sg)
				}
			}
		}
		return nil
	})
}

// weight is the router's memory.
type weight struct{ memory, files, goroutines, maps int }

// weigh measures the router's process and the data path's maps, whose memory grows with their entries.
func (s *soak) weigh() (w weight) {
	s.t.Helper()
	w.memory = s.r.memory(s.t)
	w.goroutines = int(s.r.metrics()["go_goroutines"])
	dir := fmt.Sprintf("/proc/%d/fdinfo", s.r.Pid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	w.files = len(entries)
	seen := make(map[string]bool)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // a connection that has ended
		}
		fields := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		if id := fields["map_id"]; id != "" && !seen[id] {
			seen[id] = true
			bytes, err := strconv.Atoi(fields["memlock"])
			if err != nil {
				s.t.Fatalf("memlock of a map: %v", err)
			}
			w.maps += bytes
		}
	}
	return w
}

// compare fails the test if the router uses more memory than before, except for what varies: idle legs, connections of health
// checks, the heap.
func (s *soak) compare(before weight) {
	s.t.Helper()
	lab.Eventually(s.t, settled, func() error {
		now := s.weigh()
		if now.maps > before.maps+64<<10 || now.files > before.files+10 || now.goroutines > before.goroutines+20 || now.memory > before.memory+64<<20 {
			return fmt.Errorf("before %+v, now %+v", before, now)
		}
		return nil
	})
	s.t.Logf("before %+v, after %+v", before, s.weigh())
}
