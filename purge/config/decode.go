package config

import (
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"

	"baton/document"
	"baton/purge/policy"
)

// Defaults of optional keys.
const (
	defaultControl = "/run/baton/purge.sock"
	defaultCgroup  = "/" // the whole host
	defaultMarks   = 1 << 18
)

// defaultPolicy ends a connection that is unresponsive for two timeouts: one expires, and its retransmission gets no answer for as long again.
var defaultPolicy = policy.Policy{MaxRetries: 0, Wait: 100, Floor: 360 * time.Millisecond, Ceiling: 30 * time.Second}

// Upper bounds, which catch typing errors.
const (
	maxPolicies = 64 // the bits of a set in the kernel
	maxPrefixes = 8192
	maxPorts    = 64
	maxCgroups  = 64
	maxMarks    = 1 << 22
	maxRetries  = 15   // net.ipv4.tcp_retries2, after which the kernel gives up by itself
	maxWait     = 1000 // percent
	maxTime     = time.Hour
	groupPath   = 4000
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{File: d.File(), Control: defaultControl, Limits: Limits{Marks: defaultMarks}}
	dry := false
	d.Fields("", root, []key{
		{Name: "control", Default: "/run/baton/purge.sock", Help: "unix socket of the commands", Decode: func(path string, n *node) { cfg.Control = d.SocketPath(path, n) }},
		{Name: "metrics", Help: "host:port for Prometheus and /healthz (default: none)",
			Decode: func(path string, n *node) { cfg.Metrics = d.HostPort(path, n, "127.0.0.1:9468") }},
		{Name: "cgroups", Default: "[/]", Help: "control groups (version 2) whose processes' connections are watched, as in /proc/PID/cgroup; / is the whole host",
			Decode: func(path string, n *node) { cfg.Cgroups = d.cgroups(path, n) }},
		{Name: "dry_run", Default: "false", Help: "default of the policies", Decode: func(path string, n *node) { dry = d.Boolean(path, n) }},
		{Name: "limits", Help: "bounds of memory", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "marks", Default: "262144", Help: "unresponsive connections that may be marked at a time",
					Decode: func(path string, n *node) { cfg.Limits.Marks = d.Integer(path, n, 1, maxMarks) }},
			})
		}},
		{Name: "policies", Help: "at most 64; the first one that matches a connection applies", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxPolicies)
			d.NonEmptyList(path, n, func(at string, n *node) { cfg.Policies = append(cfg.Policies, d.policy(at, n)) })
		}},
	})
	d.Require("", root, "policies")
	if len(cfg.Cgroups) == 0 {
		cfg.Cgroups = []string{defaultCgroup}
	}
	names := make(map[string]string)
	for i := range cfg.Policies {
		p, at := &cfg.Policies[i], fmt.Sprintf("policies[%d]", i)
		if first, twice := names[p.Name]; twice {
			d.Refuse(at+".name", fmt.Sprintf("%q is the name of %s already", p.Name, first), "a name of its own")
		}
		names[p.Name] = at
		p.DryRun = p.DryRun || dry && !d.Given(at+".dry_run")
	}
	return cfg
}

// cgroups decodes a list of control groups. One within another would see its connections twice.
func (d *decoder) cgroups(at string, n *node) []string {
	var out []string
	d.AtMost(at, n, maxCgroups)
	d.NonEmptyList(at, n, func(at string, n *node) {
		s := d.Text(at, n)
		if d.Err() == nil && (s[0] != '/' || path.Clean(s) != s || len(s) > groupPath) {
			d.WrongText(n, at, s, "is no control group's path", `as in /proc/PID/cgroup behind "0::", such as /system.slice/nginx.service, or / for the whole host`)
		}
		for _, other := range out {
			if d.Err() == nil && (within(s, other) || within(other, s)) {
				d.WrongText(n, at, s, "is within another one of the list, or another one in it", "the outer one alone")
			}
		}
		out = append(out, s)
	})
	return out
}

func within(inner, outer string) bool {
	return inner == outer || outer == "/" || strings.HasPrefix(inner, outer+"/")
}

func (d *decoder) policy(path string, n *node) Policy {
	p := Policy{Policy: defaultPolicy, Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and in metrics", Decode: func(path string, n *node) { p.Name = d.Label(path, n) }},
		{Name: "addresses", Help: "addresses or prefixes of servers on this host (default: all)",
			Decode: func(path string, n *node) { p.Addresses = d.prefixes(path, n, true) }},
		{Name: "ports", Help: "numbers and ranges, such as 8000-8100", Decode: func(path string, n *node) { p.Ports = d.PortsList(path, n, maxPorts) }},
		{Name: "max_retries", Default: "0", Help: "a connection is dormant after this many retransmission timeouts and one",
			Decode: func(path string, n *node) { p.MaxRetries = d.Integer(path, n, 0, maxRetries) }},
		{Name: "wait", Default: "100%", Help: "how long the last retransmission stays unanswered, as a share of its timeout, less 40 ms",
			Decode: func(path string, n *node) { p.Wait = int(100*d.Percent(path, n, 0, maxWait) + 0.5) }},
		{Name: "floor", Default: "360ms", Help: "a connection is unresponsive at least this long before it is closed", Decode: func(path string, n *node) { p.Floor = d.time(path, n) }},
		{Name: "ceiling", Default: "30s", Help: "after this long without an answer it is closed at its next timeout", Decode: func(path string, n *node) { p.Ceiling = d.time(path, n) }},
		{Name: "exempt", Help: "addresses or prefixes of clients whose connections are never closed",
			Decode: func(path string, n *node) { p.Exempt = d.prefixes(path, n, false) }},
		{Name: "dry_run", Help: "nothing is closed, only counted and logged (default: that of the file)", Decode: func(path string, n *node) { p.DryRun = d.Boolean(path, n) }},
	})
	d.Require(path, n, "name", "ports")
	if p.Addresses == nil {
		p.Addresses = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	}
	if d.Err() == nil && p.Floor > p.Ceiling {
		d.Refuse(document.Join(path, "ceiling"), fmt.Sprintf("%v is below floor, which is %v", p.Ceiling, p.Floor), "ceiling at least floor")
	}
	return p
}

// prefixes decodes addresses and prefixes of both families.
func (d *decoder) prefixes(path string, n *node, some bool) []netip.Prefix {
	out := []netip.Prefix{}
	d.AtMost(path, n, maxPrefixes)
	list := d.List
	if some {
		list = d.NonEmptyList
	}
	list(path, n, func(at string, n *node) { out = append(out, d.AddressOrPrefix(at, n)) })
	return out
}

// time decodes a duration in whole milliseconds.
func (d *decoder) time(path string, n *node) time.Duration {
	v := d.Duration(path, n)
	if d.Err() == nil && (v < time.Millisecond || v > maxTime || v != v.Truncate(time.Millisecond)) {
		d.WrongText(n, path, n.Text, "is out of range", fmt.Sprintf("whole milliseconds, at most %v", maxTime))
	}
	return v
}
