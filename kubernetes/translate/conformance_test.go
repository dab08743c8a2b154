package translate

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
)

const infra = "gateway-conformance-infra"

// conformant are the base manifests of the conformance suite and those of some tests, with an endpoint for each Service. Each Gateway has an
// address of its own, as the suite expects of a controller.
func conformant(t *testing.T, tests ...string) (*Objects, Host) {
	t.Helper()
	dir := conformance(t)
	o := objects(t, "{kind: GatewayClass, metadata: {name: baton}, spec: {controllerName: baton.example/gateway}}")
	for _, file := range append([]string{"base/manifests.yaml"}, tests...) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		o.read(t, strings.ReplaceAll(string(text), "{GATEWAY_CLASS_NAME}", "baton"))
	}
	h := host
	ip, kind := netip.MustParseAddr("198.51.100.100"), gateway.IPAddressType
	for i := range o.Gateways {
		ip = ip.Next()
		h.Local = append(h.Local, ip)
		o.Gateways[i].Spec.Addresses = []gateway.GatewaySpecAddress{{Type: &kind, Value: ip.String()}}
	}
	pod := netip.MustParseAddr("10.2.0.1")
	for _, s := range o.Services {
		slice := discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{pod.String()}}},
		}
		for _, p := range s.Spec.Ports {
			target := p.TargetPort.IntVal
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &target, Protocol: &p.Protocol})
		}
		o.Slices, pod = append(o.Slices, slice), pod.Next()
	}
	return o, h
}

// TestConformanceData: what the suite's tests expect in statuses, of their own manifests.
func TestConformanceData(t *testing.T) {
	type want struct{ kind, object, condition, says string } // of a Gateway's listener: object is "gateway/listener"
	tests := []struct {
		file string
		want []want
	}{
		{"httproute-simple-same-namespace", []want{{"HTTPRoute", "gateway-conformance-infra-test", "Accepted", "True Accepted"}, {"HTTPRoute", "gateway-conformance-infra-test", "ResolvedRefs", "True ResolvedRefs"}}},
		{"httproute-matching", []want{{"HTTPRoute", "matching", "Accepted", "True Accepted"}}},
		{"httproute-exact-path-matching", []want{{"HTTPRoute", "exact-matching", "Accepted", "True Accepted"}}},
		{"httproute-path-match-order", []want{{"HTTPRoute", "path-matching-order", "Accepted", "True Accepted"}}},
		{"httproute-weight", []want{{"HTTPRoute", "weighted-backends", "Accepted", "True Accepted"}}},
		{"httproute-invalid-nonexistent-backendref", []want{{"HTTPRoute", "invalid-nonexistent-backend-ref", "ResolvedRefs", "False BackendNotFound"}}},
		{"httproute-invalid-backendref-unknown-kind", []want{{"HTTPRoute", "invalid-backend-ref-unknown-kind", "ResolvedRefs", "False InvalidKind"}}},
		{"httproute-invalid-cross-namespace-backend-ref", []want{{"HTTPRoute", "invalid-cross-namespace-backend-ref", "ResolvedRefs", "False RefNotPermitted"}}},
		{"httproute-invalid-parentref-not-matching-section-name", []want{{"HTTPRoute", "httproute-listener-not-matching-section-name", "Accepted", "False NoMatchingParent"}}},
		{"httproute-query-param-matching", []want{{"HTTPRoute", "query-param-matching", "Accepted", "False UnsupportedValue"}}},
		{"httproute-rewrite-host", []want{{"HTTPRoute", "rewrite-host", "Accepted", "False UnsupportedValue"}}},
		{"httproute-request-mirror", []want{{"HTTPRoute", "request-mirror", "Accepted", "False UnsupportedValue"}}},
		{"gateway-invalid-route-kind", []want{
			{"Listener", "gateway-only-invalid-route-kind/http", "ResolvedRefs", "False InvalidRouteKinds"},
			{"Listener", "gateway-supported-and-invalid-route-kind/http", "ResolvedRefs", "False InvalidRouteKinds"},
		}},
		{"gateway-invalid-listeners-unsupported-protocol", []want{
			{"Gateway", "gateway-only-unsupported-protocols", "Accepted", "False ListenersNotValid"},
			{"Listener", "gateway-only-unsupported-protocols/invalid", "Accepted", "False UnsupportedProtocol"},
			{"Gateway", "gateway-supported-and-unsupported-protocols", "Accepted", "True ListenersNotValid"},
			{"Listener", "gateway-supported-and-unsupported-protocols/http", "Accepted", "True Accepted"},
		}},
		{"tlsroute-listener-terminate-not-supported", []want{{"Listener", "gateway-tlsroute-terminate-unsupported/tls-terminate", "Accepted", "False UnsupportedValue"}}},
		{"tlsroute-simple-same-namespace", []want{{"TLSRoute", "gateway-conformance-infra-test", "Accepted", "True Accepted"}, {"TLSRoute", "gateway-conformance-infra-test", "ResolvedRefs", "True ResolvedRefs"}}},
		{"tlsroute-invalid-no-matching-listener", []want{
			{"TLSRoute", "tlsroute-not-allowed-protocol-http", "Accepted", "False NotAllowedByListeners"},
			{"TLSRoute", "tlsroute-not-allowed-protocol-https", "Accepted", "False NotAllowedByListeners"},
			{"TLSRoute", "tlsroute-no-matching-section-name", "Accepted", "False NoMatchingParent"},
		}},
		{"gateway-with-attached-routes", []want{{"HTTPRoute", "http-route-not-accepted", "Accepted", "False NoMatchingListenerHostname"}}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			o, h := conformant(t, "tests/"+tt.file+".yaml")
			r := Translate(o, h)
			asText(t, r)
			for _, w := range tt.want {
				if got := r.status(w.kind, w.object, w.condition); got != w.says {
					t.Errorf("%s of %s %s is %s, want %s", w.condition, w.kind, w.object, got, w.says)
				}
			}
		})
	}
}

func (r *Result) status(kind, object, condition string) string {
	object, section, _ := strings.Cut(object, "/")
	key := types.NamespacedName{Namespace: infra, Name: object}
	parents := r.HTTPRoutes[key]
	switch kind {
	case "Gateway":
		return says(r.Gateways[key].Conditions, condition)
	case "Listener":
		for _, l := range r.Gateways[key].Listeners {
			if string(l.Name) == section {
				return says(l.Conditions, condition)
			}
		}
		return "no such listener"
	case "TLSRoute":
		parents = r.TLSRoutes[key]
	}
	if len(parents) == 0 {
		return "no parent"
	}
	return says(parents[0].Conditions, condition)
}

// TestAllConformanceData: whatever the suite's manifests have, the router takes what is made of them.
func TestAllConformanceData(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(conformance(t), "tests", "*.yaml"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	accepted := 0
	for _, f := range files {
		o, h := conformant(t, "tests/"+filepath.Base(f))
		r := Translate(o, h)
		asText(t, r)
		for _, parents := range r.HTTPRoutes {
			for _, p := range parents {
				if says(p.Conditions, "Accepted") == "True Accepted" {
					accepted++
				}
			}
		}
	}
	if accepted < 30 {
		t.Errorf("only %d routes are accepted", accepted)
	}
}

// TestConformanceBase: without addresses of their own, Gateways share the nodes', and one has the port.
func TestConformanceBase(t *testing.T) {
	o, h := conformant(t)
	for i := range o.Gateways {
		o.Gateways[i].Spec.Addresses = nil
	}
	r := Translate(o, h)
	for object, want := range map[string]string{
		"same-namespace/http": "False NoConflicts", "all-namespaces/http": "True HostnameConflict", "backend-namespaces/http": "True HostnameConflict",
	} {
		if got := r.status("Listener", object, "Conflicted"); got != want {
			t.Errorf("Conflicted of %s is %s, want %s", object, got, want)
		}
	}
	if got := r.Gateways[types.NamespacedName{Namespace: infra, Name: "same-namespace"}].Addresses; len(got) != 2 || got[1].Value != "192.0.2.2" {
		t.Errorf("addresses are %v, want those of both nodes", got)
	}
}
