package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
)

// policies is a network of four surrogates, with a pool of each policy, each behind a port of the VIP.
func policies(t *testing.T) (*network, *running, *lab.Host) {
	n := newNetwork(t)
	far, front := n.clientHost("far", lab.LinkOptions{})
	for i := range 4 {
		s := n.site(fmt.Sprintf("s%d", i+1), lab.LinkOptions{})
		serve(t, s.Host, s.name)
	}
	var vips, pools strings.Builder
	for i, p := range []struct{ name, policy string }{
		{"turns", "policy: round-robin"},
		{"weights", "policy: weighted"},
		{"least", "policy: least-sessions"},
		{"hash", "policy: hash"},
		{"query", "policy: hash, hash_query: [id, part]"},
		{"nearest", "policy: nearest, nearest: [{prefix: 10.1.0.0/16, surrogates: [nearest-s1, nearest-s2]}, {prefix: 10.1.1.0/24, surrogates: [nearest-s3]}]"},
	} {
		fmt.Fprintf(&vips, "  - {address: \"10.9.9.9:%d\", interfaces: [%s, %s], routes: [{pool: %s}]}\n", 8001+i, n.front.Name, front.Name, p.name)
		fmt.Fprintf(&pools, "  %s:\n    %s\n    legs: {min: 8, max: 100}\n    surrogates:\n", p.name, strings.ReplaceAll(p.policy, ", hash_query", "\n    hash_query"))
		for j, s := range n.sites {
			weight := 1
			if p.name == "weights" {
				weight = j + 1
			}
			fmt.Fprintf(&pools, "      - {name: %s-%s, address: %q, weight: %d}\n", p.name, s.name, s.v4, weight)
		}
	}
	config := strings.ReplaceAll(pools.String(), "policy: nearest, nearest", "policy: nearest\n    nearest")
	// Routes for the comparison with explain; each pool uses hash, so that exactly one surrogate is right.
	fmt.Fprintf(&vips, `  - address: "10.9.9.9:8100"
    interfaces: [%s]
    routes:
      - {match: {host: "*.wild.test", path_prefix: /v/}, pool: r1}
      - {match: {path_regex: '\.(jpg|png)$'}, pool: r2}
      - {match: {methods: [HEAD, POST]}, pool: r3}
      - {match: {headers: [{name: X-A, value: "1"}]}, pool: r2}
      - {match: {host: only.test, path_prefix: /a}, pool: r1}
      - {match: {path_prefix: /a/b}, pool: r3}
      - {match: {host: only.test}, pool: query}
`, n.front.Name)
	for _, name := range []string{"r1", "r2", "r3"} {
		config += fmt.Sprintf("  %s:\n    policy: hash\n    legs: {min: 8, max: 100}\n    surrogates:\n", name)
		for _, s := range n.sites {
			config += fmt.Sprintf("      - {name: %s-%s, address: %q}\n", name, s.name, s.v4)
		}
	}
	return n, n.start("vips:\n" + vips.String() + "pools:\n" + config), far
}

// TestPolicies sends each pool one request per connection, and counts which surrogates answer.
func TestPolicies(t *testing.T) {
	n, r, far := policies(t)
	// who returns the surrogate that answers a path on a new connection, which stays open if keep is set.
	who := func(t *testing.T, from *lab.Host, port int, path string, keep bool) string {
		t.Helper()
		c, err := dial(t.Context(), from, fmt.Sprintf("10.9.9.9:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		if keep {
			t.Cleanup(func() { c.Close() })
		} else {
			defer c.Close()
		}
		got, err := c.get("h", path)
		if err != nil || got.StatusCode != 200 {
			t.Fatalf("%s: %+v %v", path, got.Response, err)
		}
		return got.surrogate
	}
	count := func(t *testing.T, from *lab.Host, port, requests int) map[string]int {
		t.Helper()
		counts := make(map[string]int)
		for i := range requests {
			counts[who(t, from, port, fmt.Sprintf("/%d", i), false)]++
		}
		return counts
	}
	expect := func(t *testing.T, got, want map[string]int) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	t.Run("round-robin", func(t *testing.T) {
		expect(t, count(t, n.client, 8001, 80), map[string]int{"s1": 20, "s2": 20, "s3": 20, "s4": 20})
	})
	t.Run("weighted", func(t *testing.T) {
		expect(t, count(t, n.client, 8002, 100), map[string]int{"s1": 10, "s2": 20, "s3": 30, "s4": 40})
	})
	t.Run("least-sessions", func(t *testing.T) {
		got := make(map[string]int)
		for range 12 {
			got[who(t, n.client, 8003, "/", true)]++
		}
		expect(t, got, map[string]int{"s1": 3, "s2": 3, "s3": 3, "s4": 3})
	})
	t.Run("least-sessions, one is freed", func(t *testing.T) {
		var held []*connection
		for range 12 {
			c := n.open(t, "10.9.9.9:8003")
			if got, err := c.get("h", "/"); err != nil {
				t.Fatal(err)
			} else if got.surrogate == "s2" {
				held = append(held, c)
			}
		}
		for _, c := range held {
			c.Close()
		}
		lab.Eventually(t, answersWithin, func() error {
			for _, p := range r.status().Pools {
				for _, s := range p.Surrogates {
					if s.Name == "least-s2" && s.Sessions != 0 {
						return fmt.Errorf("%d sessions of s2 are not over", s.Sessions)
					}
				}
			}
			return nil
		})
		for range held {
			if got := who(t, n.client, 8003, "/", true); got != "s2" {
				t.Errorf("%s, want s2, which has fewest", got)
			}
		}
	})
	t.Run("nearest", func(t *testing.T) {
		expect(t, count(t, n.client, 8006, 20), map[string]int{"s1": 20}) // the zone's best
		expect(t, count(t, far, 8006, 10), map[string]int{"s3": 10})
		for _, drained := range []struct{ surrogate, next string }{{"s1", "s2"}, {"s2", ""}} {
			if _, err := n.baton(deadline(t), "router", "backend", "drain", "--control", r.socket, "nearest-"+drained.surrogate); err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, answersWithin, func() error {
				got := count(t, n.client, 8006, 8)
				want := map[string]int{drained.next: 8}
				if drained.next == "" { // none of the zone is left: the pool's others in turn
					want = map[string]int{"s3": 4, "s4": 4}
				}
				if !maps.Equal(got, want) {
					return fmt.Errorf("with %s drained: %v, want %v", drained.surrogate, got, want)
				}
				return nil
			})
			expect(t, count(t, far, 8006, 5), map[string]int{"s3": 5})
		}
	})
	t.Run("hash of query parameters", func(t *testing.T) {
		seen := make(map[string]bool)
		for i := range 20 {
			first := who(t, n.client, 8005, fmt.Sprintf("/x?id=%d&part=1", i), false)
			seen[first] = true
			for _, same := range []string{fmt.Sprintf("/y?part=1&id=%d", i), fmt.Sprintf("/x?other=7&id=%d&part=1", i)} {
				if got := who(t, n.client, 8005, same, false); got != first {
					t.Errorf("%s: %s, want %s as the parameters are the same", same, got, first)
				}
			}
		}
		if len(seen) < 3 {
			t.Errorf("20 parameters are on %v alone", seen)
		}
	})
	t.Run("hash of the path", func(t *testing.T) {
		const paths = 100
		ask := func(from *lab.Host) []string {
			var out []string
			for i := range paths {
				out = append(out, who(t, from, 8004, fmt.Sprintf("/file/%d?%d", i, time.Now().UnixNano()), false))
			}
			return out
		}
		first := ask(n.client)
		if again := ask(far); !slices.Equal(first, again) {
			t.Errorf("another client is sent elsewhere: %v, %v", first, again)
		}
		shares := make(map[string]int)
		for _, s := range first {
			shares[s]++
		}
		for _, s := range n.sites {
			if shares[s.name] < paths/10 {
				t.Errorf("%s has %d of %d paths", s.name, shares[s.name], paths)
			}
		}
		if _, err := n.baton(deadline(t), "router", "backend", "drain", "--control", r.socket, "hash-s2"); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, answersWithin, func() error {
			for i, s := range first {
				if got := who(t, n.client, 8004, fmt.Sprintf("/file/%d", i), false); got == "s2" {
					return fmt.Errorf("path %d is still on s2, which drains", i)
				} else if s != "s2" && got != s {
					t.Errorf("path %d moved from %s to %s though s2 drains", i, s, got)
				}
			}
			return nil
		})
		if _, err := n.baton(deadline(t), "router", "backend", "undrain", "--control", r.socket, "hash-s2"); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, answersWithin, func() error {
			if again := ask(n.client); !slices.Equal(first, again) {
				return fmt.Errorf("not as before: %v, %v", first, again)
			}
			return nil
		})
	})
	t.Run("explain agrees", func(t *testing.T) { explainAgrees(t, n, r) })
}

// explainAgrees compares random requests with what explain says of them: the running router, and the file.
func explainAgrees(t *testing.T, n *network, r *running) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	client := api.NewClient(r.socket)
	defer client.Close()
	answers := make(map[string]int)
	for i := range 200 {
		path := pick("/v/x", "/v", "/a", "/a/b", "/a/b/c", "/x.jpg", "/x.png?q=.jpg", "/x?y.png", "/", "/z") + pick("", "/1", "/2?id=7", "?id=9&part=2", "?id=9")
		host := pick("a.wild.test", "wild.test", "B.A.WILD.TEST", "only.test", "other.test", "only.test:8100")
		method := pick("GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
		headers := []api.RouterHeader{{Name: "Host", Value: host}}
		fields := "Host: " + host + "\r\n"
		if random.IntN(3) == 0 {
			value := pick("1", "2", " 1")
			headers = append(headers, api.RouterHeader{Name: "X-A", Value: value})
			fields += "X-A: " + value + "\r\n"
		}
		if method == "POST" || method == "PUT" {
			headers = append(headers, api.RouterHeader{Name: "Content-Length", Value: "0"})
			fields += "Content-Length: 0\r\n"
		}
		request := method + " " + path + " HTTP/1.1\r\n" + fields + "\r\n"

		c, err := dial(t.Context(), n.client, "10.9.9.9:8100")
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.ask(method, request)
		c.Close()
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		question := api.RouterQuestion{URL: "http://10.9.9.9:8100" + path, Method: method, Headers: headers}
		said, err := client.RouterExplain(context.Background(), question)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		if i < 10 { // a process each
			fromFile, err := explainFile(deadline(t), n, r.file, question)
			if err != nil || fromFile.Surrogate != said.Surrogate || fromFile.Line != said.Line || fromFile.Status != said.Status {
				t.Errorf("%q: the file says %+v, the router %+v (%v)", request, fromFile, said, err)
			}
		}
		answers[fmt.Sprint(got.StatusCode, said.Pool)]++
		_, surrogate, _ := strings.Cut(said.Surrogate, "-")
		if got.surrogate != surrogate || said.Status != 0 && got.StatusCode != said.Status || said.Status == 0 && got.StatusCode != 200 {
			t.Errorf("%q: %d from %q, explained as %q, status %d:\n%s", request, got.StatusCode, got.surrogate, said.Surrogate, said.Status, strings.Join(said.Steps, "\n"))
		}
	}
	if len(answers) < 5 { // four pools and no route
		t.Errorf("only %v was asked for", answers)
	}
}

func explainFile(ctx context.Context, n *network, file string, q api.RouterQuestion) (api.RouterExplanation, error) {
	args := []string{"router", "explain", "--offline", "-o", "json", "-c", file, "--method", q.Method, q.URL}
	for _, h := range q.Headers {
		args = append(args, "--header", h.Name+": "+h.Value)
	}
	var e api.RouterExplanation
	out, err := n.baton(ctx, args...)
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal([]byte(out), &e)
}
