package translate

import (
	"fmt"
	"strings"
)

// Feature is what users of the Gateway API may want, and what becomes of it.
type Feature struct {
	Of, Name string // "HTTPRoute", "matches.path, Exact"
	Refused  string // the condition that refuses it, "Accepted: UnsupportedValue"; "": it is supported
	Note     string
}

// Features are what is supported and what is refused. A test has an example of each, and the guide has them as a table.
var Features = []Feature{
	{Of: "GatewayClass", Name: "controllerName", Note: "`" + string(Controller) + "`"},
	{Of: "GatewayClass", Name: "parametersRef", Refused: "Accepted: InvalidParameters", Note: "options are flags of `baton-kubernetes`"},
	{Of: "Gateway", Name: "no addresses", Note: "served at each node's own addresses"},
	{Of: "Gateway", Name: "addresses of type IPAddress", Note: "served on nodes that have the address on an interface"},
	{Of: "Gateway", Name: "addresses of other types", Refused: "Accepted: UnsupportedAddress"},
	{Of: "Gateway", Name: "tls", Refused: "Accepted: Invalid", Note: "client certificates and TLS to backends"},
	{Of: "Listener", Name: "protocol HTTP", Note: "any port, with or without a hostname"},
	{Of: "Listener", Name: "protocol TLS, mode Passthrough"},
	{Of: "Listener", Name: "protocol TLS, mode Terminate", Refused: "Accepted: UnsupportedValue", Note: "certificates and keys stay at the backends"},
	{Of: "Listener", Name: "protocol HTTPS, TCP, UDP", Refused: "Accepted: UnsupportedProtocol"},
	{Of: "Listener", Name: "allowedRoutes.namespaces: Same, All, Selector"},
	{Of: "Listener", Name: "allowedRoutes.kinds", Note: "HTTPRoute on HTTP, TLSRoute on TLS; others: ResolvedRefs: InvalidRouteKinds"},
	{Of: "HTTPRoute", Name: "parentRefs with sectionName and port"},
	{Of: "HTTPRoute", Name: "hostnames, also with *."},
	{Of: "HTTPRoute", Name: "matches.path: PathPrefix", Note: "decided in the kernel, but for the path itself without anything below"},
	{Of: "HTTPRoute", Name: "matches.path: Exact", Note: "decided in user space"},
	{Of: "HTTPRoute", Name: "matches.path: RegularExpression", Note: "RE2, on the whole path; after Exact, before PathPrefix"},
	{Of: "HTTPRoute", Name: "matches.headers: Exact, RegularExpression"},
	{Of: "HTTPRoute", Name: "matches.method"},
	{Of: "HTTPRoute", Name: "matches.queryParams", Refused: "Accepted: UnsupportedValue"},
	{Of: "HTTPRoute", Name: "filters: URLRewrite hostname"},
	{Of: "HTTPRoute", Name: "filters: URLRewrite ReplacePrefixMatch", Note: "not to `/`"},
	{Of: "HTTPRoute", Name: "filters: URLRewrite ReplaceFullPath", Refused: "Accepted: UnsupportedValue"},
	{Of: "HTTPRoute", Name: "other filters", Refused: "Accepted: UnsupportedValue", Note: "redirects, headers, mirrors, CORS, authentication"},
	{Of: "HTTPRoute", Name: "filters of a backendRef", Refused: "Accepted: UnsupportedValue"},
	{Of: "HTTPRoute", Name: "timeouts", Refused: "Accepted: UnsupportedValue"},
	{Of: "HTTPRoute", Name: "retry", Refused: "Accepted: UnsupportedValue"},
	{Of: "HTTPRoute", Name: "sessionPersistence", Refused: "Accepted: UnsupportedValue"},
	{Of: "HTTPRoute", Name: "backendRefs with weights", Note: "in steps of 1/256 of the largest"},
	{Of: "HTTPRoute", Name: "backendRefs to other namespaces", Note: "with a ReferenceGrant, else ResolvedRefs: RefNotPermitted"},
	{Of: "HTTPRoute", Name: "backendRefs to other kinds than Service", Refused: "ResolvedRefs: InvalidKind"},
	{Of: "HTTPRoute", Name: "appProtocol kubernetes.io/h2c of a Service", Refused: "ResolvedRefs: UnsupportedProtocol", Note: "backends get HTTP/1.1"},
	{Of: "TLSRoute", Name: "hostnames, also with *.", Note: "`*` is one label, as in certificates"},
	{Of: "TLSRoute", Name: "backendRefs with weights"},
}

// FeatureTable is the table in the guide.
func FeatureTable() string {
	var b strings.Builder
	b.WriteString("| Of | What | | Notes |\n|---|---|---|---|\n")
	for _, f := range Features {
		is := "yes"
		if f.Refused != "" {
			is = "no: `" + f.Refused + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Of, f.Name, is, f.Note)
	}
	return b.String()
}
