// Package series has the metrics of all parts, of a status in which everything has a value: what they are called, without a part that runs.
package series

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"time"

	anycast "baton/anycast/metrics"
	"baton/api"
	balance "baton/balance/metrics"
	controller "baton/controller/metrics"
	"baton/controller/northbound"
	"baton/forwarder"
	"baton/forwarder/config"
	nameserver "baton/nameserver/metrics"
	purge "baton/purge/metrics"
	relay "baton/relay/metrics"
	"baton/router/fallback"
	"baton/router/health"
	router "baton/router/metrics"
	"baton/router/outcome"
	"baton/router/passthrough"
)

// Exporters are the metrics of each part, of a status in which everything has a value: there is a series of each name.
func Exporters() map[string]http.Handler {
	return map[string]http.Handler{
		"router": routerHandler(), "relay": relay.Handler("v1", filled[api.RelayStatus]), "anycast": anycast.Handler("v1", filled[api.AnycastStatus]),
		"balance": balance.Handler("v1", filled[api.BalanceStatus]), "purge": purge.Handler("v1", filled[api.PurgeStatus]),
		"forwarder": forwarder.New(forwarder.Options{Config: &config.Config{}, Version: "v1"}).
			Metrics(filled[api.ForwarderStatus]),
		"nameserver": nameserver.Handler("v1", filled[api.NameserverStatus]),
		"controller": controllerHandler(),
	}
}

// routerHandler has the router's events too, which are not in its status.
func routerHandler() http.Handler {
	m, vip := router.New(), netip.MustParseAddrPort("10.9.9.9:80")
	m.Decided(vip, outcome.Spliced, time.Millisecond)
	m.HandedOff(vip, "text")
	m.LegEvent("text", "opened")
	m.SurrogateChanged(health.Transition{Surrogate: "text", From: health.State{Phase: health.Checking}, To: health.State{Phase: health.Up}})
	m.Checked("text", time.Millisecond, errors.New("refused"))
	hooks := m.Fallback(vip)
	hooks.Connection(1)
	hooks.Request(fallback.Exchange{Status: 200, Duration: time.Millisecond})
	hooks.Failure("text", fallback.FailureRefused)
	hooks.Refused(400, "")
	hooks.Handshake("no-name")
	m.Passthrough(vip).Session(passthrough.Session{})
	return m.Handler("v1", filled[api.RouterStatus])
}

// controllerHandler has calls of the northbound too.
func controllerHandler() http.Handler {
	north := northbound.New(northbound.Config{Access: northbound.Access{Tokens: []northbound.Token{northbound.NewToken(northbound.Viewer, "secret", "anna")}}})
	for _, host := range []string{"127.0.0.1", "elsewhere.example.net"} { // a call above the caller's role, and one by a name that is not the server's
		r := httptest.NewRequest("PATCH", "/v1/surrogates/se1", strings.NewReader("{}"))
		r.Host = host
		r.Header.Set("Authorization", "Bearer secret")
		north.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	return controller.Metrics{Status: filled[api.ControllerStatus], Northbound: north}.Handler("v1")
}

// filled returns a status in which each value is set.
func filled[Status any]() (s Status, err error) {
	fill(reflect.ValueOf(&s).Elem(), 0)
	return s, nil
}

// fill sets a value and all below it: lists and maps get one entry.
func fill(v reflect.Value, depth int) {
	switch x := v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(x.AddDate(2020, 0, 0)))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.MustParseAddrPort("192.0.2.7:80")))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("192.0.2.7")))
		return
	}
	if depth > 8 { // a type that contains itself
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		}
	}
}
