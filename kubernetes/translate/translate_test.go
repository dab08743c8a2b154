package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"baton/router/config"
)

// asText are the VIPs as the router's file has them, one route a line.
func asText(t *testing.T, r *Result) string {
	t.Helper()
	f := File{VIPs: r.VIPs, Pools: r.Pools}
	f.Complete()
	text, err := f.Text()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("router.yaml", text); err != nil {
		t.Fatalf("the router refuses what was made for it: %v\n%s", err, text)
	}
	var b strings.Builder
	for _, v := range r.VIPs {
		fmt.Fprintf(&b, "%s %s\n", v.Address, v.Protocol)
		for _, route := range v.Routes {
			var parts []string
			for _, part := range []any{route.Match, route.Rewrite} {
				text, err := yaml.Marshal(part)
				if err != nil {
					t.Fatal(err)
				}
				if s := strings.TrimSpace(string(text)); s != "null" {
					parts = append(parts, strings.Join(strings.Fields(s), " "))
				}
			}
			fmt.Fprintf(&b, "  %s -> %s\n", strings.Join(parts, " => "), route.Pool)
		}
	}
	return b.String()
}

func httpRoute(name, spec string) string {
	return fmt.Sprintf("{kind: HTTPRoute, metadata: {name: %s, namespace: web}, spec: {parentRefs: [{name: front}], %s}}", name, spec)
}

const toBlue = "backendRefs: [{name: blue, port: 80}]"

func TestRoutes(t *testing.T) {
	tests := []struct{ name, objects, want string }{
		{"no route", "{}", "192.0.2.1:80 \n  host: nowhere.invalid -> nowhere.invalid\n"},
		{"everything", httpRoute("r", "rules: [{"+toBlue+"}]"), "192.0.2.1:80 \n   -> web/blue:80\n"},
		{"hosts before paths", httpRoute("r", `hostnames: ["*.example.net", www.example.net, "*.shop.example.net"], rules: [{`+toBlue+`}]`), `192.0.2.1:80 
  host: www.example.net -> web/blue:80
  host: '*.shop.example.net' -> web/blue:80
  host: '*.example.net' -> web/blue:80
`},
		{"a prefix is of whole elements", httpRoute("r", "rules: [{matches: [{path: {type: PathPrefix, value: /a/}}], "+toBlue+"}]"), `192.0.2.1:80 
  path_prefix: /a/ -> web/blue:80
  path_regex: ^(?:/a)$ -> web/blue:80
`},
		{"exact, then expressions, then the longest prefix", httpRoute("r", `rules: [{matches: [{path: {type: PathPrefix, value: /a}}, {path: {type: PathPrefix, value: /a/long}}, {path: {type: RegularExpression, value: "/[0-9]+"}},
 {path: {type: Exact, value: /a.b}}], `+toBlue+"}]"), `192.0.2.1:80 
  path_regex: ^(?:/a\.b)$ -> web/blue:80
  path_regex: ^(?:/[0-9]+)$ -> web/blue:80
  path_prefix: /a/long/ -> web/blue:80
  path_regex: ^(?:/a/long)$ -> web/blue:80
  path_prefix: /a/ -> web/blue:80
  path_regex: ^(?:/a)$ -> web/blue:80
`},
		{"methods, then headers", httpRoute("r", `rules: [{matches: [{headers: [{name: x-a, value: "1"}]}, {headers: [{name: x-a, value: "1"}, {name: x-b, type: RegularExpression, value: a+}]}, {method: POST}], `+toBlue+"}]"), `192.0.2.1:80 
  methods: - POST -> web/blue:80
  headers: - name: x-a value: "1" - name: x-b regex: ^(?:a+)$ -> web/blue:80
  headers: - name: x-a value: "1" -> web/blue:80
`},
		{"of two routes for the same, the older", httpRoute("z", "rules: [{"+toBlue+"}]") + "\n---\n" + httpRoute("a", "rules: [{backendRefs: [{name: green, port: 80}]}]"), "192.0.2.1:80 \n   -> web/blue:80\n"},
		{"a host and a prefix rewritten", httpRoute("r", `rules: [{matches: [{path: {value: /a}}], filters: [{type: URLRewrite, urlRewrite: {hostname: in.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}], `+toBlue+"}]"), `192.0.2.1:80 
  path_prefix: /a/ => host: in.example path_prefix: /b/ -> web/blue:80
  path_prefix: /a path_regex: ^(?:/a)$ => host: in.example path_prefix: /b -> web/blue:80
`},
		{"a prefix before all paths", httpRoute("r", `rules: [{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b/}}}], `+toBlue+"}]"), `192.0.2.1:80 
  path_prefix: /b -> web/blue:80
`},
		{"several backends", httpRoute("r", "rules: [{backendRefs: [{name: blue, port: 80, weight: 9}, {name: green, port: 80}]}]"), "192.0.2.1:80 \n   -> web/r/rule-0\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Translate(objects(t, base, oneGateway, tt.objects), host)
			if diff := cmp.Diff(tt.want, asText(t, r)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			for of, s := range r.HTTPRoutes {
				if got := says(s[0].Conditions, "Accepted"); got != "True Accepted" {
					t.Errorf("route %s is %s: %s", of, got, s[0].Conditions[0].Message)
				}
			}
		})
	}
}

// TestRefused: what the router cannot do is refused with a condition, and is in no route.
func TestRefused(t *testing.T) {
	const (
		unsupported = "False UnsupportedValue"
		resolved    = "True ResolvedRefs"
	)
	rule := func(r string) string { return httpRoute("r", "rules: [{"+r+"}]") }
	tests := []struct{ name, object, accepted, resolved, says string }{
		{"filter", rule("filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [x]}}], " + toBlue), unsupported, resolved, "rules[0].filters[0]: filter RequestHeaderModifier is not supported"},
		{"redirect", rule("filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]"), unsupported, resolved, "RequestRedirect"},
		{"full path", rule("filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /x}}}], " + toBlue), unsupported, resolved, "ReplaceFullPath"},
		{"prefix away", rule("matches: [{path: {value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], " + toBlue), unsupported, resolved, "replacePrefixMatch"},
		{"filter of a backend", rule("backendRefs: [{name: blue, port: 80, filters: [{type: URLRewrite, urlRewrite: {hostname: x}}]}]"), unsupported, resolved, "backendRefs[0].filters"},
		{"query", rule("matches: [{}, {queryParams: [{name: a, value: b}]}], " + toBlue), unsupported, resolved, "rules[0].matches[1].queryParams"},
		{"timeouts", rule("timeouts: {request: 1s}, " + toBlue), unsupported, resolved, "timeouts"},
		{"retry", rule("retry: {attempts: 1}, " + toBlue), unsupported, resolved, "retry"},
		{"persistence", rule("sessionPersistence: {sessionName: a}, " + toBlue), unsupported, resolved, "sessionPersistence"},
		{"what the router refuses: a header", rule("matches: [{headers: [{name: Host, value: a}]}], " + toBlue), unsupported, resolved, "Host is matched by its own key"},
		{"what the router refuses: an expression", rule("matches: [{path: {type: RegularExpression, value: /(a}}], " + toBlue), unsupported, resolved, "the router refuses it"},
		{"what the router refuses: a method", rule("matches: [{method: CONNECT}], " + toBlue), unsupported, resolved, "CONNECT"},
		{"no such Service", rule("backendRefs: [{name: red, port: 80}]"), "True Accepted", "False BackendNotFound", "there is no Service web/red"},
		{"no such port", rule("backendRefs: [{name: blue, port: 81}]"), "True Accepted", "False BackendNotFound", "no port 81"},
		{"no Service", rule("backendRefs: [{group: example.net, kind: Bucket, name: blue}]"), "True Accepted", "False InvalidKind", "kind Bucket"},
		{"another namespace", rule("backendRefs: [{name: far, namespace: other, port: 80}]"), "True Accepted", "False RefNotPermitted", "ReferenceGrant of namespace other"},
		{"no such listener", strings.Replace(rule(toBlue), "{name: front}", "{name: front, sectionName: https}", 1), "False NoMatchingParent", resolved, "no listener"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Translate(objects(t, base, oneGateway, tt.object), host)
			asText(t, r)
			s := r.HTTPRoutes[types.NamespacedName{Namespace: "web", Name: "r"}]
			if len(s) != 1 {
				t.Fatalf("%d parents in the status", len(s))
			}
			if got := says(s[0].Conditions, "Accepted"); got != tt.accepted {
				t.Errorf("Accepted is %s, want %s", got, tt.accepted)
			}
			if got := says(s[0].Conditions, "ResolvedRefs"); got != tt.resolved {
				t.Errorf("ResolvedRefs is %s, want %s", got, tt.resolved)
			}
			if !strings.Contains(s[0].Conditions[0].Message+s[0].Conditions[1].Message, tt.says) {
				t.Errorf("messages %q and %q do not say %q", s[0].Conditions[0].Message, s[0].Conditions[1].Message, tt.says)
			}
			attached := r.Gateways[types.NamespacedName{Namespace: "web", Name: "front"}].Listeners[0].AttachedRoutes
			if want := map[bool]int32{true: 1}[strings.HasPrefix(tt.accepted, "True")]; attached != want {
				t.Errorf("%d routes are attached, want %d", attached, want)
			}
		})
	}
}

// TestNoPort: an EndpointSlice whose port is none has no endpoints, and not those of the port that the lower 16 bits are.
func TestNoPort(t *testing.T) {
	for n, want := range map[int32]uint16{-1: 0, 0: 0, 1: 1, 8080: 8080, 65535: 65535, 65536: 0, 65536 + 8080: 0, -65536 + 8080: 0} {
		text := strings.ReplaceAll(base, "{name: http, port: 8080}", fmt.Sprintf("{name: http, port: %d}", n))
		r := Translate(objects(t, text, oneGateway, httpRoute("r", "rules: [{backendRefs: [{name: blue, port: 80}]}]")), host)
		found := 0
		for _, all := range r.Surrogates {
			for _, s := range all {
				if found++; !strings.HasSuffix(s.Address, fmt.Sprintf(":%d", want)) {
					t.Errorf("port %d is taken for %v", n, s.Address)
				}
			}
		}
		if (found > 0) != (want > 0) {
			t.Errorf("port %d: %d surrogates", n, found)
		}
	}
}

// TestSurrogates: ready endpoints, and shares of backends that do not depend on how many endpoints those have.
func TestSurrogates(t *testing.T) {
	surrogates := func(spec string) string {
		r := Translate(objects(t, base, oneGateway, httpRoute("r", "rules: [{backendRefs: ["+spec+"]}]")), host)
		asText(t, r)
		var out []string
		for _, pool := range slices.Sorted(maps.Keys(r.Surrogates)) {
			for _, s := range r.Surrogates[pool] {
				out = append(out, fmt.Sprintf("%s %s*%d", s.Name, s.Address, s.Weight))
			}
		}
		return strings.Join(out, ", ")
	}
	tests := []struct{ name, refs, want string }{
		{"one", "{name: blue, port: 80}", "web/blue:80/10.2.0.1:8080 10.2.0.1:8080*1, web/blue:80/10.2.0.2:8080 10.2.0.2:8080*1"},
		{"even", "{name: blue, port: 80, weight: 2}, {name: green, port: 80}", "web/r/rule-0/10.2.0.1:8080 10.2.0.1:8080*1, web/r/rule-0/10.2.0.2:8080 10.2.0.2:8080*1, web/r/rule-0/10.2.1.1:80 10.2.1.1:80*1"},
		{"half each", "{name: blue, port: 80}, {name: green, port: 80}", "web/r/rule-0/10.2.0.1:8080 10.2.0.1:8080*128, web/r/rule-0/10.2.0.2:8080 10.2.0.2:8080*128, web/r/rule-0/10.2.1.1:80 10.2.1.1:80*256"},
		{"none for one", "{name: blue, port: 80, weight: 0}, {name: green, port: 80}", "web/r/rule-0/10.2.0.1:8080 10.2.0.1:8080*0, web/r/rule-0/10.2.0.2:8080 10.2.0.2:8080*0, web/r/rule-0/10.2.1.1:80 10.2.1.1:80*1"},
		{"one is missing", "{name: red, port: 80}, {name: green, port: 80}", "web/r/rule-0/10.2.1.1:80 10.2.1.1:80*1"},
		{"all are missing", "{name: red, port: 80}", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := surrogates(tt.refs); got != tt.want {
				t.Errorf("surrogates are\n%s, want\n%s", got, tt.want)
			}
		})
	}
}
