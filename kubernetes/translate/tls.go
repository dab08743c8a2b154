package translate

import (
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"baton/router/config"
)

func (t *translation) tlsRoute(o *gateway.TLSRoute) {
	r := &route{meta: &o.ObjectMeta, kind: "TLSRoute", hostnames: o.Spec.Hostnames, parents: o.Spec.ParentRefs}
	if !t.isOurs(r) {
		return
	}
	for i := range o.Spec.Rules {
		pool := t.pool(r, i, config.TLS, o.Spec.Rules[i].BackendRefs)
		r.entries = append(r.entries, entry{pool: pool, age: r.meta, order: [3]int{i}})
	}
	t.result.TLSRoutes[name(&o.ObjectMeta)] = t.attach(r)
}
