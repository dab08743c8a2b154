package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestListeners(t *testing.T) {
	listeners := func(l string) string {
		return "{kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, listeners: [" + l + "]}}"
	}
	tests := []struct {
		name, gateway                             string
		accepted, conflicted, resolved, programed string // of the first listener
		whole                                     string // Accepted of the Gateway
	}{
		{"HTTP", listeners("{name: a, port: 80, protocol: HTTP}"), "True Accepted", "False NoConflicts", "True ResolvedRefs", "True Programmed", "True Accepted"},
		{"passthrough", listeners("{name: a, port: 443, protocol: TLS, tls: {mode: Passthrough}}"), "True Accepted", "False NoConflicts", "True ResolvedRefs", "True Programmed", "True Accepted"},
		{"terminate", listeners("{name: a, port: 443, protocol: TLS, tls: {mode: Terminate}}"), "False UnsupportedValue", "False NoConflicts", "True ResolvedRefs", "False Invalid", "False ListenersNotValid"},
		{"terminate by default", listeners("{name: a, port: 443, protocol: TLS}"), "False UnsupportedValue", "False NoConflicts", "True ResolvedRefs", "False Invalid", "False ListenersNotValid"},
		{"HTTPS beside HTTP", listeners("{name: a, port: 443, protocol: HTTPS}, {name: b, port: 80, protocol: HTTP}"), "False UnsupportedProtocol", "False NoConflicts", "True ResolvedRefs", "False Invalid", "True ListenersNotValid"},
		{"the same host twice", listeners("{name: a, port: 80, protocol: HTTP, hostname: x.net}, {name: b, port: 80, protocol: HTTP, hostname: X.net}"), "False HostnameConflict", "True HostnameConflict", "True ResolvedRefs", "False Invalid", "False ListenersNotValid"},
		{"two hosts", listeners("{name: a, port: 80, protocol: HTTP, hostname: x.net}, {name: b, port: 80, protocol: HTTP}"), "True Accepted", "False NoConflicts", "True ResolvedRefs", "True Programmed", "True Accepted"},
		{"two protocols", listeners("{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: TLS, hostname: x.net, tls: {mode: Passthrough}}"), "False ProtocolConflict", "True ProtocolConflict", "True ResolvedRefs", "False Invalid", "False ListenersNotValid"},
		{"kinds", listeners("{name: a, port: 80, protocol: HTTP, allowedRoutes: {kinds: [{kind: TLSRoute}]}}"), "True Accepted", "False NoConflicts", "False InvalidRouteKinds", "False Invalid", "False ListenersNotValid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Translate(objects(t, base, tt.gateway), host)
			asText(t, r)
			s := r.Gateways[types.NamespacedName{Namespace: "web", Name: "front"}]
			c := s.Listeners[0].Conditions
			got := []string{says(c, "Accepted"), says(c, "Conflicted"), says(c, "ResolvedRefs"), says(c, "Programmed"), says(s.Conditions, "Accepted")}
			if diff := cmp.Diff([]string{tt.accepted, tt.conflicted, tt.resolved, tt.programed, tt.whole}, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddresses: a Gateway is served where it says, if this host has that address, and else at the node's own.
func TestAddresses(t *testing.T) {
	at := func(addresses string) string {
		return "{kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, addresses: [" + addresses + "], listeners: [{name: a, port: 80, protocol: HTTP}]}}"
	}
	tests := []struct{ name, gateway, vips, status, accepted, programmed string }{
		{"none", at(""), "192.0.2.1:80", "192.0.2.1 192.0.2.2", "True Accepted", "True Programmed"},
		{"here", at("{value: 198.51.100.9}"), "198.51.100.9:80", "198.51.100.9", "True Accepted", "True Programmed"},
		{"elsewhere", at("{value: 198.51.100.8}"), "", "198.51.100.8", "True Accepted", "True Programmed"},
		{"empty", at(`{type: IPAddress, value: ""}`), "192.0.2.1:80", "192.0.2.1 192.0.2.2", "True Accepted", "True Programmed"},
		{"a name", at("{type: Hostname, value: example.net}"), "", "", "False UnsupportedAddress", "False Invalid"},
		{"loopback", at("{value: 127.0.0.1}"), "", "", "False UnsupportedAddress", "False Invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Translate(objects(t, base, tt.gateway), host)
			var vips, status []string
			for _, v := range r.VIPs {
				vips = append(vips, v.Address)
			}
			s := r.Gateways[types.NamespacedName{Namespace: "web", Name: "front"}]
			for _, a := range s.Addresses {
				status = append(status, a.Value)
			}
			got := []string{strings.Join(vips, " "), strings.Join(status, " "), says(s.Conditions, "Accepted"), says(s.Conditions, "Programmed")}
			if diff := cmp.Diff([]string{tt.vips, tt.status, tt.accepted, tt.programmed}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if elsewhere := tt.name == "elsewhere"; (len(r.Elsewhere) > 0) != elsewhere {
				t.Errorf("elsewhere are %v", r.Elsewhere)
			}
		})
	}
}

// TestAttachment: which routes a listener has by namespace, kind and hostname.
func TestAttachment(t *testing.T) {
	const gateway = `{kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, listeners: [
{name: same, port: 80, protocol: HTTP}, {name: all, port: 81, protocol: HTTP, hostname: "*.x.net", allowedRoutes: {namespaces: {from: All}}},
{name: some, port: 82, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: web}}}}}]}}`
	route := func(namespace, parent, hostnames string) string {
		return "{kind: HTTPRoute, metadata: {name: r, namespace: " + namespace + "}, spec: {parentRefs: [{name: front, namespace: web" + parent + "}], hostnames: [" + hostnames + "], rules: [{}]}}"
	}
	tests := []struct{ name, route, accepted, attached string }{
		{"of the namespace", route("web", "", ""), "True Accepted", "1 1 1"},
		{"of another", route("other", "", ""), "True Accepted", "0 1 0"},
		{"of another, to one that has not", route("other", ", sectionName: same", ""), "False NotAllowedByListeners", "0 0 0"},
		{"of a namespace without the label", route("other", ", port: 82", ""), "False NotAllowedByListeners", "0 0 0"},
		{"another host", route("other", "", "y.net"), "False NoMatchingListenerHostname", "0 0 0"},
		{"a narrower host", route("other", "", "a.b.x.net"), "True Accepted", "0 1 0"},
		{"a wider host", route("other", "", `"*.net"`), "True Accepted", "0 1 0"},
		{"the domain itself", route("other", "", "x.net"), "False NoMatchingListenerHostname", "0 0 0"},
		{"no such port", route("web", ", port: 83", ""), "False NoMatchingParent", "0 0 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Translate(objects(t, base, gateway, tt.route), host)
			asText(t, r)
			var attached []string
			for _, l := range r.Gateways[types.NamespacedName{Namespace: "web", Name: "front"}].Listeners {
				attached = append(attached, string(rune('0'+l.AttachedRoutes)))
			}
			for _, s := range r.HTTPRoutes {
				if got := says(s[0].Conditions, "Accepted") + ", " + strings.Join(attached, " "); got != tt.accepted+", "+tt.attached {
					t.Errorf("%s, want %s, %s", got, tt.accepted, tt.attached)
				}
			}
		})
	}
}

func TestTLSRoutes(t *testing.T) {
	const gateway = "{kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, listeners: [{name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}}]}}"
	const route = `{kind: TLSRoute, metadata: {name: r, namespace: web}, spec: {parentRefs: [{name: front}], hostnames: [a.net, "*.b.net"], rules: [{backendRefs: [{name: blue, port: 443}]}]}}`
	r := Translate(objects(t, base, gateway, route), host)
	want := "192.0.2.1:443 tls\n  sni: a.net -> tls/web/blue:443\n  sni: '*.b.net' -> tls/web/blue:443\n"
	if diff := cmp.Diff(want, asText(t, r)); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if s := r.Surrogates["tls/web/blue:443"]; len(s) != 2 || s[0].Address != "10.2.0.1:8443" {
		t.Errorf("surrogates are %v", s)
	}
}

// TestClasses: only Gateways of this controller's classes count.
func TestClasses(t *testing.T) {
	const classes = `{kind: GatewayClass, metadata: {name: theirs}, spec: {controllerName: example.net/other}}
---
{kind: GatewayClass, metadata: {name: odd}, spec: {controllerName: baton.example/gateway, parametersRef: {group: "", kind: ConfigMap, name: x}}}`
	gateways := strings.ReplaceAll(oneGateway, "baton", "theirs") + "\n---\n" + strings.ReplaceAll(strings.ReplaceAll(oneGateway, "baton", "odd"), "front", "second")
	r := Translate(objects(t, base, classes, gateways, httpRoute("r", "rules: [{"+toBlue+"}]")), host)
	if len(r.VIPs)+len(r.Gateways)+len(r.HTTPRoutes)+len(r.Pools) != 0 {
		t.Errorf("Gateways of other classes are served: %v", r.Gateways)
	}
	if len(r.Classes) != 2 || says(r.Classes["baton"].Conditions, "Accepted") != "True Accepted" || says(r.Classes["odd"].Conditions, "Accepted") != "False InvalidParameters" {
		t.Errorf("classes are %v", r.Classes)
	}
}
