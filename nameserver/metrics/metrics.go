// Package metrics exports a name server's status to Prometheus.
package metrics

import (
	"net/http"
	"strconv"

	"baton/api"
	"baton/exporter"
)

// Handler serves the metrics and the health of a name server.
func Handler(version string, status func() (api.NameserverStatus, error)) http.Handler {
	return exporter.Process[api.NameserverStatus]{
		Namespace: "baton_nameserver", Version: version, Status: status, Series: Series, Unready: Unready,
	}.Handler()
}

// Unready says why a name server is not as it should be.
func Unready(s *api.NameserverStatus) (reasons []string) {
	for _, z := range s.Zones {
		if z.Error != "" {
			reasons = append(reasons, "zone "+z.Name+" is not as its file is: "+z.Error)
		}
	}
	return reasons
}

// Series are the numbers of a status.
func Series(s *api.NameserverStatus) []exporter.Number {
	var n exporter.Numbers
	n.Counter("queries_total", "Queries.", s.Queries)
	for kind, count := range s.Answers {
		n.Counter("answers_total", "Answers, by their kind.", count, "kind", kind)
	}
	for code, count := range s.Refused {
		n.Counter("refused_total", "Queries that were answered by a code alone.", count, "code", code)
	}
	n.Counter("ignored_total", "Messages that are no queries.", s.Ignored)
	n.Counter("truncated_total", "Answers that did not fit: the client comes again by TCP.", s.Truncated)
	n.Counter("limited_total", "Answers above the limits.", s.Omitted, "outcome", "omitted")
	n.Counter("limited_total", "Answers above the limits.", s.Slipped, "outcome", "slipped")
	n.Counter("unsent_total", "Answers that the kernel did not take.", s.Unsent)
	n.Counter("subnet_queries_total", "Queries with a client's subnet that was heeded.", s.Subnets)
	n.Counter("cookie_queries_total", "Queries with a valid cookie.", s.Cookies)
	n.Counter("dnssec_queries_total", "Queries for signatures.", s.DNSSEC)
	n.Counter("transfers_total", "Transfers of zones.", s.Transfers)
	n.GaugeInt("tcp_connections", "Connections.", s.Connections.Used)
	n.GaugeInt("tcp_connections_limit", "Connections that there may be.", s.Connections.Limit)
	n.Counter("tcp_connections_refused_total", "Connections above the limits.", s.ConnectionsRefused)
	for _, z := range s.Zones {
		n.Gauge("zone_serial", "Serial of the zone that is served.", float64(z.Serial), "zone", z.Name)
		n.GaugeInt("zone_records", "Records of the zone.", z.Records, "zone", z.Name)
		n.Gauge("zone_loaded_timestamp_seconds", "When the zone was read.", float64(z.Loaded.Unix()), "zone", z.Name)
		for _, k := range z.Keys {
			tag := strconv.Itoa(int(k.Tag))
			n.Yes("zone_key_signs", "Whether the key signs.", k.Signs, "zone", z.Name, "key", tag, "role", k.Role)
			if k.At != nil {
				n.Gauge("zone_key_next_timestamp_seconds", "When the key's next planned change is.", float64(k.At.Unix()), "zone", z.Name, "key", tag, "role", k.Role)
			}
		}
		n.Yes("zone_stale", "Whether the file has mistakes, and older content is served.", z.Error != "", "zone", z.Name)
	}
	for _, v := range s.Services {
		n.Counter("decisions_total", "Choices of surrogates.", v.Decisions, "service", v.Name)
		n.Counter("fallbacks_total", "Choices without a usable surrogate.", v.Fallbacks, "service", v.Name)
	}
	for _, u := range s.Surrogates {
		n.Yes("surrogate_up", "Whether the surrogate's checks pass.", u.Up, "surrogate", u.Name)
		n.Yes("surrogate_in_service", "Whether it is not in maintenance.", u.State == api.InService, "surrogate", u.Name)
		n.GaugeInt("surrogate_weight", "Weight.", u.Weight, "surrogate", u.Name)
		n.GaugeInt("surrogate_sessions", "Sessions, as the controller counts them.", u.Sessions, "surrogate", u.Name)
		n.Counter("surrogate_chosen_total", "Answers with its addresses.", u.Chosen, "surrogate", u.Name)
	}
	for _, site := range s.Sites {
		n.GaugeInt("site_sessions", "Sessions of a site, as the controller counts them.", site.Sessions, "site", site.Name)
		n.Yes("site_full", "Whether the site takes no clients, as it has reached its capacity.", site.Full, "site", site.Name)
	}
	if c := s.Controller; c != nil {
		controller(&n, c)
	}
	n.Counter("config_reloads_total", "Reloads of the configuration.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration was read.", float64(s.Loaded.Unix()))
	return n
}

// sources of the surrogates' state.
var sources = []string{"controller", "kept", "checks"}

func controller(n *exporter.Numbers, c *api.NameserverController) {
	n.Yes("controller_connected", "Whether the controller is connected.", c.Connected)
	for _, source := range sources {
		n.Yes("state_source", "Which source of the surrogates' state is in force.", c.Source == source, "source", source)
	}
	if c.Heard != nil {
		n.Gauge("controller_heard_timestamp_seconds", "When the controller was connected last.", float64(c.Heard.Unix()))
	}
	n.Counter("controller_connections_total", "Connections to controllers.", c.Connections)
	n.Counter("controller_malformed_total", "Messages of the controller that could not be read.", c.Malformed)
	n.GaugeInt("controller_surrogates", "Surrogates that the controller has.", c.Surrogates)
	n.GaugeInt("controller_zones", "Zones with distances that the controller has.", c.Zones)
}
