package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"baton/document"
)

// check refuses contradictions between keys.
func (d *decoder) check(cfg *Config) {
	d.checkLinks(cfg)
	d.checkRules(cfg)
	d.checkSizes(cfg)
	d.checkMethods(cfg)
	d.checkInternal(cfg)
	d.checkProbe("probe", cfg.Probe)
	for i, l := range cfg.Links {
		if l.Probe != nil {
			d.checkProbe(document.Index("links", i)+".probe", *l.Probe)
		}
	}
}

func (d *decoder) checkLinks(cfg *Config) {
	names, interfaces := make(map[string]string), make(map[string]string)
	for i, l := range cfg.Links {
		path := document.Index("links", i)
		device := path
		if d.Given(path + ".interface") { // otherwise the entry is just the name
			device += ".interface"
		}
		if first, twice := interfaces[l.Interface]; twice {
			d.Refuse(device, fmt.Sprintf("%q is the interface of %s already", l.Interface, first), "an interface is one link")
		}
		if first, twice := names[l.Name]; twice {
			d.Refuse(path+".name", fmt.Sprintf("%q is the name of %s already", l.Name, first), "a name of its own")
		}
		interfaces[l.Interface], names[l.Name] = path, path
		if internal := cfg.Internal.Interface; l.Interface == internal || l.Interface == internal+"p" {
			d.Refuse(device, fmt.Sprintf("%q is the internal interface or its peer", l.Interface), "another one, or another internal.interface")
		}
	}
}

func (d *decoder) checkRules(cfg *Config) {
	names := make(map[string]string)
	for i, r := range cfg.Rules {
		path := document.Index("rules", i)
		if first, twice := names[r.Name]; twice {
			d.Refuse(path+".name", fmt.Sprintf("%q is the name of %s already", r.Name, first), "a name of its own")
		}
		names[r.Name] = path
	}
}

// checkReferences refuses rules by links that there are not.
func (d *decoder) checkReferences(cfg *Config) {
	known := make([]string, len(cfg.Links))
	for i, l := range cfg.Links {
		known[i] = l.Name
	}
	for i, r := range cfg.Rules {
		for j, name := range r.Links {
			d.Refer(document.Index(document.Index("rules", i)+".links", j), name, "is not a link", "", "links", known)
		}
	}
}

// Bounds on the flow entries of a rule: OpenFlow 1.3 needs one for each port.
const (
	mostRulePorts   = 1024
	mostRuleEntries = 4096
)

// checkSizes refuses rules that need too many flow entries.
func (d *decoder) checkSizes(cfg *Config) {
	for i, r := range cfg.Rules {
		path, ports := document.Index("rules", i), 0
		for _, s := range r.Services {
			if s.First <= 1 && s.Last == 65535 {
				ports++ // the whole protocol
				continue
			}
			ports += int(s.Last-s.First) + 1
		}
		if ports > mostRulePorts {
			d.Refuse(path+".services", fmt.Sprintf("have %d ports", ports), fmt.Sprintf("at most %d, or a protocol without ports", mostRulePorts))
		}
		if entries := max(len(r.To), 1) * max(ports, 1); entries > mostRuleEntries {
			d.Refuse(path, fmt.Sprintf("is about %d prefixes and %d ports", len(r.To), ports),
				fmt.Sprintf("at most %d of one times the other", mostRuleEntries))
		}
	}
}

// kernels are the methods that only Baton's datapath has.
var kernels = []Method{Even, RoundRobin, Least, Fastest}

func (d *decoder) checkMethods(cfg *Config) {
	if cfg.Datapath == Baton {
		return
	}
	check := func(path string, m Method, affinity string, kept bool) {
		if slices.Contains(kernels, m) {
			d.Refuse(path, fmt.Sprintf("%q needs Baton's own datapath", m), fmt.Sprintf("%s or %s, or datapath: %s", Hash, Controller, Baton))
		}
		if m == Hash && kept {
			d.Refuse(affinity, "needs a binding table, which a select group does not have", fmt.Sprintf("method: %s, or datapath: %s", Controller, Baton))
		}
	}
	check("method", cfg.Method, "affinity", cfg.Affinity > 0)
	for i, r := range cfg.Rules {
		path, m := document.Index("rules", i), r.Method
		if m == "" {
			m = cfg.Method
		}
		check(path+".method", m, path+".affinity", r.Affinity > 0)
	}
}

// checkInternal refuses internal networks that are too small for the gateways, or that contain external addresses.
func (d *decoder) checkInternal(cfg *Config) {
	in, classes := cfg.Internal, len(cfg.Applications())
	if classes > maxApplications {
		d.Refuse("rules", fmt.Sprintf("name %d applications", classes), fmt.Sprintf("at most %d", maxApplications))
	}
	for _, f := range []struct {
		path   string
		prefix netip.Prefix
		last   netip.Addr
	}{{"internal.ipv4", in.IPv4, in.Gateway4(classes)}, {"internal.ipv6", in.IPv6, in.Gateway6(classes)}} {
		if !f.last.IsValid() {
			available := 0
			for in.gatewayOf(f.prefix, available+1).IsValid() {
				available++
			}
			d.Refuse(f.path, fmt.Sprintf("%v has addresses for the gateways of %d of the %d applications in rules", f.prefix, available, classes), "a shorter length")
		}
		for i, l := range cfg.Links {
			for j, a := range l.Gateways {
				d.outside(f.path, f.prefix, document.Index(document.Index("links", i)+".gateways", j), a)
			}
			for j, a := range l.Resolvers {
				d.outside(f.path, f.prefix, document.Index(document.Index("links", i)+".resolvers", j), a)
			}
		}
	}
}

func (i Internal) gatewayOf(p netip.Prefix, class int) netip.Addr {
	if p == i.IPv4 {
		return i.Gateway4(class)
	}
	return i.Gateway6(class)
}

func (d *decoder) outside(internal string, p netip.Prefix, path string, a netip.Addr) {
	if p.Contains(a) {
		d.Refuse(path, fmt.Sprintf("%v is in the internal network %v", a, p.Masked()), "an address outside, or another "+internal)
	}
}

func (d *decoder) checkProbe(path string, p Probe) {
	if !p.Off && p.Dead < p.Every {
		d.Refuse(path+".dead", fmt.Sprintf("%v is below every, which is %v", p.Dead, p.Every), "at least every")
	}
}

// warn reports what works, but not as one might expect.
func (d *decoder) warn(cfg *Config) {
	report := func(path, text string) { d.Warn(d.Place(path), path, text) }
	if len(cfg.Links) == 1 {
		report("links", "only one link: there is nothing to balance")
	}
	d.warnWeights(cfg, report)
	hard := 0
	for i, l := range cfg.Links {
		if l.Cap != nil && l.Cap.Hard {
			hard++
		}
		if l.Probe != nil {
			warnProbe(document.Index("links", i)+".probe", *l.Probe, report)
		}
	}
	if hard == len(cfg.Links) {
		report("links", "all links have hard caps: the host is offline when they are used up")
	}
	warnProbe("probe", cfg.Probe, report)
	d.warnRules(cfg, report)
}

func (d *decoder) warnWeights(cfg *Config, report func(path, text string)) {
	fixed := 0
	for _, l := range cfg.Links {
		if l.Weight > 0 {
			fixed++
		}
	}
	switch {
	case fixed == len(cfg.Links) && d.Given("weights"):
		report("weights", "has no effect: every link has a weight")
	case fixed > 0 && fixed < len(cfg.Links):
		report("links", "some weights are set and others are measured: set all or none")
	}
}

func warnProbe(path string, p Probe, report func(path, text string)) {
	if p.Off {
		return
	}
	if p.Dead < 2*p.Every {
		report(path+".dead", fmt.Sprintf("one lost answer makes a link dead: at least twice every is %v", 2*p.Every))
	}
	if u, err := url.Parse(p.URL); err == nil && u.Scheme == "https" {
		report(path+".url", "with https a captive portal looks like a dead link; with http it is recognised")
	}
}

func (d *decoder) warnRules(cfg *Config, report func(path, text string)) {
	for i, r := range cfg.Rules {
		path := document.Index("rules", i)
		if d.Given(path+".otherwise") && len(r.Links) == 0 {
			report(path+".otherwise", "has no effect: the rule may use all links")
		}
		if len(r.Links) == 0 && r.Method == "" && r.Affinity == cfg.Affinity {
			report(path, "changes nothing: it only matters if it keeps flows from a later rule")
		}
		if len(r.To) == 0 && len(r.Services) == 0 && r.Application == nil && i+1 < len(cfg.Rules) {
			report(path, "matches every flow: the rules after it have no effect")
			return
		}
	}
}
