package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"baton/document"
	"baton/purge/policy"
)

// Defaults of what a file leaves out.
const (
	defaultControl = "/run/baton/purge.sock"
	defaultCgroup  = "/" // the whole host
	defaultMarks   = 1 << 18
)

// defaultPolicy ends what is silent for two timeouts: one runs out, and what it has sent again stays without an answer for as long again.
var defaultPolicy = policy.Policy{MaxRetries: 0, Wait: 100, Floor: 360 * time.Millisecond, Ceiling: 30 * time.Second}

// Upper bounds, so that a slip of the finger is found.
const (
	maxPolicies = 64 // the bits of a set in the kernel
	maxPrefixes = 8192
	maxPorts    = 64
	maxCgroups  = 64
	maxMarks    = 1 << 22
	maxRetries  = 15   // net.ipv4.tcp_retries2, after which the kernel gives up by itself
	maxWait     = 1000 // percent
	maxTime     = time.Hour
	unixPath    = 107 // sun_path without its final NUL, unix(7)
	groupPath   = 4000
)

// decoder turns the tree into a Config.
type decoder struct{ *document.Decoder }

type (
	node = document.Node
	key  = document.Key
)

func (d *decoder) config(root *node) *Config {
	cfg := &Config{Control: defaultControl, Limits: Limits{Marks: defaultMarks}}
	dry := false
	d.Fields("", root, []key{
		{Name: "control", Decode: func(path string, n *node) { cfg.Control = d.control(path, n) }},
		{Name: "metrics", Decode: func(path string, n *node) { cfg.Metrics = d.metrics(path, n) }},
		{Name: "cgroups", Decode: func(path string, n *node) { cfg.Cgroups = d.cgroups(path, n) }},
		{Name: "dry_run", Decode: func(path string, n *node) { dry = d.Boolean(path, n) }},
		{Name: "limits", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "marks", Decode: func(path string, n *node) { cfg.Limits.Marks = d.Integer(path, n, 1, maxMarks) }},
			})
		}},
		{Name: "policies", Decode: func(path string, n *node) {
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

func (d *decoder) control(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && (s[0] != '/' || len(s) > unixPath) {
		d.WrongText(n, path, s, "is not usable as a path", fmt.Sprintf("an absolute path of at most %d bytes", unixPath))
	}
	return s
}

// metrics decodes where the Prometheus listener is; the host may be empty or a name.
func (d *decoder) metrics(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() != nil {
		return ""
	}
	const right = `such as "127.0.0.1:9468"`
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		d.WrongText(n, path, s, "is not host:port", right)
	} else if number(port) == 0 {
		d.WrongText(n, path, s, "has no port from 1 to 65535", right)
	}
	return s
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

// nameForm is a label of a DNS name (RFC 1123, section 2.1).
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (d *decoder) name(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && !nameForm.MatchString(s) {
		d.WrongText(n, path, s, "is no name here", "at most 63 of a-z, 0-9 and, inside, -")
	}
	return s
}

func (d *decoder) policy(path string, n *node) Policy {
	p := Policy{Policy: defaultPolicy, Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "name", Decode: func(path string, n *node) { p.Name = d.name(path, n) }},
		{Name: "addresses", Decode: func(path string, n *node) { p.Addresses = d.prefixes(path, n, true) }},
		{Name: "ports", Decode: func(path string, n *node) { p.Ports = d.ports(path, n) }},
		{Name: "max_retries", Decode: func(path string, n *node) { p.MaxRetries = d.Integer(path, n, 0, maxRetries) }},
		{Name: "wait", Decode: func(path string, n *node) { p.Wait = d.percent(path, n) }},
		{Name: "floor", Decode: func(path string, n *node) { p.Floor = d.time(path, n) }},
		{Name: "ceiling", Decode: func(path string, n *node) { p.Ceiling = d.time(path, n) }},
		{Name: "exempt", Decode: func(path string, n *node) { p.Exempt = d.prefixes(path, n, false) }},
		{Name: "dry_run", Decode: func(path string, n *node) { p.DryRun = d.Boolean(path, n) }},
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
	list(path, n, func(at string, n *node) { out = append(out, d.prefix(at, n)) })
	return out
}

func (d *decoder) prefix(path string, n *node) netip.Prefix {
	s := d.Text(path, n)
	if d.Err() != nil {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(s)
	if a, alone := netip.ParseAddr(s); err != nil && alone == nil && a.Zone() == "" {
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	switch {
	case err != nil:
		d.WrongText(n, path, s, "is neither an address nor address/length", "such as 192.0.2.7 or 2001:db8::/32")
	case p.Addr().Is4In6():
		d.WrongText(n, path, s, "is an IPv4 address written as IPv6", "such as 192.0.2.7")
	case p != p.Masked():
		d.WrongText(n, path, s, "has bits set after its length", p.Masked().String())
	}
	return p
}

var portForm = regexp.MustCompile(`^[1-9][0-9]{0,4}$`)

// ports decodes a list of numbers and of ranges of them, "8000-8100".
func (d *decoder) ports(path string, n *node) []Ports {
	var out []Ports
	d.AtMost(path, n, maxPorts)
	d.NonEmptyList(path, n, func(at string, n *node) {
		s := d.Text(at, n)
		from, to, isRange := strings.Cut(s, "-")
		if !isRange {
			to = from
		}
		first, last := number(from), number(to)
		switch {
		case d.Err() != nil:
		case first == 0 || last == 0:
			d.WrongText(n, at, s, "is not a port", "such as 443 or 8000-8100, from 1 to 65535")
		case first > last:
			d.WrongText(n, at, s, "ends before it begins", to+"-"+from)
		default:
			out = append(out, Ports{first, last})
		}
	})
	return out
}

// number is a port's, or 0.
func number(s string) uint16 {
	v, err := strconv.Atoi(s)
	if err != nil || v > math.MaxUint16 || !portForm.MatchString(s) {
		return 0
	}
	return uint16(v)
}

// percent decodes a share of a timeout.
func (d *decoder) percent(path string, n *node) int {
	s := d.Text(path, n)
	digits, is := strings.CutSuffix(s, "%")
	v, err := strconv.Atoi(digits)
	if d.Err() == nil && (!is || err != nil || v < 0 || v > maxWait) {
		d.WrongText(n, path, s, "is no share of a timeout", fmt.Sprintf("from 0%% to %d%%, such as 100%%", maxWait))
	}
	return v
}

// time decodes a duration in whole milliseconds.
func (d *decoder) time(path string, n *node) time.Duration {
	v := d.Duration(path, n)
	if d.Err() == nil && (v < time.Millisecond || v > maxTime || v != v.Truncate(time.Millisecond)) {
		d.WrongText(n, path, n.Text, "is out of range", fmt.Sprintf("whole milliseconds, at most %v", maxTime))
	}
	return v
}
