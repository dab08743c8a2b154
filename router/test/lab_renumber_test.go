package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// renumbered is two pools with a server each, and files with their pools and routes in varying order.
type renumbered struct {
	*network
	r     *running
	a, b  *site
	files []renumberedFile // as read
	begun atomic.Int64     // the last file that may be in force
	sure  atomic.Int64     // the last file that is in force, or was

	mu      sync.Mutex
	answers int
	wrong   []string
}

// renumberedFile routes each host to a pool; pools are named after their servers.
type renumberedFile map[string]string

func newRenumbered(t *testing.T) *renumbered {
	n := newNetwork(t)
	l := &renumbered{network: n, a: n.site("a", lab.LinkOptions{}), b: n.site("b", lab.LinkOptions{})}
	for _, s := range []*site{l.a, l.b} {
		serve(t, s.Host, s.name)
		n.inOrder(s.back)
	}
	n.inOrder(n.front)
	return l
}

// file makes the next configuration: pools, VIPs and routes in random order, with additional pools. x.test and y.test swap pools
// now and then; a.test and b.test never do.
func (l *renumbered) file(random *rand.Rand) (string, renumberedFile) {
	f := renumberedFile{"a.test": "a", "b.test": "b", "x.test": "a", "y.test": "b"}
	if random.IntN(2) == 0 {
		f["x.test"], f["y.test"] = "b", "a"
	}
	var routes []string
	for _, host := range []string{"a.test", "b.test", "x.test", "y.test"} {
		routes = append(routes,
			fmt.Sprintf("{match: {host: %s, path_regex: '^/upcall'}, pool: %s}", host, f[host]),
			fmt.Sprintf("{match: {host: %s}, pool: %s}", host, f[host]))
	}
	pools := []string{
		fmt.Sprintf("a: {policy: %s, legs: {min: 16, max: 400}, surrogates: [{name: a, address: %q}]}", oneOf(random, "round-robin", "hash", "least-sessions"), l.a.v4),
		fmt.Sprintf("b: {policy: %s, legs: {min: 16, max: 400}, surrogates: [{name: b, address: %q}]}", oneOf(random, "round-robin", "hash", "least-sessions"), l.b.v4),
	}
	for i := range random.IntN(3) { // different in each file
		pool := fmt.Sprint("p", random.IntN(1000)*3+i)
		routes = append(routes, fmt.Sprintf("{match: {host: other%d.test}, pool: %s}", i, pool))
		pools = append(pools, fmt.Sprintf("%s: {legs: {min: 1}, surrogates: [{name: n%d, address: %q}]}", pool, i, l.sites[i].v4))
	}
	random.Shuffle(len(pools), func(i, j int) { pools[i], pools[j] = pools[j], pools[i] })
	for i := range 4 { // the pairs stay in order
		j := i + random.IntN(4-i)
		routes[2*i], routes[2*j] = routes[2*j], routes[2*i]
		routes[2*i+1], routes[2*j+1] = routes[2*j+1], routes[2*i+1]
	}
	vips := []string{
		fmt.Sprintf("{address: %q, interfaces: [%s], routes: [%s]}", vip4, l.front.Name, strings.Join(routes, ", ")),
		fmt.Sprintf("{address: \"10.9.9.10:80\", interfaces: [%s], routes: [{match: {host: a.test}, pool: b}, {match: {host: b.test}, pool: a}]}", l.front.Name),
	}
	if random.IntN(2) == 0 {
		slices.Reverse(vips)
	}
	return "vips:\n  - " + strings.Join(vips, "\n  - ") + "\npools:\n  " + strings.Join(pools, "\n  ") + "\n", f
}

func oneOf(random *rand.Rand, of ...string) string { return of[random.IntN(len(of))] }

// asks makes a request, and records a response that neither the file before it nor one since explains.
func (l *renumbered) asks(c *connection, host, path string) error {
	from := l.sure.Load()
	got, err := c.get(host, path)
	to := l.begun.Load()
	if err != nil {
		return fmt.Errorf("%s%s: %w", host, path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	for i := from; i <= to; i++ {
		if got.StatusCode == http.StatusOK && l.files[i][host] == got.surrogate {
			return nil
		}
	}
	if got.repeats == 0 {
		l.wrong = append(l.wrong, fmt.Sprintf("%s%s: %s from %q in files %d to %d", host, path, got.Status, got.surrogate, from, to))
	}
	return nil
}

// load sends requests until the context ends, on kept and on new connections.
func (l *renumbered) load(ctx context.Context) *errgroup.Group {
	work := &errgroup.Group{}
	for i := range 6 {
		work.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for ctx.Err() == nil {
				requests := 1
				if i%2 == 0 {
					requests = 200
				}
				c, err := dial(context.Background(), l.client, vip4)
				if err != nil {
					return err
				}
				for range requests {
					path := "/bytes/100"
					if random.IntN(8) == 0 {
						path = "/upcall"
					}
					if err := l.asks(c, oneOf(random, "a.test", "b.test", "x.test", "y.test"), path); err != nil {
						return err
					}
				}
				c.Close()
			}
			return nil
		})
	}
	return work
}

// next writes the next file; put applies it.
func (l *renumbered) next(t *testing.T, random *rand.Rand, put func() error) {
	t.Helper()
	text, f := l.file(random)
	if err := l.r.configure(text); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.files = append(l.files, f)
	l.mu.Unlock()
	l.begun.Add(1)
	if err := put(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	l.sure.Add(1)
}

func (l *renumbered) judge(t *testing.T) {
	t.Helper()
	t.Logf("%d answers, %d of them wrong, with %d files", l.answers, len(l.wrong), len(l.files))
	for _, line := range l.wrong[:min(len(l.wrong), 10)] {
		t.Error(line)
	}
}

// TestReloadUnderLoad reloads files with another order, or other routes, while clients send requests on kept and on new
// connections: each response must be from the pool of the file before or after.
func TestReloadUnderLoad(t *testing.T) {
	l := newRenumbered(t)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	text, f := l.file(random)
	l.files = append(l.files, f)
	l.r = l.start(text)
	client := api.NewClient(l.r.socket)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	work := l.load(ctx)
	for range 40 {
		l.next(t, random, func() error {
			_, err := client.Reload(context.Background())
			return err
		})
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	l.judge(t)
	if l.answers < 1000 {
		t.Errorf("%d answers: the test does not test", l.answers)
	}
}

// TestRestartRenumbers restarts the router with files in another order, while connections are kept.
func TestRestartRenumbers(t *testing.T) {
	l := newRenumbered(t)
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	text, f := l.file(random)
	l.files = append(l.files, f)
	l.r = l.start(text)
	hosts := []string{"a.test", "b.test", "x.test", "y.test"}
	var kept []*connection
	for range 8 {
		kept = append(kept, l.open(t, vip4))
	}
	all := func() {
		for i, c := range append(kept, l.open(t, vip4)) {
			for j := range hosts {
				if err := l.asks(c, hosts[(i+j)%len(hosts)], "/bytes/100"); err != nil {
					t.Error(err)
				}
			}
		}
	}
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	all()
	for range 5 {
		l.next(t, random, func() error {
			if err := l.r.end(); err != nil {
				return err
			}
			return l.r.again(path)
		})
		all()
	}
	for _, c := range kept {
		c.Close()
	}
	l.judge(t)
}
