package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/router/config"
	"baton/router/head"
)

// TestKernelAgreesWithMatch: for random routes and requests the kernel's result is Match's or an upcall; never an upcall for
// static routes with a catch-all.
func TestKernelAgreesWithMatch(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	decided, upcalls := 0, 0
	for round := range 400 {
		static := round%2 == 0
		cfg := r.config(static)
		table, err := Compile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		k := table.Kernel(RoomOf(MaxHosts))
		for range 60 {
			vip := r.IntN(len(cfg.VIPs))
			req := r.request(t)
			want, ok := table.Match(vip, req)
			got := k.Lookup(vip, req)
			switch {
			case got.Upcall && static && len(req.Host) <= MaxKernelHost:
				t.Fatalf("asks on static routes: %+v\nroutes %+v\nrequest %s %s host %s", got, describeRoutes(cfg.VIPs[vip]), req.Method, req.Target, req.Host)
			case got.Upcall:
				upcalls++
				continue
			case !ok || int(got.Pool) != want.Pool || got.Rewrite != want.Rewrite:
				t.Fatalf("the kernel says pool %d, Match says %+v, %v\nentry %+v\nroutes %v\nrequest %s %s host %s",
					got.Pool, want, ok, got, describeRoutes(cfg.VIPs[vip]), req.Method, req.Target, req.Host)
			}
			decided++
		}
		checkTables(t, k)
	}
	t.Logf("%d decided, %d upcalls", decided, upcalls)
	if decided < 5000 || upcalls < 1000 {
		t.Errorf("%d decided and %d upcalls: the routes do not test both", decided, upcalls)
	}
}

// checkTables checks what the kernel's maps require: no duplicate key, no key too long, ids that mean one host.
func checkTables(t *testing.T, k *Kernel) {
	t.Helper()
	hosts, prefixes := make(map[string]bool), make(map[string]bool)
	for _, h := range k.Hosts {
		if key := fmt.Sprint(h.VIP, h.Host); hosts[key] {
			t.Fatalf("host entry twice: %+v", h)
		} else {
			hosts[key] = true
		}
		if h.ID == 0 || len(h.Host) == 0 || len(h.Host) > MaxKernelHost {
			t.Fatalf("host entry that the kernel cannot hold: %+v", h)
		}
	}
	for _, p := range k.Prefixes {
		key := fmt.Sprint(p.VIP, p.HostID, p.Method, " ", p.Prefix)
		if prefixes[key] || (p.Method < 1 || p.Method > 5) && (p.Method != AnyMethod || p.Prefix != "") || len(p.Prefix) > MaxKernelPrefix || strings.Contains(p.Prefix, "?") {
			t.Fatalf("prefix entry that the kernel cannot hold, or twice: %+v", p)
		}
		prefixes[key] = true
		if p.HostID > 0 && !slices.ContainsFunc(k.Hosts, func(h HostEntry) bool { return h.VIP == p.VIP && h.ID == p.HostID }) {
			t.Fatalf("prefix entry of no host: %+v", p)
		}
	}
}

func describeRoutes(v config.VIP) []string {
	var out []string
	for _, r := range v.Routes {
		out = append(out, describe(r.Match)+" -> "+r.Pool)
	}
	return out
}

type random struct{ *rand.Rand }

func (r random) pick(of ...string) string { return of[r.IntN(len(of))] }

// names are few, so that routes and requests match.
func (r random) host() string {
	return r.pick("a.net", "b.net", "x.a.net", "y.x.a.net", "net", strings.Repeat("h", 61)+".net")
}

func (r random) path(pieces int) string {
	var b strings.Builder
	b.WriteByte('/')
	for range r.IntN(pieces) {
		b.WriteString(r.pick("a", "b", "/", "ab", ".mp4", strings.Repeat("x", 60), strings.Repeat("y", 127)))
	}
	return b.String()
}

func (r random) config(static bool) *config.Config {
	for {
		var vips strings.Builder
		for v := range 1 + r.IntN(2) {
			fmt.Fprintf(&vips, "  - address: 10.9.9.%d:80\n    interfaces: [eth0]\n    routes:\n", v+1)
			for range r.IntN(8) {
				conditions := r.conditions(static)
				fmt.Fprintf(&vips, "      - {match: {%s}, pool: %s%s}\n", strings.Join(conditions, ", "), r.pick("a", "b", "c"), r.rewrite(conditions))
			}
			if static || r.IntN(3) > 0 {
				fmt.Fprintf(&vips, "      - pool: %s\n", r.pick("a", "b", "c"))
			} else {
				fmt.Fprintf(&vips, "      - {match: {path_prefix: /a}, pool: %s}\n", r.pick("a", "query"))
			}
		}
		cfg, err := config.Parse("f", []byte("vips:\n"+vips.String()+pools))
		if err == nil {
			return cfg
		}
		if !strings.Contains(err.Error(), "is never reached") && !strings.Contains(err.Error(), ".rewrite.") {
			panic(err)
		}
	}
}

// rewrite is a rewrite that goes with conditions, or none.
func (r random) rewrite(conditions []string) string {
	switch slash := slices.ContainsFunc(conditions, func(c string) bool { return strings.HasPrefix(c, "path_prefix") && strings.HasSuffix(c, "/") }); {
	case r.IntN(3) > 0:
		return ""
	case slash:
		return ", rewrite: {path_prefix: " + r.pick("/", "/new/") + "}"
	}
	return ", rewrite: {" + r.pick("host: o.net", "path_prefix: /new", "host: p.net, path_prefix: /b") + "}"
}

func (r random) conditions(static bool) []string {
	var out []string
	if r.IntN(2) == 0 {
		host := r.host()
		if static {
			host = r.pick("a.net", "b.net", "x.a.net")
		} else if r.IntN(3) == 0 {
			host = "'*." + host + "'"
		} else if r.IntN(4) == 0 {
			host += "."
		}
		out = append(out, "host: "+host)
	}
	if r.IntN(4) > 0 {
		prefix := r.path(5)
		if static {
			prefix = prefix[:min(len(prefix), MaxKernelPrefix)]
		}
		out = append(out, "path_prefix: "+prefix)
	}
	if r.IntN(3) == 0 {
		out = append(out, "methods: ["+r.pick("GET", "GET, HEAD", "POST, PATCH", "DELETE")+"]")
	}
	if !static && r.IntN(6) == 0 {
		out = append(out, "path_regex: '"+r.pick(`\.mp4$`, `^/a`, `^/ab/.*`, `(?i)^/B`, `^/a?b`, `^/(a|b)`, `b`, `^/a\?b`, `^$`, `^/a*b|y`)+"'")
	}
	if !static && r.IntN(8) == 0 {
		out = append(out, "headers: [{name: X, value: '"+r.pick("1", "2")+"'}]")
	}
	return out
}

func (r random) request(t *testing.T) *head.Request {
	target := r.path(6)
	if r.IntN(2) == 0 {
		target += "?" + r.path(4)
	}
	host := r.host()
	if r.IntN(8) == 0 {
		host = r.pick("", "A.NET:80", "a.net.", "X.a.net.:80", "b.net..", ".", "y.x.a.net.", ".a.net", "other", strings.Repeat("z", 70)+".a.net")
	}
	method := r.pick("GET", "GET", "HEAD", "POST", "PUT", "DELETE")
	if r.IntN(4) == 0 {
		return request(t, method, target, host, "X: "+r.pick("1", "2", "3"))
	}
	return request(t, method, target, host)
}
