package route

import (
	"slices"
	"strings"

	"baton/packet/hello"
	"baton/router/config"
)

// MatchHello is Match for the hello of a VIP with an encrypted protocol; false means an alert.
func (t *Table) MatchHello(vip int, h *hello.Hello) (Result, bool) {
	v := &t.vips[vip]
	may := v.index.findRoutes([]byte(h.ServerName))
	for i, ok := may.nextRoute(); ok; i, ok = may.nextRoute() {
		if r := &v.routes[i]; r.mismatchHello(h) == "" {
			return r.result(i), true
		}
	}
	return Result{}, false
}

// MissesHello is Misses for a hello.
func (t *Table) MissesHello(vip int, h *hello.Hello, most int) (first []Miss, count int) {
	matched, ok := t.MatchHello(vip, h)
	return t.listMisses(vip, matched.Route, ok, most, func(r *rule) string { return r.mismatchHello(h) })
}

// mismatchHello returns the first condition that fails, "" if all hold. A hello without a name meets only routes that say so.
func (r *rule) mismatchHello(h *hello.Hello) string {
	m := &r.match
	switch {
	case m.NoSNI != (h.ServerName == ""):
		return "no_sni"
	case m.SNI != "" && !hello.Match(m.SNI, h.ServerName):
		return "sni"
	case len(m.ALPN) > 0 && !slices.ContainsFunc(m.ALPN, h.Protocols.Has):
		return "alpn"
	}
	return ""
}

func describeHello(m config.Match) string {
	var parts []string
	switch {
	case m.NoSNI:
		parts = append(parts, "no sni")
	case m.SNI != "":
		parts = append(parts, "sni "+m.SNI)
	}
	if len(m.ALPN) > 0 {
		parts = append(parts, "alpn "+strings.Join(m.ALPN, " "))
	}
	if len(parts) == 0 {
		return "every hello with a name"
	}
	return strings.Join(parts, ", ")
}
