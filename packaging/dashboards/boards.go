package main

// chosen selects the instances that the user has chosen.
const chosen = `instance=~"$instance"`

// rate is the sum of a counter's rate by some labels.
func rate(metric, by string) string {
	return "sum by (" + by + ") (rate(" + metric + "{" + chosen + "}[$__rate_interval]))"
}

// of is the sum of a gauge by some labels.
func of(metric, by string) string { return "sum by (" + by + ") (" + metric + "{" + chosen + "})" }

// verdicts are the packets of a part by verdict: a few of the commonest would hide the drops, which are rare.
func verdicts(metric string) []panel {
	return []panel{
		graph("Packets by verdict", "pps", "sum by (verdict) (rate("+metric+"{"+chosen+`,verdict!~"drop_.+"}[$__rate_interval])) > 0`, "{{verdict}}"),
		graph("Dropped packets by verdict", "pps", "sum by (verdict) (rate("+metric+"{"+chosen+`,verdict=~"drop_.+"}[$__rate_interval]))`, "{{verdict}}"),
	}
}

// process is the row that all parts have.
func process(part string) row {
	up := chosen + `} and on (instance) baton_` + part + `_build_info{`
	return row{"Process", []panel{
		graph("Processor", "percentunit", "rate(process_cpu_seconds_total{"+chosen+"}[$__rate_interval]) and on (instance) baton_"+part+"_build_info", "{{instance}}"),
		graph("Memory", "bytes", "process_resident_memory_bytes{"+up+"}", "{{instance}}"),
		graph("Reloads", "short", "sum by (instance, result) (increase(baton_"+part+"_config_reloads_total{"+chosen+"}[$__rate_interval]))", "{{instance}} {{result}}"),
	}}
}

var boards = []board{all, router, relay, forwarder, balance, anycast, purge, nameserver, controller}

var all = board{"all", "Baton", []row{
	{"At a glance", []panel{
		number("Processes", "short", `count({__name__=~"baton_.+_build_info",instance=~"$instance"})`),
		number("Sessions of routers", "short", `sum(baton_router_legs{instance=~"$instance",state="spliced"})`),
		number("Surrogates down", "short", `count(baton_router_surrogate_up{instance=~"$instance"} == 0) or vector(0)`),
		number("Flows of relays", "short", `sum(baton_relay_flows{instance=~"$instance"})`),
		number("Links down", "short", `count(baton_balance_link_usable{instance=~"$instance"} == 0) or vector(0)`),
		number("Alerts", "short", `count(ALERTS{alertname=~"Baton.+",alertstate="firing"}) or vector(0)`),
	}},
	{"Traffic", []panel{
		graph("Handoffs", "reqps", rate("baton_router_kernel_handoffs_total", "instance"), "{{instance}}"),
		graph("Bytes from surrogates", "Bps", rate("baton_router_from_surrogate_bytes_total", "instance"), "{{instance}}"),
		graph("Flows started at relays", "reqps", rate("baton_relay_flows_total", "instance"), "{{instance}}"),
		graph("Packets through forwarders", "pps", rate("baton_forwarder_packets_total", "instance"), "{{instance}}"),
		graph("Bytes over links", "Bps", rate("baton_balance_link_bytes_total", "instance, link, direction"), "{{instance}} {{link}} {{direction}}"),
		graph("Queries of names", "reqps", rate("baton_nameserver_queries_total", "instance"), "{{instance}}"),
	}},
	{"Health", []panel{
		graph("Surrogates up", "percentunit", `avg by (instance, pool) (baton_router_surrogate_up{instance=~"$instance"})`, "{{instance}} {{pool}}"),
		graph("Sites", "short", `baton_anycast_level{instance=~"$instance"}`, "{{instance}}: level"),
		graph("Switches connected", "short", of("baton_controller_switch_up", "instance"), "{{instance}}"),
		graph("Dormant connections ended", "short", `sum by (instance) (rate(baton_purge_connections_total{instance=~"$instance",outcome="ended"}[$__rate_interval]))`, "{{instance}}"),
		graph("Versions", "short", `count by (version) ({__name__=~"baton_.+_build_info",instance=~"$instance"})`, "{{version}}"),
	}},
}}

var router = board{"router", "Baton / Router", []row{
	{"At a glance", []panel{
		number("Sessions", "short", `sum(baton_router_sessions{instance=~"$instance"})`),
		number("Handoffs", "reqps", `sum(rate(baton_router_kernel_handoffs_total{instance=~"$instance"}[$__rate_interval]))`),
		number("Surrogates up", "percentunit", `avg(baton_router_surrogate_up{instance=~"$instance"})`),
		number("Failed handoffs", "percentunit", `sum(rate(baton_router_handoffs_failed_total{instance=~"$instance"}[$__rate_interval])) / sum(rate(baton_router_kernel_handoffs_total{instance=~"$instance"}[$__rate_interval]))`),
		number("Decision in user space, 99th percentile", "s", `histogram_quantile(0.99, sum by (le) (rate(baton_router_decision_duration_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`),
		number("QUIC sessions", "short", `sum(baton_router_quic_sessions{instance=~"$instance"})`),
	}},
	{"Surrogates", []panel{
		graph("Handoffs", "reqps", rate("baton_router_kernel_handoffs_total", "surrogate"), "{{surrogate}}"),
		graph("Sessions", "short", `sum by (pool, surrogate) (baton_router_legs{instance=~"$instance",state="spliced"})`, "{{pool}} {{surrogate}}"),
		graph("Bytes from surrogates (of ended sessions)", "Bps", rate("baton_router_from_surrogate_bytes_total", "surrogate"), "{{surrogate}}"),
		graph("Up", "short", `min by (pool, surrogate) (baton_router_surrogate_up{instance=~"$instance"})`, "{{pool}} {{surrogate}}"),
		graph("Failed handoffs", "reqps", rate("baton_router_handoffs_failed_total", "surrogate"), "{{surrogate}}"),
		graph("Events of server legs", "reqps", rate("baton_router_leg_events_total", "event"), "{{event}}"),
		graph("Server legs", "short", of("baton_router_legs", "state"), "{{state}}"),
		{title: "Table of sessions", unit: "short", queries: []query{
			{of("baton_router_session_places", "instance"), "{{instance}} in use"},
			{of("baton_router_sessions_limit", "instance"), "{{instance}} limit"},
		}},
		graph("Time of health checks, 95th percentile", "s", `histogram_quantile(0.95, sum by (surrogate, le) (rate(baton_router_health_check_duration_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "{{surrogate}}"),
		graph("Certificates expire in", "s", `min by (surrogate, server) (baton_router_certificate_expires_timestamp_seconds{instance=~"$instance"}) - time()`, "{{surrogate}} {{server}}"),
	}},
	{"Packets", verdicts("baton_router_packets_total")},
	{"User space", []panel{
		{title: "Time of decisions", unit: "s", queries: []query{
			{`histogram_quantile(0.5, sum by (le) (rate(baton_router_decision_duration_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "half"},
			{`histogram_quantile(0.99, sum by (le) (rate(baton_router_decision_duration_seconds_bucket{instance=~"$instance"}[$__rate_interval])))`, "99 %"},
		}},
		graph("Decisions by outcome", "reqps", rate("baton_router_decision_duration_seconds_count", "outcome"), "{{outcome}}"),
		graph("Connections proxied, not spliced, by reason", "reqps",
			rate("baton_router_proxied_connections_total", "vip, reason"), "{{vip}} {{reason}}"),
		graph("Requests answered or proxied", "reqps", rate("baton_router_fallback_requests_total", "vip, code"), "{{vip}} {{code}}"),
		graph("Refused hellos", "reqps", rate("baton_router_hellos_refused_total", "vip, reason"), "{{vip}} {{reason}}"),
		graph("Records of the access log", "short", rate("baton_router_access_log_records_total", "output, result"), "{{output}} {{result}}"),
		graph("Sources of surrogates that fail", "short", `baton_router_discovery_up{instance=~"$instance"} == 0`, "{{pool}} {{source}}"),
	}},
	{"QUIC", []panel{
		graph("Sessions made", "reqps", rate("baton_router_quic_sessions_total", "by"), "{{by}}"),
		graph("Datagrams by verdict", "pps", rate("baton_router_quic_packets_total", "verdict"), "{{verdict}}"),
		graph("Refused", "reqps", rate("baton_router_quic_refused_total", "reason"), "{{reason}}"),
		graph("Moved clients' sessions ended for others", "reqps",
			rate("baton_router_quic_moved_evicted_total", "reason"), "{{reason}}"),
	}},
	process("router"),
}}

var relay = board{"relay", "Baton / Relay", []row{
	{"Flows", []panel{
		graph("Flows", "short", of("baton_relay_flows", "entry"), "{{entry}}"),
		graph("Started", "reqps", rate("baton_relay_flows_total", "entry"), "{{entry}}"),
		graph("Refused", "reqps", rate("baton_relay_refused_total", "status"), "{{status}}"),
		{title: "Bytes", unit: "Bps", queries: []query{
			{rate("baton_relay_spliced_bytes_total", "instance"), "{{instance}} spliced"}, {rate("baton_relay_copied_bytes_total", "instance"), "{{instance}} copied"},
		}},
		graph("Timeouts", "reqps", rate("baton_relay_expired_total", "wait"), "{{wait}}"),
		graph("Accepting suspended", "short", rate("baton_relay_full_total", "instance"), "{{instance}}"),
	}},
	{"Peers", []panel{
		graph("Round-trip time", "s", `min by (instance, peer) (baton_relay_peer_rtt_seconds{instance=~"$instance"})`, "{{instance}} to {{peer}}"),
		graph("Ready trunks", "short", of("baton_relay_trunks_ready", "instance, peer"), "{{instance}} to {{peer}}"),
		graph("Flows that waited for a trunk", "reqps", rate("baton_relay_trunks_missed_total", "instance, peer"), "{{instance}} to {{peer}}"),
		graph("Trunks failed and broken", "reqps", rate("baton_relay_trunks_failed_total", "peer")+" + "+rate("baton_relay_trunks_broken_total", "peer"), "{{peer}}"),
		graph("Retransmitted of first flights", "percentunit", rate("baton_relay_first_flight_retransmits_total", "address")+" / "+rate("baton_relay_first_flight_segments_total", "address"), "{{address}}"),
		graph("Flows replayed", "reqps", rate("baton_relay_flows_replayed_total", "peer"), "{{peer}}"),
	}},
	{"Packets", verdicts("baton_relay_packets_total")},
	process("relay"),
}}

var forwarder = board{"forwarder", "Baton / Forwarder", []row{
	{"Packets", append(verdicts("baton_forwarder_packets_total"),
		panel{title: "Caches", unit: "pps", queries: []query{
			{rate("baton_forwarder_megaflow_hits_total", "instance"), "{{instance}} megaflows"}, {rate("baton_forwarder_microflow_hits_total", "instance"), "{{instance}} microflows"},
		}},
	)},
	{"Tables", []panel{
		graph("Entries", "short", of("baton_forwarder_table_entries", "instance, table"), "{{instance}} table {{table}}"),
		graph("Lookups", "pps", rate("baton_forwarder_table_lookups_total", "table"), "table {{table}}"),
		graph("Misses", "pps", rate("baton_forwarder_table_misses_total", "table"), "table {{table}}"),
		graph("Removed", "short", rate("baton_forwarder_entries_removed_total", "reason"), "{{reason}}"),
		graph("Bound flows", "short", of("baton_forwarder_binding_flows", "port, interface"), "{{port}} {{interface}}"),
		graph("Ports down", "short", `baton_forwarder_port_up{instance=~"$instance"} == 0`, "{{instance}} {{port}} {{interface}}"),
	}},
	{"Controllers", []panel{
		graph("Channels", "short", of("baton_forwarder_channels", "endpoint, role"), "{{endpoint}} {{role}}"),
		graph("Messages", "reqps", rate("baton_forwarder_messages_total", "message, outcome"), "{{message}} {{outcome}}"),
		{title: "Packet-ins", unit: "reqps", queries: []query{
			{rate("baton_forwarder_packet_ins_total", "endpoint"), "{{endpoint}} sent"}, {rate("baton_forwarder_packet_ins_dropped_total", "endpoint"), "{{endpoint}} dropped"},
		}},
	}},
	process("forwarder"),
}}

var balance = board{"balance", "Baton / Balance", []row{
	{"Links", []panel{
		graph("Bytes", "Bps", rate("baton_balance_link_bytes_total", "link, direction"), "{{link}} {{direction}}"),
		graph("Usable", "short", `min by (link) (baton_balance_link_usable{instance=~"$instance"})`, "{{link}}"),
		graph("New connections", "reqps", rate("baton_balance_link_connections_total", "link"), "{{link}}"),
		graph("Time of handshakes", "s", `max by (link) (baton_balance_link_rtt_seconds{instance=~"$instance"})`, "{{link}}"),
		graph("Loss", "percentunit", `max by (link) (baton_balance_link_loss_ratio{instance=~"$instance"})`, "{{link}}"),
		graph("Weight", "short", `max by (link) (baton_balance_link_weight{instance=~"$instance"})`, "{{link}}"),
		graph("Flows", "short", of("baton_balance_link_flows", "link"), "{{link}}"),
		graph("Cap used", "percentunit", `baton_balance_link_cap_used_bytes{instance=~"$instance"} / baton_balance_link_cap_bytes{instance=~"$instance"}`, "{{link}}"),
		graph("Connections reset", "reqps", rate("baton_balance_resets_total", "instance"), "{{instance}}"),
	}},
	{"Packets", verdicts("baton_balance_verdicts_total")},
	process("balance"),
}}

var anycast = board{"anycast", "Baton / Anycast", []row{
	{"Sites", []panel{
		graph("Level", "short", `baton_anycast_level{instance=~"$instance"}`, "{{instance}}"),
		graph("Load", "percentunit", `baton_anycast_load_ratio{instance=~"$instance"}`, "{{instance}}"),
		graph("Checks", "short", `baton_anycast_check_healthy{instance=~"$instance"}`, "{{instance}} {{check}}"),
		graph("BGP sessions", "short", `baton_anycast_session_up{instance=~"$instance"}`, "{{instance}} {{peer}}"),
		{title: "Flap penalty", unit: "short", queries: []query{
			{`baton_anycast_flap_penalty{instance=~"$instance"}`, "{{instance}}"}, {`baton_anycast_flap_budget{instance=~"$instance"}`, "{{instance}} budget"},
		}},
		graph("Changes of the level", "short", `increase(baton_anycast_level_changes_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}"),
	}},
	{"Planner", []panel{
		graph("Demand", "Bps", of("baton_anycast_planner_demand_bytes_per_second", "ingress"), "{{ingress}}"),
		graph("Overload", "Bps", of("baton_anycast_planner_overload_bytes_per_second", "instance"), "{{instance}}"),
		graph("Load of sites", "percentunit", of("baton_anycast_planner_site_load_ratio", "site"), "{{site}}"),
	}},
	process("anycast"),
}}

var purge = board{"purge", "Baton / Purge", []row{
	{"Connections", []panel{
		graph("Marked connections by outcome", "reqps", rate("baton_purge_connections_total", "policy, outcome"), "{{policy}} {{outcome}}"),
		graph("Marks", "reqps", rate("baton_purge_marks_total", "policy"), "{{policy}}"),
		graph("Waiting", "short", of("baton_purge_waiting_connections", "instance"), "{{instance}}"),
		graph("Resets", "reqps", rate("baton_purge_resets_total", "result"), "{{result}}"),
		graph("Verdicts", "reqps", rate("baton_purge_verdicts_total", "verdict"), "{{verdict}}"),
		graph("Control groups that are missing", "short", `baton_purge_cgroup_watched{instance=~"$instance"} == 0`, "{{instance}} {{cgroup}}"),
	}},
	process("purge"),
}}

var nameserver = board{"nameserver", "Baton / Name server", []row{
	{"Queries", []panel{
		graph("Queries", "reqps", rate("baton_nameserver_queries_total", "instance"), "{{instance}}"),
		graph("Answers by kind", "reqps", rate("baton_nameserver_answers_total", "kind"), "{{kind}}"),
		graph("Refused", "reqps", rate("baton_nameserver_refused_total", "code"), "{{code}}"),
		graph("Above the limits", "reqps", rate("baton_nameserver_limited_total", "outcome"), "{{outcome}}"),
		graph("TCP connections", "short", of("baton_nameserver_tcp_connections", "instance"), "{{instance}}"),
		graph("Truncated answers", "reqps", rate("baton_nameserver_truncated_total", "instance"), "{{instance}}"),
	}},
	{"Routing", []panel{
		graph("Choices", "reqps", rate("baton_nameserver_decisions_total", "service"), "{{service}}"),
		graph("Without a usable surrogate", "reqps", rate("baton_nameserver_fallbacks_total", "service"), "{{service}}"),
		graph("Chosen surrogates", "reqps", rate("baton_nameserver_surrogate_chosen_total", "surrogate"), "{{surrogate}}"),
		graph("Surrogates up", "short", `min by (surrogate) (baton_nameserver_surrogate_up{instance=~"$instance"})`, "{{surrogate}}"),
		graph("Stale zones", "short", of("baton_nameserver_zone_stale", "zone"), "{{zone}}"),
		graph("Serials", "none", `baton_nameserver_zone_serial{instance=~"$instance"}`, "{{instance}} {{zone}}"),
	}},
	process("nameserver"),
}}

var controller = board{"controller", "Baton / Controller", []row{
	{"Switches", []panel{
		graph("Connected", "short", `baton_controller_switch_up{instance=~"$instance"}`, "{{switch}}"),
		graph("Flow entries", "short", of("baton_controller_switch_flows", "switch"), "{{switch}}"),
		graph("Master", "short", of("baton_controller_master", "instance"), "{{instance}}"),
		{title: "Messages", unit: "reqps", queries: []query{
			{rate("baton_controller_packet_ins_total", "instance"), "{{instance}} packet-ins"}, {rate("baton_controller_packet_outs_total", "instance"), "{{instance}} packet-outs"},
			{rate("baton_controller_flow_mods_total", "instance"), "{{instance}} flow mods"},
		}},
		graph("Packet-ins dropped", "reqps", rate("baton_controller_packet_ins_dropped_total", "instance"), "{{instance}}"),
		graph("Refused", "reqps", rate("baton_controller_refused_total", "reason"), "{{reason}}"),
	}},
	{"Network", []panel{
		graph("Links", "short", of("baton_controller_links", "instance"), "{{instance}}"),
		graph("Hosts", "short", of("baton_controller_hosts", "instance"), "{{instance}}"),
		graph("Reroutes", "reqps", rate("baton_controller_path_reroutes_total", "instance"), "{{instance}}"),
	}},
	{"Content", []panel{
		graph("Handoffs", "reqps", rate("baton_controller_handoffs_total", "surrogate"), "{{surrogate}}"),
		graph("Handoffs that failed", "reqps", rate("baton_controller_handoffs_failed_total", "reason"), "{{reason}}"),
		graph("Without an answer", "reqps", rate("baton_controller_handoffs_unanswered_total", "surrogate"), "{{surrogate}}"),
		graph("Handed-over sessions", "short", of("baton_controller_handoffs_live", "instance"), "{{instance}}"),
		graph("Surrogates up", "short", of("baton_controller_surrogate_up", "surrogate"), "{{surrogate}}"),
		graph("In service", "short", of("baton_controller_surrogate_in_service", "surrogate"), "{{surrogate}}"),
		graph("Sessions", "short", of("baton_controller_surrogate_sessions", "surrogate"), "{{surrogate}}"),
		graph("Idle legs", "short", of("baton_controller_surrogate_idle_legs", "surrogate"), "{{surrogate}}"),
		graph("Proxied by routers", "reqps", rate("baton_controller_sessions_proxied_total", "instance"), "{{instance}}"),
		{title: "Packets through the controller", unit: "pps", queries: []query{
			{rate("baton_controller_session_packets_forwarded_total", "instance"), "{{instance}} forwarded"}, {rate("baton_controller_session_packets_dropped_total", "instance"), "{{instance}} refused"},
			{rate("baton_controller_session_packets_lost_total", "instance"), "{{instance}} lost"},
		}},
	}},
	{"Northbound", []panel{
		graph("Calls", "reqps", rate("baton_controller_northbound_calls_total", "method, result"), "{{method}} {{result}}"),
		graph("Connections", "short", of("baton_controller_northbound_connections", "instance"), "{{instance}}"),
		graph("Events", "reqps", rate("baton_controller_northbound_events_total", "instance"), "{{instance}}"),
		graph("Not read yet", "bytes", of("baton_controller_northbound_unread_bytes", "instance"), "{{instance}}"),
	}},
	process("controller"),
}}
