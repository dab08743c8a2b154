package explain

import (
	"net/netip"
	"strings"

	"baton/router/config"
	"baton/router/fields"
)

// unfit says why the kernel puts no fields into the request, although the pool's surrogates get some; "" if it does, or need not.
func (a *routed) unfit() string {
	if !a.cfg.Pools[a.pool].HasFields() {
		return ""
	}
	_, why := fields.Unfit(a.req, a.size, a.size, a.cfg.ReplacedAt(&a.cfg.VIPs[a.vip]))
	return why
}

// introduce explains what a surrogate learns of the client. unfit: the proxy has to say it, for this reason.
func (e *Explanation) introduce(v *config.VIP, p *config.Pool, client netip.Addr, unfit string) {
	if v.Mode == config.Redirect || e.Status != 0 {
		return // the router sends it nothing
	}
	e.Fields = fields.Of(p).Describe(client, v.Secure())
	if unfit != "" && strings.HasPrefix(e.Action, spliced) { // or "spliced or proxied"
		e.Action = "proxied: " + unfit
	}
}
