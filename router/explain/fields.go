package explain

import (
	"net/netip"
	"strings"

	"baton/router/config"
	"baton/router/fields"
	"baton/router/head"
)

// unfit says why the kernel does not change the request, although it is to change; "" if it does, or need not.
func (a *routed) unfit() string {
	if a.rewrite == (config.Rewrite{}) && !a.Config.Pools[a.pool].HasFields() {
		return ""
	}
	_, why := fields.Unfit(a.req, a.size, a.size, a.Config.ReplacedAt(&a.Config.VIPs[a.vip]), a.rewrite)
	return why
}

// introduce explains what a surrogate gets that is not the client's.
func (e *Explanation) introduce(a *routed, client netip.Addr) {
	v, p := &a.Config.VIPs[a.vip], &a.Config.Pools[a.pool]
	if e.Status != 0 {
		return // the router sends it nothing
	}
	e.rewritten(a)
	if v.Mode == config.Redirect {
		return
	}
	e.Fields = fields.Of(p).Describe(client, v.Secure())
	if unfit := a.unfit(); unfit != "" && strings.HasPrefix(e.Action, spliced) { // or "spliced or proxied"
		e.Action = "proxied: " + unfit
	}
}

func (e *Explanation) rewritten(a *routed) {
	if a.rewrite == (config.Rewrite{}) {
		return
	}
	target, host := string(a.req.Target), a.rewrite.Host
	if a.req.Form == head.Origin {
		target = a.rewrite.Path(target)
	}
	if host == "" {
		name, _ := a.req.Fields.Get("Host")
		host = string(name)
	}
	e.Rewritten = target + ", host " + host
}
