package translate

import (
	"fmt"
	"regexp"
	"strings"

	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/router/config"
)

func (t *translation) httpRoute(o *gateway.HTTPRoute) {
	r := &route{meta: &o.ObjectMeta, kind: "HTTPRoute", hostnames: o.Spec.Hostnames, parents: o.Spec.ParentRefs}
	if !t.isOurs(r) {
		return
	}
	for i := range o.Spec.Rules {
		rule := &o.Spec.Rules[i]
		at := fmt.Sprintf("rules[%d]", i)
		rewrite, unsupported := t.checkRule(at, rule)
		r.refuse(unsupported)
		refs := make([]gateway.BackendRef, len(rule.BackendRefs))
		for j, b := range rule.BackendRefs {
			refs[j] = b.BackendRef
			if len(b.Filters) > 0 {
				r.refuse(fmt.Sprintf("%s.backendRefs[%d].filters: filters of a backend are not supported", at, j))
			}
		}
		if r.unsupported != "" {
			continue
		}
		pool := t.pool(r, i, config.HTTP, refs)
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gateway.HTTPRouteMatch{{}}
		}
		for j := range matches {
			entries, unsupported := httpEntries(&matches[j], rewrite)
			if unsupported != "" {
				r.refuse(fmt.Sprintf("%s.matches[%d]%s", at, j, unsupported))
				continue
			}
			for _, e := range entries {
				e.pool, e.age, e.order = pool, r.meta, [3]int{i, j, len(r.entries)}
				r.entries = append(r.entries, e)
			}
		}
	}
	r.refuse(t.afford(r.entries))
	r.refuse(refusedByRouter(config.HTTP, r.entries))
	t.result.HTTPRoutes[name(&o.ObjectMeta)] = t.attach(r)
}

// isOurs reports whether a parent of the route is a Gateway of this controller.
func (t *translation) isOurs(r *route) bool {
	for _, p := range r.parents {
		namespace := string(deref(p.Namespace, gateway.Namespace(r.meta.Namespace)))
		for _, g := range t.ordered {
			if g.object.Namespace == namespace && g.object.Name == string(p.Name) && deref(p.Kind, "Gateway") == "Gateway" {
				return true
			}
		}
	}
	return false
}

// refuse keeps the first reason.
func (r *route) refuse(why string) {
	if r.unsupported == "" {
		r.unsupported = why
	}
}

// checkRule says what of a rule the router cannot do, apart from its matches.
func (t *translation) checkRule(at string, rule *gateway.HTTPRouteRule) (*gateway.HTTPURLRewriteFilter, string) {
	switch {
	case rule.Timeouts != nil:
		return nil, at + ".timeouts: timeouts of a route are not supported"
	case rule.Retry != nil:
		return nil, at + ".retry: retries are not supported: a spliced request passes no process"
	case rule.SessionPersistence != nil:
		return nil, at + ".sessionPersistence: session persistence is not supported"
	}
	var rewrite *gateway.HTTPURLRewriteFilter
	for i, f := range rule.Filters {
		switch {
		case f.Type != gateway.HTTPRouteFilterURLRewrite || f.URLRewrite == nil:
			return nil, fmt.Sprintf("%s.filters[%d]: filter %s is not supported: only URLRewrite is", at, i, f.Type)
		case f.URLRewrite.Path != nil && f.URLRewrite.Path.ReplacePrefixMatch == nil:
			return nil, fmt.Sprintf("%s.filters[%d].urlRewrite.path: %s is not supported: use ReplacePrefixMatch", at, i, f.URLRewrite.Path.Type)
		}
		rewrite = f.URLRewrite
	}
	return rewrite, ""
}

// httpEntries are the router's routes for a match. The reason why there are none begins with the key.
func httpEntries(m *gateway.HTTPRouteMatch, rewrite *gateway.HTTPURLRewriteFilter) ([]entry, string) {
	if len(m.QueryParams) > 0 {
		return nil, ".queryParams: matches on query parameters are not supported"
	}
	e := entry{method: m.Method != nil, headers: len(m.Headers)}
	if m.Method != nil {
		e.match.Methods = []string{string(*m.Method)}
	}
	for i, h := range m.Headers {
		switch deref(h.Type, gateway.HeaderMatchExact) {
		case gateway.HeaderMatchExact:
			e.match.Headers = append(e.match.Headers, Header{Name: string(h.Name), Value: h.Value})
		case gateway.HeaderMatchRegularExpression:
			e.match.Headers = append(e.match.Headers, Header{Name: string(h.Name), Regex: whole(h.Value)})
		default:
			return nil, fmt.Sprintf(".headers[%d].type: %s is not supported", i, *h.Type)
		}
	}
	if rewrite != nil {
		e.rewrite.Host = string(deref(rewrite.Hostname, ""))
	}
	path := deref(m.Path, gateway.HTTPPathMatch{})
	value := deref(path.Value, "/")
	kind := deref(path.Type, gateway.PathMatchPathPrefix)
	if rewrite != nil && rewrite.Path != nil && kind != gateway.PathMatchPathPrefix {
		return nil, ".path: ReplacePrefixMatch needs a match of type PathPrefix"
	}
	switch kind {
	case gateway.PathMatchExact:
		e.path, e.length, e.match.PathRegex = exactPath, len(value), whole(regexp.QuoteMeta(value))
		return []entry{e}, ""
	case gateway.PathMatchRegularExpression:
		e.path, e.length, e.match.PathRegex = regexPath, len(value), whole(value)
		return []entry{e}, ""
	case gateway.PathMatchPathPrefix:
		return prefixEntries(e, strings.TrimRight(value, "/"), rewrite)
	}
	return nil, fmt.Sprintf(".path.type: %s is not supported", kind)
}

// prefixEntries are the routes for a path and all below it. The router compares prefixes byte by byte, so that there are two: what is below
// the path, which the kernel decides, and the path itself.
func prefixEntries(e entry, prefix string, rewrite *gateway.HTTPURLRewriteFilter) ([]entry, string) {
	e.path, e.length = prefixPath, len(prefix)
	replaced, to := rewrite != nil && rewrite.Path != nil, ""
	if replaced {
		to = strings.TrimRight(*rewrite.Path.ReplacePrefixMatch, "/")
		replaced = to != prefix
	}
	if prefix == "" {
		if replaced {
			e.rewrite.PathPrefix = to // in front of whole paths
		}
		return []entry{e}, ""
	}
	below, itself := e, e
	below.match.PathPrefix = prefix + "/"
	itself.match.PathRegex = whole(regexp.QuoteMeta(prefix))
	if replaced {
		if to == "" {
			return nil, fmt.Sprintf(".path: replacePrefixMatch \"/\" is not supported for PathPrefix %q: use a longer replacement", prefix)
		}
		below.rewrite.PathPrefix = to + "/"
		itself.match.PathPrefix, itself.rewrite.PathPrefix = prefix, to
	}
	return []entry{below, itself}, ""
}

// whole has an expression match all of a text: as in Envoy, which most users of RegularExpression know.
func whole(expression string) string { return "^(?:" + expression + ")$" }
