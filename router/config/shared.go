package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"baton/document"
	"baton/policy"
	policyconfig "baton/policy/config"
)

// Shared is the policy of a pool that name servers and controllers have, too.
type Shared struct {
	File    string
	Service string // the host whose rules all requests have; "": each has its own
	Cookie  string // whose value is the key of a client; "": there is none
	// Policy is what Load has read; nil after Parse.
	Policy *policy.Policy
}

// PolicyName is the name that the surrogates of a pool have in a shared policy. What is before a slash tells pools apart.
func PolicyName(surrogate string) string { return surrogate[strings.LastIndexByte(surrogate, '/')+1:] }

// policy decodes the word of a policy, or where a shared one is.
func (d *decoder) policy(path string, n *node, p *Pool) {
	if n.Kind != document.Mapping {
		p.Policy = Policy(d.Choice(path, n, "is not a policy",
			string(RoundRobin), string(Weighted), string(LeastSessions), string(Hash), string(Nearest)))
		return
	}
	p.Policy, p.Shared = FromFile, new(Shared)
	d.Fields(path, n, []key{
		{Name: "file", Help: "a policy, or a configuration that has one as its section policy", Decode: func(path string, n *node) { p.Shared.File = d.FilePath(path, n) }},
		{Name: "service", Help: "host whose rules all requests of the pool have (default: each request's own)",
			Decode: func(path string, n *node) { p.Shared.Service = d.dnsName(path, n) }},
		{Name: "cookie", Help: "cookie whose value is the key of spread: key (default: by client)", Decode: func(path string, n *node) { p.Shared.Cookie = d.cookie(path, n) }},
	})
	d.Require(path, n, "file")
}

// cookie decodes the name of a cookie (RFC 6265, section 4.1.1).
func (d *decoder) cookie(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
		d.WrongText(n, path, s, "is not the name of a cookie", "such as session")
	}
	return s
}

// readPolicies reads the policies that pools share with others. A file is read once.
func (d *decoder) readPolicies(cfg *Config) {
	read := make(map[string]*policy.Policy)
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if p.Shared == nil {
			continue
		}
		at := document.Join(document.Join("pools", p.Name), "policy")
		if _, had := read[p.Shared.File]; !had {
			read[p.Shared.File] = d.readPolicy(at+".file", p.Shared.File)
		}
		if p.Shared.Policy = read[p.Shared.File]; p.Shared.Policy != nil {
			d.checkShared(at, p)
		}
	}
	cfg.Warnings = d.Warnings()
}

func (d *decoder) readPolicy(at, file string) *policy.Policy {
	cfg, _, err := policyconfig.LoadSection(file)
	var wrong *Error
	if errors.As(err, &wrong) {
		first := *wrong
		more := len(first.Others) + first.More
		first.Others, first.More = nil, 0
		text := first.Error()
		if more > 0 {
			text += fmt.Sprintf("; and %d more mistakes", more)
		}
		d.Refuse(at, text, "")
		return nil
	}
	if err != nil {
		d.RefuseFile(at, file, err)
		return nil
	}
	p, err := policy.Load(*cfg, nil)
	if err != nil {
		d.Refuse(at, fmt.Sprintf("%q: %v", document.Clip(file), err), "")
		return nil
	}
	return p
}

// checkShared compares a pool with its policy. Both may have more than the other: one policy is of many pools, and a pool discovers surrogates.
func (d *decoder) checkShared(at string, p *Pool) {
	for _, w := range p.Shared.Policy.Warnings() {
		d.Warn(d.Place(at), at, w)
	}
	known := 0
	for j, s := range p.Surrogates {
		if u, _ := p.Shared.Policy.Surrogate(PolicyName(s.Name)); u != nil {
			known++
			continue
		}
		one := fmt.Sprintf("%s.surrogates[%d].name", document.Join("pools", p.Name), j)
		d.Warn(d.Place(one), one, fmt.Sprintf("%s has no surrogate %q: it gets no sessions", p.Shared.File, document.Clip(PolicyName(s.Name))))
	}
	if known == 0 && len(p.Discover) == 0 {
		d.Refuse(at+".file", fmt.Sprintf("%q has none of the pool's surrogates", document.Clip(p.Shared.File)), "the same names in both; what is before a slash does not count")
	}
	if b := p.Shared.Policy.Config().Bypass; b != "" && BypassURL(b) == "" {
		d.Warn(d.Place(at), at, fmt.Sprintf("bypass %q is not used: it is neither a host nor scheme://host", document.Clip(b)))
	}
}

// BypassURL is where clients that nothing can serve are redirected to, scheme and host; "": nowhere.
func BypassURL(bypass string) string {
	if bypass == "" {
		return ""
	}
	if !strings.Contains(bypass, "://") {
		bypass = "http://" + bypass
	}
	u, err := url.Parse(bypass)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Hostname() == "" || bypass != u.Scheme+"://"+u.Host {
		return ""
	}
	return bypass
}
