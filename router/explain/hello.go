package explain

import (
	"fmt"
	"net/netip"
	"strings"

	"baton/packet/hello"
	"baton/router/choose"
	"baton/router/config"
)

// helloed is a hello's VIP and what decides on it.
type helloed struct {
	*Rules
	vip    int
	health func(surrogate string) Health
}

// hello explains a session of TLS to the host of an https URL. Its path and headers are encrypted, so nothing depends on them.
func (e *Explanation) hello(a *helloed, q *Question, authority string) {
	h, offered := helloOf(q, authority)
	e.Request = "hello without a name"
	if h.ServerName != "" {
		e.Request = "hello for " + h.ServerName
	}
	e.Request += ", offering " + strings.Join(offered, " ")
	e.addMisses(a.Routes.MissesHello(a.vip, &h, mostMissed))
	matched, ok := a.Routes.MatchHello(a.vip, &h)
	switch {
	case !ok && h.ServerName == "":
		e.refuse("no route is for hellos without a name", "missing_extension", "no route matches")
		return
	case !ok:
		e.refuse("no route matches", "unrecognized_name", "no route matches")
		return
	}
	e.Route = &Route{Index: matched.Route, Line: matched.Line, Match: matched.Reason}
	vip, pool := &a.Config.VIPs[a.vip], &a.Config.Pools[matched.Pool]
	if pool.Shared != nil {
		s := q.shared(pool, a.health)
		e.helloDecider(a, vip, pool, matched.Pool, &h, why(s, q.Client))
		e.chooseShared(vip, pool, s, choose.QuestionOfHello(pool.Shared, &h, q.Client), a.health)
		return
	}
	e.helloDecider(a, vip, pool, matched.Pool, &h, "")
	e.choose(vip, pool, &hashed{hello.Hash(q.Client, h.ServerName), "client's prefix and the name"}, q.Client, a.health)
}

// helloOf is the hello that a client of the URL would send: none names an address (RFC 6066 section 3).
func helloOf(q *Question, authority string) (h hello.Hello, offered []string) {
	offered = q.ALPN
	if offered == nil {
		offered = []string{"h2", "http/1.1"}
	}
	for _, name := range offered {
		h.Protocols = append(append(h.Protocols, byte(len(name))), name...)
	}
	host := authority
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
		h.ServerName = hello.Canonical(host)
	}
	return h, offered
}

// refuse ends an explanation with an alert.
func (e *Explanation) refuse(reason, alert, because string) {
	e.Alert, e.Reason, e.Because = alert, reason, because
	e.Action = "the router answers with alert " + alert
}

// helloDecider is decider for a hello, which is in one packet and one record.
func (e *Explanation) helloDecider(a *helloed, vip *config.VIP, p *config.Pool, pool int, h *hello.Hello, aside string) {
	entry := a.Kernel.LookupHello(a.vip, h)
	for _, why := range []string{
		onSocket(vip), entry.Why, a.Routes.Unchosen(pool, p, func(name string) bool { return a.health(name).Local }), aside,
	} {
		if why != "" {
			e.Because = why
			return
		}
	}
	e.Decides, e.Because = inKernel, fmt.Sprintf("the name is in its tables, or no route has it; a hello in several packets is decided in %s", userSpace)
}
