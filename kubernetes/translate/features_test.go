package translate

import (
	"fmt"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// examples are of each feature. {class}, {gateway}, {listener} and {rule} stand for what is around them.
var examples = map[string]string{
	"GatewayClass/controllerName": class("x: y"), "GatewayClass/parametersRef": class("parametersRef: {group: a, kind: B, name: c}"),
	"Gateway/no addresses": front(""), "Gateway/addresses of type IPAddress": front("addresses: [{value: 198.51.100.9}],"),
	"Gateway/addresses of other types":                       front("addresses: [{type: NamedAddress, value: x}],"),
	"Gateway/tls":                                            front("tls: {backend: {}},"),
	"Listener/protocol HTTP":                                 listens("protocol: HTTP, hostname: a.net"),
	"Listener/protocol TLS, mode Passthrough":                listens("protocol: TLS, tls: {mode: Passthrough}"),
	"Listener/protocol TLS, mode Terminate":                  listens("protocol: TLS, tls: {mode: Terminate}"),
	"Listener/protocol HTTPS, TCP, UDP":                      listens("protocol: HTTPS"),
	"Listener/allowedRoutes.namespaces: Same, All, Selector": listens("protocol: HTTP, allowedRoutes: {namespaces: {from: All}}"),
	"Listener/allowedRoutes.kinds":                           listens("protocol: HTTP, allowedRoutes: {kinds: [{kind: HTTPRoute}]}"),
	"HTTPRoute/parentRefs with sectionName and port": front("") + "\n---\n" +
		strings.Replace(httpRoute("r", "rules: [{"+toBlue+"}]"), "{name: front}", "{name: front, sectionName: a, port: 80}", 1),
	"HTTPRoute/hostnames, also with *.":                   front("") + "\n---\n" + httpRoute("r", `hostnames: ["*.a.net"], rules: [{`+toBlue+"}]"),
	"HTTPRoute/matches.path: PathPrefix":                  ruled("matches: [{path: {type: PathPrefix, value: /a}}], " + toBlue),
	"HTTPRoute/matches.path: Exact":                       ruled("matches: [{path: {type: Exact, value: /a}}], " + toBlue),
	"HTTPRoute/matches.path: RegularExpression":           ruled("matches: [{path: {type: RegularExpression, value: /a+}}], " + toBlue),
	"HTTPRoute/matches.headers: Exact, RegularExpression": ruled("matches: [{headers: [{name: a, value: b}, {name: c, type: RegularExpression, value: d}]}], " + toBlue),
	"HTTPRoute/matches.method":                            ruled("matches: [{method: GET}], " + toBlue),
	"HTTPRoute/matches.queryParams":                       ruled("matches: [{queryParams: [{name: a, value: b}]}], " + toBlue),
	"HTTPRoute/filters: URLRewrite hostname":              ruled("filters: [{type: URLRewrite, urlRewrite: {hostname: a.net}}], " + toBlue),
	"HTTPRoute/filters: URLRewrite ReplacePrefixMatch":    ruled("matches: [{path: {value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}], " + toBlue),
	"HTTPRoute/filters: URLRewrite ReplaceFullPath":       ruled("filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /b}}}], " + toBlue),
	"HTTPRoute/other filters":                             ruled("filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}], " + toBlue),
	"HTTPRoute/filters of a backendRef":                   ruled("backendRefs: [{name: blue, port: 80, filters: [{type: URLRewrite, urlRewrite: {hostname: x}}]}]"),
	"HTTPRoute/timeouts":                                  ruled("timeouts: {request: 1s}, " + toBlue),
	"HTTPRoute/retry":                                     ruled("retry: {attempts: 1}, " + toBlue),
	"HTTPRoute/sessionPersistence":                        ruled("sessionPersistence: {sessionName: a}, " + toBlue),
	"HTTPRoute/backendRefs with weights":                  ruled("backendRefs: [{name: blue, port: 80, weight: 9}, {name: green, port: 80, weight: 1}]"),
	"HTTPRoute/backendRefs to other namespaces": ruled("backendRefs: [{name: far, namespace: other, port: 80}]") + `
---
{kind: ReferenceGrant, metadata: {name: g, namespace: other}, spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: web}], to: [{group: "", kind: Service, name: far}]}}`,
	"HTTPRoute/backendRefs to other kinds than Service": ruled("backendRefs: [{group: a, kind: B, name: c}]"),
	"HTTPRoute/appProtocol kubernetes.io/h2c of a Service": ruled("backendRefs: [{name: new, port: 80}]") + `
---
{kind: Service, metadata: {name: new, namespace: web}, spec: {ports: [{port: 80, appProtocol: kubernetes.io/h2c}]}}`,
	"TLSRoute/hostnames, also with *.":  tlsRuled("{name: blue, port: 443}"),
	"TLSRoute/backendRefs with weights": tlsRuled("{name: blue, port: 443, weight: 3}, {name: green, port: 80}"),
}

func class(spec string) string {
	return fmt.Sprintf("{kind: GatewayClass, metadata: {name: another}, spec: {controllerName: baton.example/gateway, %s}}", strings.Replace(spec, "x: y", "description: a", 1))
}

func front(spec string) string {
	return "{kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, " + spec + " listeners: [{name: a, port: 80, protocol: HTTP}]}}"
}

func listens(l string) string {
	return "{kind: Gateway, metadata: {name: front, namespace: web}, spec: {gatewayClassName: baton, listeners: [{name: a, port: 80, " + l + "}]}}"
}

func ruled(rule string) string {
	return front("") + "\n---\n" + httpRoute("r", "rules: [{"+rule+"}]")
}

func tlsRuled(refs string) string {
	return listens("protocol: TLS, tls: {mode: Passthrough}") + `
---
{kind: TLSRoute, metadata: {name: r, namespace: web}, spec: {parentRefs: [{name: front}], hostnames: ["*.a.net"], rules: [{backendRefs: [` + refs + `]}]}}`
}

// TestFeatures: each feature is supported, or refused by the condition that the table says.
func TestFeatures(t *testing.T) {
	for _, f := range Features {
		t.Run(f.Of+" "+f.Name, func(t *testing.T) {
			example, has := examples[f.Of+"/"+f.Name]
			if !has {
				t.Fatal("no example")
			}
			r := Translate(objects(t, base, example), host)
			asText(t, r)
			key := types.NamespacedName{Namespace: "web", Name: "front"}
			var conditions []metav1.Condition
			switch f.Of {
			case "GatewayClass":
				conditions = r.Classes["another"].Conditions
			case "Gateway":
				conditions = r.Gateways[key].Conditions
			case "Listener":
				conditions = r.Gateways[key].Listeners[0].Conditions
			default:
				key.Name = "r"
				for _, s := range append(r.HTTPRoutes[key], r.TLSRoutes[key]...) {
					conditions = s.Conditions
				}
			}
			if len(conditions) == 0 {
				t.Fatal("no conditions")
			}
			if kind, reason, refused := strings.Cut(f.Refused, ": "); refused {
				if got := says(conditions, kind); got != "False "+reason {
					t.Errorf("%s is %s, want False %s", kind, got, reason)
				}
				return
			}
			for _, kind := range []string{"Accepted", "ResolvedRefs", "Programmed"} {
				if got := says(conditions, kind); strings.HasPrefix(got, "False") {
					t.Errorf("%s is %s", kind, got)
				}
			}
		})
	}
	if len(examples) != len(Features) {
		t.Errorf("%d examples of %d features", len(examples), len(Features))
	}
}

func TestGuideHasTheTable(t *testing.T) {
	guide, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), FeatureTable()) {
		t.Errorf("docs/kubernetes.md lacks the table of features; put this in its place:\n%s", FeatureTable())
	}
}
