package config

import (
	"reflect"
	"slices"
)

// Differences lists what differs between two configurations in VIPs, pools, surrogates and access logs, a line each. It compares
// values: the lines of the file on which they are do not count.
func Differences(before, after *Config) []string {
	var out []string
	out = append(out, differ("VIP", vipsByName(before), vipsByName(after))...)
	out = append(out, differ("pool", poolsByName(before), poolsByName(after))...)
	out = append(out, differ("surrogate", surrogatesByName(before), surrogatesByName(after))...)
	if !slices.EqualFunc(before.Access, after.Access, AccessLog.Same) {
		out = append(out, "log.access has changed")
	}
	return out
}

// named is a value of a configuration, for comparison.
type named struct {
	name  string
	value any
}

// differ compares values of the same kind by their names.
func differ(kind string, before, after []named) (out []string) {
	old := make(map[string]any, len(before))
	for _, b := range before {
		old[b.name] = b.value
	}
	kept := make(map[string]bool, len(after))
	for _, a := range after {
		kept[a.name] = true
		if had, ok := old[a.name]; !ok {
			out = append(out, kind+" "+a.name+" is new")
		} else if !reflect.DeepEqual(had, a.value) {
			out = append(out, kind+" "+a.name+" has changed")
		}
	}
	for _, b := range before {
		if !kept[b.name] {
			out = append(out, kind+" "+b.name+" has gone")
		}
	}
	return out
}

// vipsByName are the VIPs without their lines, and with certificates instead of what holds them.
func vipsByName(c *Config) (out []named) {
	type vip struct {
		VIP
		certificates [][][]byte // DER, each with its chain
	}
	for _, v := range c.VIPs {
		x := vip{VIP: v}
		x.Line, x.TLS, x.Routes = 0, slices.Clone(v.TLS), slices.Clone(v.Routes)
		for i := range x.TLS {
			x.certificates = append(x.certificates, x.TLS[i].Pair.Certificate)
			x.TLS[i] = KeyPair{Certificate: x.TLS[i].Certificate, Key: x.TLS[i].Key}
		}
		for i := range x.Routes {
			x.Routes[i].Line = 0
		}
		name := v.Address.String()
		if v.Protocol == QUIC {
			name += " of QUIC"
		}
		out = append(out, named{name, x})
	}
	return out
}

// poolsByName are the pools without their lines and surrogates, and with the settings of their policies instead of these.
func poolsByName(c *Config) (out []named) {
	type pool struct {
		Pool
		policy any
	}
	for _, p := range c.Pools {
		x := pool{Pool: p}
		x.Line, x.Surrogates = 0, nil
		if p.Shared != nil {
			shared := *p.Shared
			if shared.Policy != nil {
				x.policy = *shared.Policy.Config()
			}
			shared.Policy = nil
			x.Shared = &shared
		}
		out = append(out, named{p.Name, x})
	}
	return out
}

// surrogatesByName are the surrogates without their lines, each with its pool.
func surrogatesByName(c *Config) (out []named) {
	type surrogate struct {
		Surrogate
		pool string
	}
	for _, p := range c.Pools {
		for _, sg := range p.Surrogates {
			sg.Line = 0
			out = append(out, named{sg.Name, surrogate{sg, p.Name}})
		}
	}
	return out
}
